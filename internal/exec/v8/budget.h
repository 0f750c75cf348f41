// A byte budget for ArrayBuffer contents, which V8's heap limit does not bound.
#pragma once

#include <atomic>
#include <memory>

#include "v8abi.h"

namespace daybook {

// Refuses what would exceed the budget; V8 turns a refusal into a RangeError.
class BufferBudget : public v8::ArrayBuffer::Allocator {
 public:
  explicit BufferBudget(size_t limit) : limit_(limit) {}

  // While a heap is being restored a refusal would end the process, so the
  // budget only counts until it is armed.
  void arm() { armed_ = true; }

  void* Allocate(size_t length) override;
  void* AllocateUninitialized(size_t length) override;
  void Free(void* data, size_t length) override;
  size_t MaxAllocationSize() const override;
  v8::PageAllocator* GetPageAllocator() override { return memory_->GetPageAllocator(); }

 private:
  bool take(size_t length);

  std::unique_ptr<v8::ArrayBuffer::Allocator> memory_{v8::ArrayBuffer::Allocator::NewDefaultAllocator()};
  std::atomic<size_t> used_{0};
  std::atomic<bool> armed_{false};
  const size_t limit_;
};

}  // namespace daybook
