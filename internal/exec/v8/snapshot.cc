// Saves the heap.
#include "isolate.h"

extern "C" int daybook_snapshot(daybook_isolate* d, daybook_bytes* blob) {
  using namespace daybook;
  if (d->creator == nullptr) return DAYBOOK_SNAPSHOT_FAILED;
  // V8 ends the process if it finds a global handle that it cannot serialize. This check
  // prevents that. The garbage of the run is collected, so any global handle that is not
  // one of the bridge belongs to an object that cannot be saved.
  if (!d->is_quiescent || global_handle_bytes(d->isolate) > d->baseline_handles) return DAYBOOK_SNAPSHOT_UNSERIALIZABLE;
  sample_heap(d);
  {
    v8::HandleScope handles(d->isolate);
    d->creator->SetDefaultContext(d->context.Get(d->isolate));
  }
  d->context.Reset();
  // The snapshot does not keep compiled code: with it, a restored function that used direct
  // eval crashes, and heaps are larger.
  d->blob = d->creator->CreateBlob(v8::SnapshotCreator::FunctionCodeHandling::kClear);
  if (d->blob.data == nullptr) return DAYBOOK_SNAPSHOT_FAILED;
  *blob = {d->blob.data, static_cast<size_t>(d->blob.raw_size)};
  return DAYBOOK_SNAPSHOT_OK;
}
