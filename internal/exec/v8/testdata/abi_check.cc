// Compiled, not linked, by TestABI against V8's real headers: it fails when a
// layout, a return type or a constant of v8abi.h is not V8's. Parameters need no
// check here; the linker compares them.
#include <array>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <ostream>
#include <source_location>
#include <span>
#include <sstream>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>
#define private public
#define protected public
#include <libplatform/libplatform.h>
#include <v8-version.h>
#include <v8.h>

using namespace v8;

#define SIZE(T, n) static_assert(sizeof(T) == n, #T)
#define OFFSET(T, f, n) static_assert(offsetof(T, f) == n, #T "." #f)
#define VALUE(e, n) static_assert(static_cast<long>(e) == n, #e)
#define METHOD(C, m, ...) static_assert(std::is_same_v<decltype(&C::m), __VA_ARGS__>, #C "::" #m)

static_assert(V8_MAJOR_VERSION == 13 && V8_MINOR_VERSION == 6 && V8_BUILD_NUMBER == 233 && V8_PATCH_LEVEL == 10);

// Handles.
SIZE(Local<Value>, 8);
SIZE(MaybeLocal<Value>, 8);
SIZE(Global<Context>, 8);
SIZE(HandleScope, 24);
SIZE(TryCatch, 48);
SIZE(PropertyDescriptor, 8);
SIZE(Maybe<bool>, 2);
SIZE(Maybe<int>, 8);
SIZE(Maybe<PropertyAttribute>, 8);
SIZE(Maybe<double>, 16);
static_assert(std::is_trivially_copyable_v<Local<Value>> && std::is_trivially_copyable_v<MaybeLocal<Value>>);
static_assert(std::is_trivially_copyable_v<Maybe<double>> && std::is_trivially_copyable_v<Maybe<int>>);

// Creation.
using Params = Isolate::CreateParams;
SIZE(Params, 160);
OFFSET(Params, code_event_handler, 0);
OFFSET(Params, constraints, 8);
OFFSET(Params, snapshot_blob, 56);
OFFSET(Params, counter_lookup_callback, 64);
OFFSET(Params, array_buffer_allocator, 88);
OFFSET(Params, array_buffer_allocator_shared, 96);
OFFSET(Params, external_references, 112);
OFFSET(Params, allow_atomics_wait, 120);
OFFSET(Params, embedder_wrapper_type_index, 124);
OFFSET(Params, embedder_wrapper_object_index, 128);
OFFSET(Params, fatal_error_callback, 136);
OFFSET(Params, oom_error_callback, 144);
OFFSET(Params, cpp_heap, 152);
SIZE(ResourceConstraints, 48);
SIZE(StartupData, 16);
OFFSET(StartupData, raw_size, 8);
SIZE(SnapshotCreator, 8);
SIZE(SerializeInternalFieldsCallback, 16);
SIZE(SerializeContextDataCallback, 16);
SIZE(SerializeAPIWrapperCallback, 16);
SIZE(DeserializeInternalFieldsCallback, 16);
SIZE(DeserializeContextDataCallback, 16);
SIZE(DeserializeAPIWrapperCallback, 16);
VALUE(SnapshotCreator::FunctionCodeHandling::kClear, 0);
VALUE(SnapshotCreator::FunctionCodeHandling::kKeep, 1);
METHOD(SnapshotCreator, CreateBlob, StartupData (SnapshotCreator::*)(SnapshotCreator::FunctionCodeHandling));
METHOD(SnapshotCreator, GetIsolate, Isolate* (SnapshotCreator::*)());
METHOD(StartupData, IsValid, bool (StartupData::*)() const);
VALUE(V8::kPointerCompression, 1);
VALUE(V8::k31BitSmis, 2);
VALUE(V8::kSandbox, 4);

// Measurements and limits.
SIZE(HeapStatistics, 112);
OFFSET(HeapStatistics, used_heap_size_, 32);
OFFSET(HeapStatistics, heap_size_limit_, 40);
OFFSET(HeapStatistics, external_memory_, 56);
OFFSET(HeapStatistics, used_global_handles_size_, 104);
SIZE(OOMDetails, 16);
OFFSET(OOMDetails, detail, 8);
VALUE(kGCTypeScavenge, 1);
VALUE(kGCTypeAll, 31);
static_assert(sizeof(GCType) == 4 && sizeof(GCCallbackFlags) == 4);
static_assert(std::is_same_v<NearHeapLimitCallback, size_t (*)(void*, size_t, size_t)>);
METHOD(Isolate, HasPendingBackgroundTasks, bool (Isolate::*)());
METHOD(Isolate, IsExecutionTerminating, bool (Isolate::*)());
METHOD(Isolate, SetHostImportModuleDynamicallyCallback, void (Isolate::*)(HostImportModuleDynamicallyCallback));
METHOD(Isolate, ClearCachesForTesting, void (Isolate::*)());
METHOD(Isolate, GetHeapProfiler, HeapProfiler* (Isolate::*)());
METHOD(Isolate, SetCounterFunction, void (Isolate::*)(CounterLookupCallback));
METHOD(Isolate, ThrowException, Local<Value> (Isolate::*)(Local<Value>));
VALUE(MicrotasksPolicy::kExplicit, 0);

// The allocator's virtual table: its order is the order of declaration.
using Allocator = ArrayBuffer::Allocator;
static_assert(std::is_polymorphic_v<Allocator> && sizeof(Allocator) == 8);
METHOD(Allocator, Allocate, void* (Allocator::*)(size_t));
METHOD(Allocator, AllocateUninitialized, void* (Allocator::*)(size_t));
METHOD(Allocator, Free, void (Allocator::*)(void*, size_t));
METHOD(Allocator, MaxAllocationSize, size_t (Allocator::*)() const);
METHOD(Allocator, GetPageAllocator, PageAllocator* (Allocator::*)());

// Scripts.
SIZE(ScriptOrigin, 40);
OFFSET(ScriptOrigin, resource_name_, 0);
OFFSET(ScriptOrigin, resource_line_offset_, 8);
OFFSET(ScriptOrigin, resource_column_offset_, 12);
OFFSET(ScriptOrigin, options_, 16);
OFFSET(ScriptOrigin, script_id_, 20);
OFFSET(ScriptOrigin, source_map_url_, 24);
OFFSET(ScriptOrigin, host_defined_options_, 32);
static_assert(std::is_same_v<decltype(std::declval<Script>().Run(Local<Context>())), MaybeLocal<Value>>);

// Callbacks.
using Info = FunctionCallbackInfo<Value>;
SIZE(Info, 24);
OFFSET(Info, implicit_args_, 0);
OFFSET(Info, values_, 8);
OFFSET(Info, length_, 16);
VALUE(Info::kIsolateIndex, 1);
VALUE(Info::kReturnValueIndex, 3);
using PropertyInfo = PropertyCallbackInfo<Value>;
SIZE(PropertyInfo, 64);
OFFSET(PropertyInfo, args_, 0);
VALUE(PropertyInfo::kIsolateIndex, 3);
VALUE(PropertyInfo::kReturnValueIndex, 5);
VALUE(PropertyInfo::kDataIndex, 6);
VALUE(PropertyInfo::kArgsLength, 8);
static_assert(std::is_same_v<AccessorNameGetterCallback, void (*)(Local<Name>, const PropertyInfo&)>);
VALUE(ConstructorBehavior::kThrow, 0);
VALUE(SideEffectType::kHasSideEffect, 0);

// WebAssembly.
static_assert(std::is_same_v<decltype(std::declval<Object>().GetOwnPropertyDescriptor(Local<Context>(), Local<Name>())), MaybeLocal<Value>>);
SIZE(MemorySpan<const uint8_t>, 16);
OFFSET(MemorySpan<const uint8_t>, data_, 0);
OFFSET(MemorySpan<const uint8_t>, size_, 8);
static_assert(std::is_trivially_copyable_v<MemorySpan<const uint8_t>>);
SIZE(CompiledWasmModule, 48);
OFFSET(CompiledWasmModule, native_module_, 0);
OFFSET(CompiledWasmModule, source_url_, 16);
METHOD(WasmModuleObject, GetCompiledModule, CompiledWasmModule (WasmModuleObject::*)());
static_assert(std::is_same_v<decltype(WasmModuleObject::FromCompiledModule), MaybeLocal<WasmModuleObject>(Isolate*, const CompiledWasmModule&)>);
static_assert(std::is_same_v<decltype(WasmModuleObject::Compile), MaybeLocal<WasmModuleObject>(Isolate*, MemorySpan<const uint8_t>)>);
SIZE(PromiseRejectMessage, 24);
OFFSET(PromiseRejectMessage, promise_, 0);
OFFSET(PromiseRejectMessage, event_, 8);
OFFSET(PromiseRejectMessage, value_, 16);
static_assert(std::is_trivially_copyable_v<PromiseRejectMessage>);
static_assert(std::is_same_v<PromiseRejectCallback, void (*)(PromiseRejectMessage)>);
static_assert(std::is_same_v<PrepareStackTraceCallback, MaybeLocal<Value> (*)(Local<Context>, Local<Value>, Local<Array>)>);
VALUE(kPromiseRejectWithNoHandler, 0);
VALUE(kPromiseHandlerAddedAfterReject, 1);

// Values.
VALUE(String::WriteFlags::kReplaceInvalidUtf8, 2);
VALUE(NewStringType::kInternalized, 1);
VALUE(Promise::kPending, 0);
VALUE(Promise::kRejected, 2);
METHOD(Promise, State, Promise::PromiseState (Promise::*)());
METHOD(Promise, Result, Local<Value> (Promise::*)());
METHOD(Promise, HasHandler, bool (Promise::*)() const);
METHOD(String, Length, int (String::*)() const);
using ExternalText = String::ExternalOneByteStringResource;
SIZE(ExternalText, 16);  // the virtual table, whose order daybook::Source repeats, and cached_data_
METHOD(ExternalText, IsCacheable, bool (String::ExternalStringResourceBase::*)() const);
METHOD(ExternalText, Unaccount, void (String::ExternalStringResourceBase::*)(Isolate*));
METHOD(ExternalText, EstimateMemoryUsage, size_t (String::ExternalStringResourceBase::*)() const);
METHOD(ExternalText, Dispose, void (String::ExternalStringResourceBase::*)());
METHOD(ExternalText, Lock, void (String::ExternalStringResourceBase::*)() const);
METHOD(ExternalText, Unlock, void (String::ExternalStringResourceBase::*)() const);
METHOD(ExternalText, data, const char* (ExternalText::*)() const);
METHOD(ExternalText, length, size_t (ExternalText::*)() const);
METHOD(Array, Length, uint32_t (Array::*)() const);
METHOD(Map, Size, size_t (Map::*)() const);
METHOD(Set, Size, size_t (Set::*)() const);
METHOD(ArrayBuffer, ByteLength, size_t (ArrayBuffer::*)() const);
METHOD(String, Utf8LengthV2, size_t (String::*)(Isolate*) const);
METHOD(String, WriteUtf8V2, size_t (String::*)(Isolate*, char*, size_t, int, size_t*) const);
METHOD(Value, NumberValue, Maybe<double> (Value::*)(Local<Context>) const);
METHOD(Value, TypeOf, Local<String> (Value::*)(Isolate*));
METHOD(Value, FullIsString, bool (Value::*)() const);
METHOD(Value, IsProxy, bool (Value::*)() const);
METHOD(Object, PreviewEntries, MaybeLocal<Array> (Object::*)(bool*));
static_assert(std::is_same_v<decltype(static_cast<MaybeLocal<Array> (Object::*)(Local<Context>, KeyCollectionMode, PropertyFilter, IndexFilter, KeyConversionMode)>(&Object::GetPropertyNames)), MaybeLocal<Array> (Object::*)(Local<Context>, KeyCollectionMode, PropertyFilter, IndexFilter, KeyConversionMode)>, "Object::GetPropertyNames");
VALUE(PropertyFilter::ALL_PROPERTIES, 0);
VALUE(PropertyFilter::ONLY_ENUMERABLE, 2);
VALUE(KeyCollectionMode::kOwnOnly, 0);
VALUE(IndexFilter::kSkipIndices, 1);
VALUE(KeyConversionMode::kKeepNumbers, 1);
METHOD(Value, IsSymbol, bool (Value::*)() const);
METHOD(Symbol, Description, Local<Value> (Symbol::*)(Isolate*) const);
METHOD(Object, HasRealNamedCallbackProperty, Maybe<bool> (Object::*)(Local<Context>, Local<Name>));
METHOD(Object, GetRealNamedPropertyAttributes, Maybe<PropertyAttribute> (Object::*)(Local<Context>, Local<Name>));
METHOD(Function, GetDebugName, Local<Value> (Function::*)() const);
METHOD(Object, GetConstructorName, Local<String> (Object::*)());
METHOD(Proxy, GetTarget, Local<Value> (Proxy::*)());
METHOD(Proxy, GetHandler, Local<Value> (Proxy::*)());
METHOD(ArrayBuffer, Data, void* (ArrayBuffer::*)() const);
METHOD(ArrayBufferView, Buffer, Local<ArrayBuffer> (ArrayBufferView::*)());
METHOD(ArrayBufferView, ByteLength, size_t (ArrayBufferView::*)());
METHOD(ArrayBufferView, ByteOffset, size_t (ArrayBufferView::*)());
METHOD(Context, DetachGlobal, void (Context::*)());
METHOD(Context, SlowGetEmbedderData, Local<Value> (Context::*)(int));
METHOD(Context, SetEmbedderData, void (Context::*)(int, Local<Value>));
METHOD(Message, GetLineNumber, Maybe<int> (Message::*)(Local<Context>) const);
METHOD(ObjectTemplate, NewInstance, MaybeLocal<Object> (ObjectTemplate::*)(Local<Context>));
METHOD(TryCatch, Exception, Local<Value> (TryCatch::*)() const);
METHOD(TryCatch, Message, Local<class Message> (TryCatch::*)() const);

// Platform.
static_assert(std::is_same_v<decltype(platform::PumpMessageLoop(nullptr, nullptr)), bool>);
VALUE(platform::IdleTaskSupport::kDisabled, 0);
VALUE(platform::InProcessStackDumping::kDisabled, 0);
static_assert(sizeof(platform::MessageLoopBehavior) == 1 && sizeof(platform::PriorityMode) == 1);
SIZE(TracingController, 8);
METHOD(TracingController, GetCategoryGroupEnabled, const uint8_t* (TracingController::*)(const char*));
METHOD(TracingController, AddTraceEvent, uint64_t (TracingController::*)(char, const uint8_t*, const char*, const char*, uint64_t, uint64_t, int32_t, const char**, const uint8_t*, const uint64_t*, std::unique_ptr<ConvertableToTraceFormat>*, unsigned int));
METHOD(TracingController, AddTraceEventWithTimestamp, uint64_t (TracingController::*)(char, const uint8_t*, const char*, const char*, uint64_t, uint64_t, int32_t, const char**, const uint8_t*, const uint64_t*, std::unique_ptr<ConvertableToTraceFormat>*, unsigned int, int64_t));
METHOD(TracingController, UpdateTraceEventDuration, void (TracingController::*)(const uint8_t*, const char*, uint64_t));
METHOD(TracingController, AddTraceStateObserver, void (TracingController::*)(TracingController::TraceStateObserver*));
METHOD(TracingController, RemoveTraceStateObserver, void (TracingController::*)(TracingController::TraceStateObserver*));
