#include "budget.h"

namespace daybook {

bool BufferBudget::reserve(size_t length) {
  size_t used = used_.fetch_add(length) + length;
  if (armed_ && limit_ != 0 && (used > limit_ || used < length)) {
    used_ -= length;
    return false;
  }
  return true;
}

void* BufferBudget::Allocate(size_t length) {
  if (!reserve(length)) return nullptr;
  void* data = memory_->Allocate(length);
  if (data == nullptr) used_ -= length;
  return data;
}

void* BufferBudget::AllocateUninitialized(size_t length) {
  // The memory is zeroed nevertheless: a script must not see the data of earlier code.
  return Allocate(length);
}

void BufferBudget::Free(void* data, size_t length) {
  used_ -= length;
  memory_->Free(data, length);
}

size_t BufferBudget::MaxAllocationSize() const {
  return armed_ && limit_ != 0 ? limit_ : memory_->MaxAllocationSize();
}

}  // namespace daybook
