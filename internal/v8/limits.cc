// Heap limits and measurements.
#include "isolate.h"

namespace daybook {

size_t on_near_heap_limit(void* data, size_t current, size_t) {
  auto* d = static_cast<daybook_isolate*>(data);
  d->out_of_memory = true;
  sample_heap(d);
  d->isolate->TerminateExecution();
  // Room to unwind. A script that allocates on without reaching a check point
  // gets it a few times more and then ends in V8's own fatal handler.
  constexpr size_t kRoom = size_t{32} << 20;
  return current + kRoom;
}

void sample_heap(daybook_isolate* d) {
  v8::HeapStatistics stats;
  d->isolate->GetHeapStatistics(&stats);
  if (stats.used_heap_size() > d->peak_heap) d->peak_heap = stats.used_heap_size();
}

void on_collection(v8::Isolate*, v8::GCType, v8::GCCallbackFlags, void* data) {
  sample_heap(static_cast<daybook_isolate*>(data));
}

size_t global_handle_bytes(v8::Isolate* isolate) {
  v8::HeapStatistics stats;
  isolate->GetHeapStatistics(&stats);
  return stats.used_global_handles_size();
}

}  // namespace daybook
