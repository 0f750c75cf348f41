// Saving the heap.
#include "isolate.h"

extern "C" int daybook_snapshot(daybook_isolate* d, daybook_bytes* blob) {
  using namespace daybook;
  if (d->creator == nullptr) return DAYBOOK_SNAPSHOT_FAILED;
  // V8 ends the process over a global handle it cannot serialize, so ask first.
  // The run left the heap at rest: garbage is gone, and whatever handle is not
  // ours belongs to such an object.
  if (!d->at_rest || global_handle_bytes(d->isolate) > d->baseline_handles) return DAYBOOK_SNAPSHOT_UNSERIALIZABLE;
  sample_heap(d);
  {
    v8::HandleScope handles(d->isolate);
    d->creator->SetDefaultContext(d->context.Get(d->isolate));
  }
  d->context.Reset();
  // Compiled code is dropped: keeping it crashes a restored function that used
  // direct eval, and makes larger heaps.
  d->blob = d->creator->CreateBlob(v8::SnapshotCreator::FunctionCodeHandling::kClear);
  if (d->blob.data == nullptr) return DAYBOOK_SNAPSHOT_FAILED;
  *blob = {d->blob.data, static_cast<size_t>(d->blob.raw_size)};
  return DAYBOOK_SNAPSHOT_OK;
}
