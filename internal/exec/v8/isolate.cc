// Creates, sets up and disposes of the isolate.
#include "isolate.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "feature_window.h"
#include "source.h"

namespace daybook {

namespace {

void on_out_of_memory(const char* where, const v8::OOMDetails& details) { die("oom", where, details.detail); }
void on_api_failure(const char* where, const char* why) { die("api", where, why); }

// Evaluates the prelude and stores its entry object in the context's embedder data. User
// code cannot reach it there, and a snapshot includes it.
bool install_prelude(daybook_isolate* d, v8::Local<v8::Context> context, const daybook_config& config,
                     std::string* error) {
  v8::Isolate* isolate = d->isolate;
  v8::TryCatch caught(isolate);
  auto fail = [&](const char* what) {
    *error = what;
    if (caught.HasCaught() && !caught.HasTerminated()) {
      v8::Local<v8::Value> stack;
      v8::Local<v8::Value> thrown = caught.Exception();
      if (thrown->IsObject() &&
          thrown.As<v8::Object>()->Get(context, new_string(isolate, "stack")).ToLocal(&stack) && stack->FullIsString()) {
        bool cut;
        *error += ": " + to_utf8(isolate, stack.As<v8::String>(), 4096, &cut);
      }
      int line = caught.Message()->GetLineNumber(context).FromMaybe(0);
      *error += " (line " + std::to_string(line) + ")";
    }
    return false;
  };
  // Never freed: V8 may keep its address.
  Source* source = config.prelude.size == 0 ? source_named("prelude")
                                            : new Source("prelude", std::string(config.prelude.data, config.prelude.size));
  v8::Local<v8::Value> prelude, entry;
  if (source == nullptr || !source->evaluate(isolate, context).ToLocal(&prelude) || !prelude->IsFunction()) {
    return fail("load the prelude");
  }
  v8::Local<v8::Value> host = new_host_object(isolate, context);
  if (!prelude.As<v8::Function>()->Call(context, context->Global(), 1, &host).ToLocal(&entry) || !entry->IsObject()) {
    return fail("run the prelude");
  }
  context->SetEmbedderData(kEntryIndex, entry);
  if (config.plain_base) {
    if (call_entry(d, context, "captureIntrinsics", 0, nullptr).IsEmpty()) return fail("record the built-in objects");
    // V8 adds this property when it restores the heap, and ends the process if the
    // property exists.
    v8::Local<v8::Value> native;
    if (!context->Global()->Get(context, new_string(isolate, "Error")).ToLocal(&native) ||
        !native.As<v8::Object>()->Delete(context, new_string(isolate, "stackTraceLimit")).FromMaybe(false)) {
      return fail("make the base of plain isolates");
    }
  } else if (!set_mode(d, context)) {
    return fail("set the prelude's mode");
  }
  isolate->PerformMicrotaskCheckpoint();
  return true;
}

bool init_context(daybook_isolate* d, const daybook_config& config, std::string* error) {
  v8::Isolate* isolate = d->isolate;
  v8::HandleScope handles(isolate);
  v8::Local<v8::Context> context;
  if (config.heap.size != 0) {
    context = v8::Context::New(isolate);
  } else if (d->creator != nullptr && !config.plain_base) {
    FeatureWindow window(isolate);
    context = v8::Context::New(isolate);
  } else {
    context = v8::Context::New(isolate);
  }
  if (context.IsEmpty()) {
    *error = "no context: the heap limit may be too low for this heap";
    return false;
  }
  d->context.Reset(isolate, context);
  v8::Context::Scope scope(context);
  if (config.heap.size == 0) return install_prelude(d, context, config, error);
  if (!context->SlowGetEmbedderData(kEntryIndex)->IsObject()) {
    *error = "the heap was not made by this engine";
    return false;
  }
  if (config.plain && (!set_mode(d, context) || !watch_lasting(d, context))) {
    *error = "set up the context";
    return false;
  }
  return true;
}

}  // namespace

bool set_mode(daybook_isolate* d, v8::Local<v8::Context> context) {
  v8::Local<v8::Value> stateful;
  return v8::JSON::Parse(context, new_string(d->isolate, d->creator != nullptr ? "true" : "false")).ToLocal(&stateful) &&
         !call_entry(d, context, "setMode", 1, &stateful).IsEmpty();
}

v8::Local<v8::String> new_string(v8::Isolate* isolate, const char* text) {
  return v8::String::NewFromUtf8(isolate, text, v8::NewStringType::kInternalized).ToLocalChecked();
}

std::string to_utf8(v8::Isolate* isolate, v8::Local<v8::String> value, size_t limit, bool* cut) {
  size_t size = value->Utf8LengthV2(isolate);
  *cut = size > limit;
  std::string text(*cut ? limit : size, '\0');
  text.resize(value->WriteUtf8V2(isolate, text.data(), text.size(), v8::String::WriteFlags::kReplaceInvalidUtf8));
  return text;
}

v8::MaybeLocal<v8::Value> call_entry(daybook_isolate* d, v8::Local<v8::Context> context, const char* name, int argc,
                                     v8::Local<v8::Value> argv[]) {
  auto entry = context->SlowGetEmbedderData(kEntryIndex).As<v8::Object>();
  v8::Local<v8::Value> method;
  if (!entry->Get(context, new_string(d->isolate, name)).ToLocal(&method)) return {};
  if (!method->IsFunction()) die("prelude", name, "is not a function of the prelude's entry");
  return method.As<v8::Function>()->Call(context, entry, argc, argv);
}

// Returns the text of an error's stack. V8 calls it when the stack is first read.
v8::MaybeLocal<v8::Value> on_prepare_stack_trace(v8::Local<v8::Context> context, v8::Local<v8::Value> error,
                                                 v8::Local<v8::Array> sites) {
  v8::Local<v8::Value> args[2] = {error, sites};
  return call_entry(current, context, "prepareStack", 2, args);
}

// Returns the promise of an import(specifier). V8 turns an exception into a rejection.
v8::MaybeLocal<v8::Promise> on_import(v8::Local<v8::Context> context, v8::Local<v8::Data>, v8::Local<v8::Value>,
                                      v8::Local<v8::String> specifier, v8::Local<v8::FixedArray>) {
  v8::Local<v8::Value> arg = specifier, promise;
  if (!call_entry(current, context, "importModule", 1, &arg).ToLocal(&promise) || !promise->IsPromise()) return {};
  return promise.As<v8::Promise>();
}

}  // namespace daybook

extern "C" daybook_isolate* daybook_new(const daybook_config* config, char* error, size_t capacity) {
  using namespace daybook;
  auto* d = new daybook_isolate(*config);
  std::string why;
  d->buffers = std::make_shared<BufferBudget>(config->buffer_limit);

  v8::Isolate::CreateParams params;
  params.array_buffer_allocator_shared = d->buffers;
  params.external_references = external_references();
  params.allow_atomics_wait = false;  // no other thread could wake the script
  if (config->heap_limit != 0) params.constraints.ConfigureDefaultsFromHeapSize(0, config->heap_limit);
  if (config->heap.size != 0) {
    d->restored = {config->heap.data, static_cast<int>(config->heap.size)};
    if (!d->restored.IsValid()) {
      snprintf(error, capacity, "%s", "the heap was made by another V8 version");
      delete d;
      return nullptr;
    }
    params.snapshot_blob = &d->restored;
  }
  d->heap_limit = config->heap_limit;
  if (config->heap.size != 0 && !config->plain && d->heap_limit != 0) d->headroom = d->heap_limit / 16 + (size_t{2} << 20);
  current = d;
  if (config->plain) {
    d->isolate = v8::Isolate::New(params);
    d->isolate->Enter();
  } else {
    d->creator = new v8::SnapshotCreator(params);  // enters the isolate
    d->isolate = d->creator->GetIsolate();
    d->isolate->SetCounterFunction(counter_named);
  }
  d->isolate->SetOOMErrorHandler(on_out_of_memory);
  d->isolate->SetFatalErrorHandler(on_api_failure);
  d->isolate->SetMicrotasksPolicy(v8::MicrotasksPolicy::kExplicit);
  d->isolate->SetPromiseRejectCallback(on_promise_reject);
  d->isolate->AddNearHeapLimitCallback(on_near_heap_limit, d);
  d->isolate->AddGCPrologueCallback(before_collection, d);
  d->isolate->AddGCEpilogueCallback(after_collection, d);
  if (!init_context(d, *config, &why)) {
    snprintf(error, capacity, "%s", why.c_str());
    daybook_dispose(d);
    return nullptr;
  }
  check_restored(d);
  // These two need the prelude's entry.
  d->isolate->SetPrepareStackTraceCallback(on_prepare_stack_trace);
  d->isolate->SetHostImportModuleDynamicallyCallback(on_import);
  d->rejections.clear();
  d->buffers->arm();
  d->baseline_handles = global_handle_bytes(d->isolate);
  d->baseline_heap = d->start_heap = sample_heap(d);
  d->baseline_buffers = d->buffers->used();
  d->baseline_external = external_bytes(d->isolate);
  return d;
}

extern "C" void daybook_assign(daybook_isolate* d, const uint8_t seed[16], double start_ms, uintptr_t output,
                               uintptr_t host) {
  d->random = daybook::Random(seed);
  d->start_ms = d->clock_ms = start_ms;
  d->output = output;
  d->host = host;
}

extern "C" void daybook_terminate(daybook_isolate* d) {
  {
    std::lock_guard<std::mutex> lock(d->mutex);
    d->stop = true;
  }
  d->isolate->TerminateExecution();
  d->wake.notify_all();
}

extern "C" void daybook_dispose(daybook_isolate* d) {
  using namespace daybook;
  v8::Isolate* isolate = d->isolate;
  d->rejections.clear();
  d->reported.Reset();
  d->globals.clear();
  d->wasm.clear();
  d->wasm_instance.Reset();
  d->wasm_exports.Reset();
  d->context.Reset();
  v8::platform::NotifyIsolateShutdown(platform(), isolate);
  if (d->creator != nullptr) {
    delete d->creator;  // exits and disposes of the isolate
  } else {
    isolate->Exit();
    isolate->Dispose();
  }
  delete[] d->blob.data;
  free(d->computed.data);
  current = nullptr;
  delete d;
}
