// Hand-written declarations of the V8 13.6 entry points that the bridge calls.
//
// A plain `go build` cannot use the real headers: they are in the module cache, and no cgo
// directive can name a path there. Two checks replace them. The linker checks every
// function, because its mangled name contains its class, constness and parameter types.
// TestABI checks layouts, return types and enum values: it compiles testdata/abi_check.cc
// against the real headers.
//
// V8's inline functions (Undefined, GetData, IsString, ReturnValue) read object internals at
// fixed offsets. They are deliberately not declared here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace v8 {

class Array;
class CFunction;
class Context;
class CppHeap;
class Data;
class ExtensionConfiguration;
class FixedArray;
class Function;
class FunctionTemplate;
class HeapProfiler;
class Isolate;
class MicrotaskQueue;
class Name;
class Object;
class ObjectTemplate;
class PageAllocator;
class Platform;
class Promise;
class Signature;
class String;
class TracingController;
class Value;

namespace internal {
namespace wasm {
class NativeModule;
}
using Address = uintptr_t;
class Heap;
// The object behind v8::HeapProfiler.
class HeapProfiler {
 public:
  Heap* heap() const;
};
// Visits the objects of a heap, but not the read-only ones. Nothing may be allocated in the
// heap meanwhile. v8::HeapProfiler::QueryObjects uses it too, but also visits the read-only
// objects, which fails in an isolate that can be saved: V8 adds strings to them.
class HeapObjectIterator {
 public:
  enum HeapObjectsFiltering { kNoFiltering, kFilterUnreachable };
  explicit HeapObjectIterator(Heap*, HeapObjectsFiltering);
  ~HeapObjectIterator();
  HeapObjectIterator(const HeapObjectIterator&) = delete;
  void operator=(const HeapObjectIterator&) = delete;
  Address Next();  // its low half is 0 after the last object

 private:
  alignas(16) unsigned char opaque_[256];  // V8 uses 56 of them
};
enum class BlockingBehavior { kBlock, kDontBlock };
// Has only the members that feature_window.h and compiler_window.h need.
class Isolate {
 public:
  bool use_optimizer();
  void AbortConcurrentOptimization(BlockingBehavior);
};
class Deoptimizer {
 public:
  static void DeoptimizeAll(Isolate*);
};
}  // namespace internal

enum class NewStringType { kNormal, kInternalized };
enum class MicrotasksPolicy { kExplicit, kScoped, kAuto };
enum class ConstructorBehavior { kThrow, kAllow };
enum class SideEffectType { kHasSideEffect, kHasNoSideEffect, kHasSideEffectToReceiver };
enum PropertyFilter { ALL_PROPERTIES = 0, ONLY_ENUMERABLE = 2 };
enum class KeyCollectionMode { kOwnOnly, kIncludePrototypes };
enum class IndexFilter { kIncludeIndices, kSkipIndices };
enum class KeyConversionMode { kConvertToString, kKeepNumbers, kNoNumbers };
enum PropertyAttribute { None = 0, ReadOnly = 1, DontEnum = 2, DontDelete = 4 };

// A handle: one pointer to a slot of the current HandleScope.
template <class T>
class Local {
 public:
  Local() = default;
  template <class S>
  Local(Local<S> other) : slot_(other.slot_) {  // NOLINT: upcasts are implicit
    T* upcast = static_cast<S*>(nullptr);
    (void)upcast;
  }
  bool IsEmpty() const { return slot_ == nullptr; }
  T* operator->() const { return reinterpret_cast<T*>(slot_); }
  T* operator*() const { return reinterpret_cast<T*>(slot_); }
  template <class S>
  Local<S> As() const {
    Local<S> cast;
    cast.slot_ = slot_;
    return cast;
  }

  internal::Address* slot_ = nullptr;
};

template <class T>
class MaybeLocal {
 public:
  MaybeLocal() = default;
  template <class S>
  MaybeLocal(Local<S> value) : value_(value) {}  // NOLINT: as in V8
  bool IsEmpty() const { return value_.IsEmpty(); }
  template <class S>
  [[nodiscard]] bool ToLocal(Local<S>* out) const {
    *out = value_;
    return !value_.IsEmpty();
  }
  Local<T> ToLocalChecked() {
    if (value_.IsEmpty()) __builtin_trap();
    return value_;
  }

 private:
  Local<T> value_;
};

template <class T>
class Maybe {
 public:
  T FromMaybe(const T& fallback) const { return has_value_ ? value_ : fallback; }

 private:
  bool has_value_ = false;
  T value_;
};

class HandleScope {
 public:
  explicit HandleScope(Isolate*);
  ~HandleScope();
  HandleScope(const HandleScope&) = delete;
  void operator=(const HandleScope&) = delete;
  static internal::Address* CreateHandle(internal::Isolate*, internal::Address);

 private:
  void* opaque_[3];
};

namespace api_internal {
internal::Address* GlobalizeReference(internal::Isolate*, internal::Address);
void DisposeGlobal(internal::Address*);
}  // namespace api_internal

// A handle that outlives scopes. Every handle that is set counts in the check for global
// handles before a snapshot.
template <class T>
class Global {
 public:
  Global() = default;
  Global(Isolate* isolate, Local<T> value) { Reset(isolate, value); }
  Global(Global&& other) noexcept : slot_(other.slot_) { other.slot_ = nullptr; }
  Global& operator=(Global&& other) noexcept {
    if (this != &other) {
      Reset();
      slot_ = other.slot_;
      other.slot_ = nullptr;
    }
    return *this;
  }
  Global(const Global&) = delete;
  void operator=(const Global&) = delete;
  ~Global() { Reset(); }

  bool IsEmpty() const { return slot_ == nullptr; }
  void Reset() {
    if (slot_ != nullptr) api_internal::DisposeGlobal(slot_);
    slot_ = nullptr;
  }
  void Reset(Isolate* isolate, Local<T> value) {
    Reset();
    if (value.IsEmpty()) return;
    slot_ = api_internal::GlobalizeReference(reinterpret_cast<internal::Isolate*>(isolate), *value.slot_);
  }
  Local<T> Get(Isolate* isolate) const {
    Local<T> local;
    if (slot_ != nullptr) {
      local.slot_ = HandleScope::CreateHandle(reinterpret_cast<internal::Isolate*>(isolate), *slot_);
    }
    return local;
  }

 private:
  internal::Address* slot_ = nullptr;
};

class Data {};

class Value : public Data {
 public:
  bool FullIsString() const;
  bool FullIsTrue() const;
  bool IsArgumentsObject() const;
  bool IsArray() const;
  bool IsArrayBuffer() const;
  bool IsAsyncFunction() const;
  bool IsBigIntObject() const;
  bool IsBooleanObject() const;
  bool IsDataView() const;
  bool IsDate() const;
  bool IsExternal() const;
  bool IsFunction() const;
  bool IsGeneratorFunction() const;
  bool IsGeneratorObject() const;
  bool IsMap() const;
  bool IsMapIterator() const;
  bool IsModuleNamespaceObject() const;
  bool IsNativeError() const;
  bool IsNumber() const;
  bool IsNumberObject() const;
  bool IsObject() const;
  bool IsPromise() const;
  bool IsProxy() const;
  bool IsRegExp() const;
  bool IsSet() const;
  bool IsSetIterator() const;
  bool IsSharedArrayBuffer() const;
  bool IsStringObject() const;
  bool IsSymbol() const;
  bool IsSymbolObject() const;
  bool IsTypedArray() const;
  bool IsUint8Array() const;
  bool IsWasmModuleObject() const;
  bool IsWeakMap() const;
  bool IsWeakRef() const;
  bool IsWeakSet() const;
  bool StrictEquals(Local<Value>) const;
  Local<String> TypeOf(Isolate*);
  Maybe<double> NumberValue(Local<Context>) const;
};

class Primitive : public Value {};
class Name : public Primitive {};

class String : public Name {
 public:
  struct WriteFlags {
    enum { kNone = 0, kNullTerminate = 1, kReplaceInvalidUtf8 = 2 };
  };
  static MaybeLocal<String> NewFromUtf8(Isolate*, const char*, NewStringType = NewStringType::kNormal, int length = -1);
  class ExternalOneByteStringResource;  // daybook::Source has its layout
  static MaybeLocal<String> NewExternalOneByte(Isolate*, ExternalOneByteStringResource*);
  int Length() const;  // UTF-16 units
  size_t Utf8LengthV2(Isolate*) const;
  // Writes whole characters only. Returns the bytes written.
  size_t WriteUtf8V2(Isolate*, char* buffer, size_t capacity, int flags, size_t* processed_characters = nullptr) const;
};

class Symbol : public Name {
 public:
  Local<Value> Description(Isolate*) const;
};

class Number : public Primitive {
 public:
  static Local<Number> New(Isolate*, double);
};

class PropertyDescriptor {
 public:
  explicit PropertyDescriptor(Local<Value>);  // has a value and no attributes
  ~PropertyDescriptor();
  PropertyDescriptor(const PropertyDescriptor&) = delete;
  void operator=(const PropertyDescriptor&) = delete;

 private:
  void* private_;
};

template <class T>
class PropertyCallbackInfo;
using AccessorNameGetterCallback = void (*)(Local<Name>, const PropertyCallbackInfo<Value>&);

class Object : public Value {
 public:
  // Defines an ordinary property whose value the getter returns at the first access.
  Maybe<bool> SetLazyDataProperty(Local<Context>, Local<Name>, AccessorNameGetterCallback, Local<v8::Value> data = {},
                                  PropertyAttribute = None, SideEffectType getter = SideEffectType::kHasSideEffect,
                                  SideEffectType setter = SideEffectType::kHasSideEffect);
  // These two call no getter or setter. The result is false if the object refuses.
  Maybe<bool> CreateDataProperty(Local<Context>, Local<Name>, Local<v8::Value>);
  Maybe<bool> DefineProperty(Local<Context>, Local<Name>, PropertyDescriptor&);
  MaybeLocal<v8::Value> Get(Local<Context>, Local<v8::Value>);
  Maybe<bool> Set(Local<Context>, Local<v8::Value>, Local<v8::Value>);
  Maybe<bool> Delete(Local<Context>, Local<v8::Value>);
  // These two return whether the object itself has an accessor of the name, and the
  // attributes of its property. They call no getter.
  Maybe<bool> HasRealNamedCallbackProperty(Local<Context>, Local<Name>);
  Maybe<PropertyAttribute> GetRealNamedPropertyAttributes(Local<Context>, Local<Name>);
  MaybeLocal<v8::Value> GetOwnPropertyDescriptor(Local<Context>, Local<Name>);
  Local<String> GetConstructorName();
  MaybeLocal<Array> PreviewEntries(bool* is_key_value);
  MaybeLocal<Array> GetPropertyNames(Local<Context>, KeyCollectionMode, PropertyFilter, IndexFilter, KeyConversionMode);
};

class Array : public Object {
 public:
  static Local<Array> New(Isolate*, Local<v8::Value>* elements, size_t length);
  uint32_t Length() const;
};

class Map : public Object {
 public:
  size_t Size() const;
};

class Set : public Object {
 public:
  size_t Size() const;
};

class Function : public Object {
 public:
  MaybeLocal<Object> NewInstance(Local<Context>, int argc, Local<v8::Value> argv[]) const;
  MaybeLocal<v8::Value> Call(Local<Context>, Local<v8::Value> receiver, int argc, Local<v8::Value> argv[]);
  // The name without a call of any getter; undefined for a proxy.
  Local<v8::Value> GetDebugName() const;
};

template <class T>
class MemorySpan {
 public:
  MemorySpan(T* data, size_t size) : data_(data), size_(size) {}

 private:
  T* data_;
  size_t size_;
};

// The compiled code of a module, which isolates of a process share.
class CompiledWasmModule {
 private:
  std::shared_ptr<internal::wasm::NativeModule> native_module_;
  std::string source_url_;
};

class WasmModuleObject : public Object {
 public:
  static MaybeLocal<WasmModuleObject> FromCompiledModule(Isolate*, const CompiledWasmModule&);
  CompiledWasmModule GetCompiledModule();
  static MaybeLocal<WasmModuleObject> Compile(Isolate*, MemorySpan<const uint8_t> wire_bytes);
};

class Proxy : public Object {
 public:
  Local<v8::Value> GetTarget();
  Local<v8::Value> GetHandler();
};

class ArrayBuffer : public Object {
 public:
  class Allocator {
   public:
    virtual ~Allocator() = default;
    virtual void* Allocate(size_t length) = 0;
    virtual void* AllocateUninitialized(size_t length) = 0;
    virtual void Free(void* data, size_t length) = 0;
    virtual size_t MaxAllocationSize() const { return size_t{1} << 35; }
    virtual PageAllocator* GetPageAllocator() { return nullptr; }
    static Allocator* NewDefaultAllocator();
  };
  void* Data() const;
  size_t ByteLength() const;
};

class ArrayBufferView : public Object {
 public:
  Local<ArrayBuffer> Buffer();
  size_t ByteOffset();
  size_t ByteLength();
};

class Promise : public Object {
 public:
  enum PromiseState { kPending, kFulfilled, kRejected };
  PromiseState State();
  Local<v8::Value> Result();
  bool HasHandler() const;
};

enum PromiseRejectEvent {
  kPromiseRejectWithNoHandler = 0,
  kPromiseHandlerAddedAfterReject = 1,
  kPromiseRejectAfterResolved = 2,
  kPromiseResolveAfterResolved = 3,
};

class PromiseRejectMessage {
 public:
  Local<Promise> promise_;
  PromiseRejectEvent event_;
  Local<Value> value_;
};
using PromiseRejectCallback = void (*)(PromiseRejectMessage);
using PrepareStackTraceCallback = MaybeLocal<Value> (*)(Local<Context>, Local<Value> error, Local<Array> sites);
using HostImportModuleDynamicallyCallback = MaybeLocal<Promise> (*)(Local<Context>, Local<Data> host_defined_options,
                                                                    Local<Value> resource_name, Local<String> specifier,
                                                                    Local<FixedArray> import_attributes);

class JSON {
 public:
  static MaybeLocal<Value> Parse(Local<Context>, Local<String>);
};

template <class T>
class FunctionCallbackInfo {
 public:
  static constexpr int kIsolateIndex = 1;
  static constexpr int kReturnValueIndex = 3;

  int Length() const { return static_cast<int>(length_); }
  Isolate* GetIsolate() const { return reinterpret_cast<Isolate*>(implicit_args_[kIsolateIndex]); }
  // The result is empty if the caller passed fewer arguments.
  Local<Value> operator[](int i) const {
    Local<Value> arg;
    if (i < Length()) arg.slot_ = values_ + i;
    return arg;
  }
  void Return(Local<Value> value) const { implicit_args_[kReturnValueIndex] = *value.slot_; }

 private:
  internal::Address* implicit_args_;
  internal::Address* values_;
  internal::Address length_;
};
template <class T>
class PropertyCallbackInfo {
 public:
  static constexpr int kIsolateIndex = 3;
  static constexpr int kReturnValueIndex = 5;
  static constexpr int kDataIndex = 6;
  static constexpr int kArgsLength = 8;

  Isolate* GetIsolate() const { return reinterpret_cast<Isolate*>(args_[kIsolateIndex]); }
  Local<Value> Data() const {
    Local<Value> data;
    data.slot_ = &args_[kDataIndex];
    return data;
  }
  void Return(Local<Value> value) const { args_[kReturnValueIndex] = *value.slot_; }

 private:
  mutable internal::Address args_[kArgsLength];
};
using FunctionCallback = void (*)(const FunctionCallbackInfo<Value>&);

class Template : public Data {
 public:
  void Set(Local<Name>, Local<Data>, PropertyAttribute = None);
};

class FunctionTemplate : public Template {
 public:
  static Local<FunctionTemplate> New(Isolate*, FunctionCallback = nullptr, Local<Value> = Local<Value>(),
                                     Local<Signature> = Local<Signature>(), int length = 0,
                                     ConstructorBehavior = ConstructorBehavior::kAllow,
                                     SideEffectType = SideEffectType::kHasSideEffect, const CFunction* = nullptr,
                                     uint16_t = 0, uint16_t = 0, uint16_t = 0);
  MaybeLocal<Function> GetFunction(Local<Context>);
};

class ObjectTemplate : public Template {
 public:
  static Local<ObjectTemplate> New(Isolate*, Local<FunctionTemplate> = Local<FunctionTemplate>());
  MaybeLocal<Object> NewInstance(Local<Context>);
};

struct StartupData {
  bool IsValid() const;
  const char* data;
  int raw_size;
};

struct EmbedderCallback {
  void* callback = nullptr;
  void* data = nullptr;
};
struct SerializeInternalFieldsCallback : EmbedderCallback {};
struct SerializeContextDataCallback : EmbedderCallback {};
struct SerializeAPIWrapperCallback : EmbedderCallback {};
struct DeserializeInternalFieldsCallback : EmbedderCallback {};
struct DeserializeContextDataCallback : EmbedderCallback {};
struct DeserializeAPIWrapperCallback : EmbedderCallback {};

class Context : public Data {
 public:
  static Local<Context> New(Isolate*, ExtensionConfiguration* = nullptr, MaybeLocal<ObjectTemplate> = {},
                            MaybeLocal<Value> = {}, DeserializeInternalFieldsCallback = {}, MicrotaskQueue* = nullptr,
                            DeserializeContextDataCallback = {}, DeserializeAPIWrapperCallback = {});
  Local<Object> Global();
  void Enter();
  void Exit();
  // Drops the microtasks of the context, also later ones. Its scripts lose their globals.
  void DetachGlobal();
  void SetEmbedderData(int index, Local<Value>);
  Local<Value> SlowGetEmbedderData(int index);

  class Scope {
   public:
    explicit Scope(Local<Context> context) : context_(context) { context_->Enter(); }
    ~Scope() { context_->Exit(); }
    Scope(const Scope&) = delete;
    void operator=(const Scope&) = delete;

   private:
    Local<Context> context_;
  };
};

class ScriptOriginOptions {
 private:
  int flags_ = 0;
};

class ScriptOrigin {
 public:
  // line_offset is added to the numbers of all lines, which start at 1.
  explicit ScriptOrigin(Local<Value> name, int line_offset = 0) : name_(name), line_offset_(line_offset) {}

 private:
  Local<Value> name_;
  int line_offset_;
  int column_offset_ = 0;
  ScriptOriginOptions options_;
  int script_id_ = -1;
  Local<Value> source_map_url_;
  Local<Data> host_defined_options_;
};

class Script : public Data {
 public:
  static MaybeLocal<Script> Compile(Local<Context>, Local<String>, ScriptOrigin* = nullptr);
  MaybeLocal<Value> Run(Local<Context>);
};

class Message {
 public:
  Maybe<int> GetLineNumber(Local<Context>) const;
  Maybe<int> GetStartColumn(Local<Context>) const;
};

class TryCatch {
 public:
  explicit TryCatch(Isolate*);
  ~TryCatch();
  TryCatch(const TryCatch&) = delete;
  void operator=(const TryCatch&) = delete;
  bool HasCaught() const;
  bool HasTerminated() const;
  Local<Value> Exception() const;
  Local<v8::Message> Message() const;
  void Reset();

 private:
  void* opaque_[6];
};

class Exception {
 public:
  static Local<Value> RangeError(Local<String> message, Local<Value> options = {});
  static Local<Value> TypeError(Local<String> message, Local<Value> options = {});
};

class ResourceConstraints {
 public:
  void ConfigureDefaultsFromHeapSize(size_t initial_bytes, size_t maximum_bytes);

 private:
  size_t sizes_[5] = {0, 0, 0, 0, 0};
  uint32_t* stack_limit_ = nullptr;
};

class HeapStatistics {
 public:
  HeapStatistics();
  size_t used_heap_size() const { return fields_[4]; }
  size_t heap_size_limit() const { return fields_[5]; }
  size_t external_memory() const { return fields_[7]; }
  size_t used_global_handles_size() const { return fields_[13]; }

 private:
  size_t fields_[14];
};

using NearHeapLimitCallback = size_t (*)(void* data, size_t current, size_t initial);

enum GCType { kGCTypeScavenge = 1, kGCTypeMinorMarkSweep = 2, kGCTypeMarkSweepCompact = 4, kGCTypeAll = 31 };
enum GCCallbackFlags { kNoGCCallbackFlags = 0 };

struct OOMDetails {
  bool is_heap_oom;
  const char* detail;
};

class Isolate {
 public:
  struct CreateParams {
    CreateParams();
    ~CreateParams();
    void* code_event_handler = nullptr;
    ResourceConstraints constraints;
    const StartupData* snapshot_blob = nullptr;
    void* counter_callbacks[3] = {};
    ArrayBuffer::Allocator* array_buffer_allocator = nullptr;
    std::shared_ptr<ArrayBuffer::Allocator> array_buffer_allocator_shared;
    const intptr_t* external_references = nullptr;
    bool allow_atomics_wait = true;
    int embedder_wrapper_type_index = -1;
    int embedder_wrapper_object_index = -1;
    void* fatal_error_callback = nullptr;
    void* oom_error_callback = nullptr;
    CppHeap* cpp_heap = nullptr;
  };
  using GCCallbackWithData = void (*)(Isolate*, GCType, GCCallbackFlags, void* data);

  static Isolate* New(const CreateParams&);
  void Enter();
  void Exit();
  void Dispose();
  void TerminateExecution();
  void CancelTerminateExecution();
  bool IsExecutionTerminating();
  void AddNearHeapLimitCallback(NearHeapLimitCallback, void* data);
  void AddGCPrologueCallback(GCCallbackWithData, void* data = nullptr, GCType = kGCTypeAll);
  void AddGCEpilogueCallback(GCCallbackWithData, void* data = nullptr, GCType = kGCTypeAll);
  void GetHeapStatistics(HeapStatistics*);
  bool HasPendingBackgroundTasks();
  void ClearCachesForTesting();  // drops the caches of compiled scripts and regular expressions
  HeapProfiler* GetHeapProfiler();
  void LowMemoryNotification();
  void PerformMicrotaskCheckpoint();
  void SetCounterFunction(int* (*)(const char* name));
  void SetFatalErrorHandler(void (*)(const char* location, const char* message));
  void SetMicrotasksPolicy(MicrotasksPolicy);
  void SetOOMErrorHandler(void (*)(const char* location, const OOMDetails&));
  void SetPromiseRejectCallback(PromiseRejectCallback);
  void SetPrepareStackTraceCallback(PrepareStackTraceCallback);
  void SetHostImportModuleDynamicallyCallback(HostImportModuleDynamicallyCallback);
  Local<Value> ThrowException(Local<Value>);
};

class SnapshotCreator {
 public:
  enum class FunctionCodeHandling { kClear, kKeep };
  explicit SnapshotCreator(const Isolate::CreateParams&);
  ~SnapshotCreator();
  Isolate* GetIsolate();
  void SetDefaultContext(Local<Context>, SerializeInternalFieldsCallback = {}, SerializeContextDataCallback = {},
                         SerializeAPIWrapperCallback = {});
  StartupData CreateBlob(FunctionCodeHandling);

 private:
  void* impl_;
};

class V8 {
 public:
  static bool Initialize(int build_configuration);
  static void InitializePlatform(Platform*);
  static void SetFlagsFromString(const char*, size_t length);
  static void SetFatalErrorHandler(void (*)(const char* file, int line, const char* message));
  static const char* GetVersion();
};

class Platform {
 public:
  virtual ~Platform();
};

class ConvertableToTraceFormat {
 public:
  virtual ~ConvertableToTraceFormat() = default;
};

// Receives the trace events of V8, if the platform has one.
class TracingController {
 public:
  class TraceStateObserver;
  virtual ~TracingController() = default;
  virtual const uint8_t* GetCategoryGroupEnabled(const char*) {
    static uint8_t no = 0;
    return &no;
  }
  virtual uint64_t AddTraceEvent(char, const uint8_t*, const char*, const char*, uint64_t, uint64_t, int32_t, const char**,
                                 const uint8_t*, const uint64_t*, std::unique_ptr<ConvertableToTraceFormat>*, unsigned int) {
    return 0;
  }
  virtual uint64_t AddTraceEventWithTimestamp(char, const uint8_t*, const char*, const char*, uint64_t, uint64_t, int32_t,
                                              const char**, const uint8_t*, const uint64_t*,
                                              std::unique_ptr<ConvertableToTraceFormat>*, unsigned int, int64_t) {
    return 0;
  }
  virtual void UpdateTraceEventDuration(const uint8_t*, const char*, uint64_t) {}
  virtual void AddTraceStateObserver(TraceStateObserver*) {}
  virtual void RemoveTraceStateObserver(TraceStateObserver*) {}
};

namespace platform {
enum class IdleTaskSupport { kDisabled, kEnabled };
enum class InProcessStackDumping { kDisabled, kEnabled };
enum class MessageLoopBehavior : bool { kDoNotWait, kWaitForWork };
enum class PriorityMode : bool { kDontApply, kApply };
std::unique_ptr<Platform> NewDefaultPlatform(int thread_pool_size, IdleTaskSupport, InProcessStackDumping,
                                             std::unique_ptr<TracingController>, PriorityMode);
bool PumpMessageLoop(Platform*, Isolate*, MessageLoopBehavior = MessageLoopBehavior::kDoNotWait);
void NotifyIsolateShutdown(Platform*, Isolate*);
}  // namespace platform

// V8's headers do not publish these functions, but the library exports them for DevTools.
namespace debug {
enum class EvaluateGlobalMode { kDefault, kDisableBreaks, kDisableBreaksAndThrowOnSideEffect };
MaybeLocal<Value> EvaluateGlobal(Isolate*, Local<String> source, EvaluateGlobalMode, bool repl);
// Appends the top-level let, const and class names of all scripts, oldest first.
void GlobalLexicalScopeNames(Local<Context>, std::vector<Global<String>>* names);
}  // namespace debug

}  // namespace v8
