// Gives a plain isolate a new context for the next run, which takes a quarter of the time of a new
// isolate.
//
// Contexts of an isolate share no object. They share what follows, which the next run must not
// notice:
//
//   - The queue of microtasks: V8 drops those of a detached context, also those that its promises
//     add later.
//   - Compiled scripts, with what V8 has learned from running them: they are forgotten, except
//     those of the prelude.
//   - Memory for objects and buffers: garbage is collected before there is much of it, and buffers
//     at once. The memory of resizable buffers is not in their budget, but V8 counts it.
//   - What the intrinsics in kLasting create: a run that reads one of them is the last one of its
//     isolate. The callbacks of a FinalizationRegistry run in any later collection. Memories of
//     WebAssembly are outside the heap, and modules are compiled in the background. Symbols of
//     Symbol.for stay in the heap. Nothing counts the memory of shared buffers that can grow.
//   - Caches of V8 and of its libraries, which only change the time that a run takes.
//
#include <cstdlib>

#include "isolate.h"

namespace daybook {
namespace {

using v8::Local;
using v8::Value;

// How much memory runs may leave, in bytes. A run that leaves much takes so long that the time of a
// new isolate matters little.
constexpr size_t kMostOfRun = size_t{2} << 20;
constexpr size_t kMostOfAll = size_t{8} << 20;  // before a collection
constexpr size_t kMostKept = size_t{2} << 20;   // after a collection: compiled functions of the prelude
constexpr size_t kMostExternal = size_t{2} << 20;  // outside the heap, as V8 counts it

constexpr uint8_t kNoSeed[16] = {};  // daybook_assign sets it

struct Lasting {
  const char* object;  // a property of the global object, or null for the global object itself
  const char* name;
};

constexpr Lasting kLasting[] = {{nullptr, "FinalizationRegistry"}, {nullptr, "WebAssembly"}, {nullptr, "SharedArrayBuffer"}, {"Symbol", "for"}};

void note_lasting(Local<v8::Name>, const v8::PropertyCallbackInfo<Value>& info) {
  current->is_lasting = true;
  info.Return(info.Data());
}

// Reports whether runs left buffers that take memory, or objects with much memory outside the heap.
bool has_external(daybook_isolate* d) {
  return d->buffers->used() > d->baseline_buffers || external_bytes(d->isolate) > d->baseline_external + kMostExternal;
}

bool restore_context(daybook_isolate* d) {
  v8::HandleScope handles(d->isolate);
  Local<v8::Context> context = v8::Context::New(d->isolate);
  if (context.IsEmpty()) return false;
  d->context.Reset(d->isolate, context);
  v8::Context::Scope scope(context);
  return set_mode(d, context) && watch_lasting(d, context);
}

}  // namespace

bool watch_lasting(daybook_isolate* d, Local<v8::Context> context) {
  for (const Lasting& lasting : kLasting) {
    Local<v8::Object> object = context->Global();
    Local<Value> owner, value;
    if (lasting.object != nullptr) {
      if (!object->Get(context, new_string(d->isolate, lasting.object)).ToLocal(&owner) || !owner->IsFunction()) return false;
      object = owner.As<v8::Object>();
    }
    // For the script, this is an ordinary property.
    Local<v8::Name> name = new_string(d->isolate, lasting.name).As<v8::Name>();
    if (!object->Get(context, name).ToLocal(&value) ||
        !object->SetLazyDataProperty(context, name, note_lasting, value, v8::DontEnum).FromMaybe(false)) {
      return false;
    }
  }
  return true;
}

}  // namespace daybook

extern "C" int daybook_renew(daybook_isolate* d) {
  using namespace daybook;
  v8::Isolate* isolate = d->isolate;
  if (d->creator != nullptr || d->is_lasting || !d->wasm.empty() || d->out_of_memory || d->stop_requested() ||
      isolate->HasPendingBackgroundTasks()) {
    return 0;
  }
  {
    v8::HandleScope handles(isolate);
    d->context.Get(isolate)->DetachGlobal();
  }
  free(d->computed.data);
  static_cast<RunState&>(*d) = RunState(kNoSeed, 0, 0, 0);
  isolate->PerformMicrotaskCheckpoint();  // drops those of the detached context
  while (v8::platform::PumpMessageLoop(platform(), isolate)) {
  }
  isolate->ClearCachesForTesting();
  const size_t used = sample_heap(d);
  if (used > d->start_heap + kMostOfRun) return 0;
  if (used > d->baseline_heap + kMostOfAll || has_external(d)) {
    isolate->LowMemoryNotification();
    if (sample_heap(d) > d->baseline_heap + kMostKept || has_external(d)) return 0;
  }
  if (!restore_context(d) || d->out_of_memory) return 0;
  d->rejections.clear();
  begin_measuring(d);
  return 1;
}
