// State of the one isolate, shared by the C++ files of the bridge.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "bridge.h"
#include "budget.h"
#include "random.h"
#include "v8abi.h"

namespace daybook {

// A promise that was rejected without a handler. A handler may have been added since.
struct Rejection {
  v8::Global<v8::Promise> promise;
  v8::Global<v8::Value> reason;
};

// A global of user code: a binding that let, const or class declared, or a property of the
// global object.
struct ListedGlobal {
  std::string name;  // UTF-8; sorts and shows it
  v8::Global<v8::Name> key;
  bool is_lexical;
};

// A WebAssembly module that a plain isolate offers to its script.
struct OfferedModule {
  std::string key;
  daybook_bytes bytes;
  v8::Global<v8::WasmModuleObject> module;  // empty until it is first read
};

// What belongs to one run. A plain isolate gets a new one, with a new context, for each run.
struct RunState {
  RunState(const uint8_t seed[16], double start, uintptr_t to, uintptr_t calls)
      : random(seed), output(to), host(calls), start_ms(start), clock_ms(start) {}

  v8::Global<v8::Context> context;
  Random random;
  uintptr_t output;
  uintptr_t host;
  int pending_calls = 0;  // host calls without an answer
  int artifacts = 0;          // created by the run
  size_t artifact_bytes = 0;  // of these artifacts
  int noted = 0;              // DAYBOOK_NOTED bits of the run
  double start_ms;
  double clock_ms;

  // These are reset before every snapshot.
  std::vector<Rejection> rejections;  // in the order of rejection
  size_t handled_rejections = 0;  // handlers added since drop_handled_rejections last ran
  v8::Global<v8::Value> reported;  // from host.reportError
  bool has_reported = false;

  int regexps = 0;  // not 0 if the run created one; see counter_named
  bool has_new_error = false;  // the run created an error, or took the trace of an object
  bool is_lasting = false;  // the run read an intrinsic of renew.cc

  std::string text;  // backs daybook_result.text
  std::string globals_refused, globals_hidden, global_change;  // back members of daybook_result
  std::vector<ListedGlobal> globals;  // set by daybook_list_globals
  std::string texts[4];  // back daybook_global
  std::vector<OfferedModule> wasm;
  // WebAssembly.Instance and the getter of its exports, if a module was offered. A script may
  // replace both on the global object.
  v8::Global<v8::Function> wasm_instance, wasm_exports;
  daybook_computed computed{};  // the last result of host.compute that was not taken
};

}  // namespace daybook

struct daybook_isolate : daybook::RunState {
  explicit daybook_isolate(const daybook_config& config)
      : RunState(config.seed, config.start_ms, config.output, config.host) {}

  v8::Isolate* isolate = nullptr;
  v8::SnapshotCreator* creator = nullptr;  // null in a plain isolate
  // Its data is valid only while the isolate is created, but as long as a plain isolate exists.
  v8::StartupData restored{nullptr, 0};
  v8::StartupData blob{nullptr, 0};
  std::shared_ptr<daybook::BufferBudget> buffers;
  size_t baseline_handles = 0;  // bytes of the bridge's own global handles
  // The bytes in use, of the heap, of buffers and outside the heap, before the first run of the
  // isolate, and those of the heap before the present run.
  size_t baseline_heap = 0, baseline_buffers = 0, baseline_external = 0, start_heap = 0;

  std::atomic<bool> out_of_memory{false};
  std::atomic<size_t> peak_heap{0};  // of the present run
  size_t inherited = 0;  // bytes in use that earlier runs left as garbage
  size_t used_before_collection = 0;
  // A heap may be saved when it is as large as the limit. A run that starts from it needs
  // more memory: the prelude inspects the heap, and V8 compiles the script. When such a run
  // first reaches the limit, the limit grows by the headroom, in bytes.
  size_t heap_limit = 0;  // 0 for V8's default
  size_t headroom = 0;
  bool used_headroom = false;
  // daybook_terminate wakes a loop that waits for a timer. mutex guards stop.
  std::mutex mutex;
  std::condition_variable wake;
  bool stop = false;
  bool stop_requested() {
    std::lock_guard<std::mutex> lock(mutex);
    return stop;
  }

  bool is_quiescent = true;  // garbage is collected, and no finalization callback is pending
};

namespace daybook {

v8::Platform* platform();

// The isolate of the calling thread, for callbacks that get no context from V8.
extern thread_local daybook_isolate* current;

// The addresses of all native functions, then a zero. A snapshot stores indices of this
// list, so entries may only be appended.
const intptr_t* external_references();

// Returns the kind of an object, such as "map", "proxy" or "asyncFunction".
const char* kind_of(v8::Local<v8::Value> object);
v8::Local<v8::Object> new_host_object(v8::Isolate*, v8::Local<v8::Context>);
void on_promise_reject(v8::PromiseRejectMessage);
// Removes the promises that have a handler. Takes linear time.
void drop_handled_rejections(daybook_isolate*);
v8::MaybeLocal<v8::Value> on_prepare_stack_trace(v8::Local<v8::Context>, v8::Local<v8::Value> error,
                                                 v8::Local<v8::Array> sites);
v8::MaybeLocal<v8::Promise> on_import(v8::Local<v8::Context>, v8::Local<v8::Data> host_defined_options,
                                      v8::Local<v8::Value> resource_name, v8::Local<v8::String> specifier,
                                      v8::Local<v8::FixedArray> import_attributes);
size_t on_near_heap_limit(void* data, size_t current, size_t initial);
void before_collection(v8::Isolate*, v8::GCType, v8::GCCallbackFlags, void* data);
void after_collection(v8::Isolate*, v8::GCType, v8::GCCallbackFlags, void* data);
// Reports whether a heap of used bytes is close to the limit. V8 reserves a part of the
// limit for new objects.
bool near_limit(const daybook_isolate*, size_t used);
// Removes the headroom from a restored heap that is not close to the limit, and ends the
// run of a heap that is larger than the limit.
void check_restored(daybook_isolate*);
size_t sample_heap(daybook_isolate*);  // the bytes in use
// Starts to measure the peak of a run. What earlier runs left does not count.
void begin_measuring(daybook_isolate*);
size_t global_handle_bytes(v8::Isolate*);
// The bytes outside the heap that objects hold, as V8 counts them: without shared buffers.
size_t external_bytes(v8::Isolate*);

// Writes the reason to stderr in one line and ends the process.
[[noreturn]] void die(const char* kind, const char* where, const char* why);

// Counts regular expressions for V8.
int* counter_named(const char* name);
// A script that the bridge compiles is not counted.
class CompileScope {
 public:
  explicit CompileScope(daybook_isolate* d) : d_(d), regexps_(d->regexps) {}
  ~CompileScope() { d_->regexps = regexps_; }
  CompileScope(const CompileScope&) = delete;
  void operator=(const CompileScope&) = delete;

 private:
  daybook_isolate* const d_;
  const int regexps_;
};
// Prepares the regular expressions of a heap without garbage to be saved. It may be stopped.
void unshare_regexps(daybook_isolate*, v8::Local<v8::Context>);
void read_stacks(daybook_isolate*, v8::Local<v8::Context>);

v8::Local<v8::String> new_string(v8::Isolate*, const char*);
// Returns at most limit bytes of valid UTF-8. Sets *cut if the string is longer.
std::string to_utf8(v8::Isolate*, v8::Local<v8::String>, size_t limit, bool* cut);

// Calls entry[name](argv...). The result is empty if the call threw or was terminated.
v8::MaybeLocal<v8::Value> call_entry(daybook_isolate*, v8::Local<v8::Context>, const char* name, int argc,
                                     v8::Local<v8::Value> argv[]);

// Tells the prelude whether the heap is going to be saved.
bool set_mode(daybook_isolate*, v8::Local<v8::Context>);
// Watches the intrinsics of a plain context that leave something in the isolate.
bool watch_lasting(daybook_isolate*, v8::Local<v8::Context>);

constexpr int kEntryIndex = 1;  // of the prelude's entry object, in the context's embedder data

}  // namespace daybook
