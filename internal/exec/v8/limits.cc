// Heap limits and measurements.
#include "isolate.h"

namespace daybook {

size_t on_near_heap_limit(void* data, size_t current, size_t) {
  auto* d = static_cast<daybook_isolate*>(data);
  if (d->headroom > 0) {
    const size_t more = d->headroom;
    d->headroom = 0;
    d->used_headroom = true;
    return current + more;
  }
  d->out_of_memory = true;
  sample_heap(d);
  d->isolate->TerminateExecution();
  // Space to unwind the stack. A script that continues to allocate without reaching a
  // check for termination gets it several times, and then V8 calls its out-of-memory handler.
  constexpr size_t kUnwindBytes = size_t{32} << 20;
  return current + kUnwindBytes;
}

bool near_limit(const daybook_isolate* d, size_t used) {
  const size_t reserve = d->heap_limit / 16 + (size_t{3} << 20);
  return d->heap_limit > reserve && used > d->heap_limit - reserve;
}

void check_restored(daybook_isolate* d) {
  const size_t used = sample_heap(d);
  if (near_limit(d, used) && used <= d->heap_limit) return;
  d->headroom = 0;
  if (d->used_headroom && used > d->heap_limit) {
    d->out_of_memory = true;
    d->isolate->TerminateExecution();
  }
}

static size_t used_heap(daybook_isolate* d) {
  v8::HeapStatistics stats;
  d->isolate->GetHeapStatistics(&stats);
  return stats.used_heap_size();
}

size_t sample_heap(daybook_isolate* d) {
  const size_t used = used_heap(d);
  const size_t own = used > d->inherited ? used - d->inherited : 0;
  if (own > d->peak_heap) d->peak_heap = own;
  return used;
}

void begin_measuring(daybook_isolate* d) {
  d->start_heap = used_heap(d);
  d->inherited = d->start_heap > d->baseline_heap ? d->start_heap - d->baseline_heap : 0;
  d->peak_heap = 0;
}

void before_collection(v8::Isolate*, v8::GCType, v8::GCCallbackFlags, void* data) {
  auto* d = static_cast<daybook_isolate*>(data);
  d->used_before_collection = sample_heap(d);
}

// Garbage that earlier runs left is collected first, or this run would appear too small.
void after_collection(v8::Isolate*, v8::GCType, v8::GCCallbackFlags, void* data) {
  auto* d = static_cast<daybook_isolate*>(data);
  if (d->inherited == 0) return;
  const size_t used = used_heap(d);
  const size_t freed = d->used_before_collection > used ? d->used_before_collection - used : 0;
  d->inherited = freed < d->inherited ? d->inherited - freed : 0;
}

size_t global_handle_bytes(v8::Isolate* isolate) {
  v8::HeapStatistics stats;
  isolate->GetHeapStatistics(&stats);
  return stats.used_global_handles_size();
}

size_t external_bytes(v8::Isolate* isolate) {
  v8::HeapStatistics stats;
  isolate->GetHeapStatistics(&stats);
  return stats.external_memory();
}

}  // namespace daybook
