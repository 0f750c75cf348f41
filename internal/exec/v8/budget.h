// A limit in bytes for the contents of ArrayBuffers, which V8's heap limit does not include.
#pragma once

#include <atomic>
#include <memory>

#include "v8abi.h"

namespace daybook {

// Refuses an allocation that would exceed the limit. V8 then throws a RangeError.
class BufferBudget : public v8::ArrayBuffer::Allocator {
 public:
  explicit BufferBudget(size_t limit) : limit_(limit) {}

  // Starts to enforce the limit. Before that, the budget only counts, because a refusal
  // while V8 restores a heap would end the process.
  void arm() { armed_ = true; }
  size_t used() const { return used_; }  // bytes

  void* Allocate(size_t length) override;
  void* AllocateUninitialized(size_t length) override;
  void Free(void* data, size_t length) override;
  size_t MaxAllocationSize() const override;
  v8::PageAllocator* GetPageAllocator() override { return memory_->GetPageAllocator(); }

 private:
  bool reserve(size_t length);

  std::unique_ptr<v8::ArrayBuffer::Allocator> memory_{v8::ArrayBuffer::Allocator::NewDefaultAllocator()};
  std::atomic<size_t> used_{0};
  std::atomic<bool> armed_{false};
  const size_t limit_;
};

}  // namespace daybook
