// The native functions of the host object, which the prelude receives. None of them runs
// user code: they call no trap, no getter and no toString.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "isolate.h"
#include "source.h"

namespace daybook {
namespace {

using v8::Isolate;
using v8::Local;
using v8::Value;
using Info = v8::FunctionCallbackInfo<Value>;

void throw_type_error(Isolate* isolate, const char* message) {
  isolate->ThrowException(v8::Exception::TypeError(new_string(isolate, message)));
}

// JavaScript's true and false have no exported constructor.
Local<Value> boolean(Isolate* isolate, Local<v8::Context> context, bool value) {
  return v8::JSON::Parse(context, new_string(isolate, value ? "true" : "false")).ToLocalChecked();
}

void host_write(const Info& info) {
  Isolate* isolate = info.GetIsolate();
  double level = 0;
  if (info.Length() > 0) level = info[0]->NumberValue(current->context.Get(isolate)).FromMaybe(0);
  if (info.Length() < 2 || !info[1]->FullIsString()) {
    throw_type_error(isolate, "host.write needs a level and a string");
    return;
  }
  Local<v8::String> text = info[1].As<v8::String>();
  size_t size = text->Utf8LengthV2(isolate);
  constexpr size_t kMaxMessage = size_t{256} << 20;
  std::unique_ptr<char[]> buffer;
  if (size <= kMaxMessage) buffer.reset(new (std::nothrow) char[size + 1]);
  if (buffer == nullptr) {
    isolate->ThrowException(v8::Exception::RangeError(new_string(isolate, "Console message too large")));
    return;
  }
  size = text->WriteUtf8V2(isolate, buffer.get(), size, v8::String::WriteFlags::kReplaceInvalidUtf8);
  if (current->output != 0 &&
      daybook_write(current->output, static_cast<int>(level), current->clock_ms, buffer.get(), size) != 0) {
    isolate->TerminateExecution();
  }
}

// host.now() returns the script's clock. host.now(noted) also marks the run with one of the
// DAYBOOK_NOTED bits. A native function of its own would take space in every heap.
void host_now(const Info& info) {
  Isolate* isolate = info.GetIsolate();
  if (info.Length() > 0) current->noted |= static_cast<int>(info[0]->NumberValue(current->context.Get(isolate)).FromMaybe(0));
  info.Return(v8::Number::New(isolate, current->clock_ms));
}

void host_random(const Info& info) { info.Return(v8::Number::New(info.GetIsolate(), current->random.number())); }

void host_fill_random(const Info& info) {
  if (info.Length() < 1 || !info[0]->IsUint8Array()) {
    throw_type_error(info.GetIsolate(), "host.fillRandom needs a Uint8Array");
    return;
  }
  auto view = info[0].As<v8::ArrayBufferView>();
  size_t size = view->ByteLength();
  if (size == 0) return;
  auto* data = static_cast<uint8_t*>(view->Buffer()->Data());
  current->random.fill(data + view->ByteOffset(), size);
}

struct Kind {
  bool (Value::*is)() const;
  const char* name;
};

// The first match is used, so a special case comes before its general case.
constexpr Kind kKinds[] = {
    {&Value::IsProxy, "proxy"},
    {&Value::IsPromise, "promise"},
    {&Value::IsMap, "map"},
    {&Value::IsSet, "set"},
    {&Value::IsMapIterator, "mapIterator"},
    {&Value::IsSetIterator, "setIterator"},
    {&Value::IsWeakMap, "weakMap"},
    {&Value::IsWeakSet, "weakSet"},
    {&Value::IsWeakRef, "weakRef"},
    {&Value::IsDate, "date"},
    {&Value::IsRegExp, "regexp"},
    {&Value::IsNativeError, "error"},
    {&Value::IsArgumentsObject, "arguments"},
    {&Value::IsGeneratorObject, "generator"},
    {&Value::IsModuleNamespaceObject, "moduleNamespace"},
    {&Value::IsArrayBuffer, "arrayBuffer"},
    {&Value::IsSharedArrayBuffer, "sharedArrayBuffer"},
    {&Value::IsDataView, "dataView"},
    {&Value::IsTypedArray, "typedArray"},
    {&Value::IsNumberObject, "boxedNumber"},
    {&Value::IsStringObject, "boxedString"},
    {&Value::IsBooleanObject, "boxedBoolean"},
    {&Value::IsBigIntObject, "boxedBigInt"},
    {&Value::IsSymbolObject, "boxedSymbol"},
    {&Value::IsExternal, "external"},
    {&Value::IsWasmModuleObject, "wasmModule"},
    {&Value::IsArray, "array"},
};

const char* function_kind(const Value* value) {
  bool async = value->IsAsyncFunction();
  if (value->IsGeneratorFunction()) return async ? "asyncGeneratorFunction" : "generatorFunction";
  return async ? "asyncFunction" : "function";
}

void host_kind_of(const Info& info) {
  Isolate* isolate = info.GetIsolate();
  if (info.Length() < 1) {
    info.Return(new_string(isolate, "undefined"));
  } else if (!info[0]->IsObject()) {
    // The type of null is "object", as in the language.
    info.Return(info[0]->TypeOf(isolate));
  } else {
    info.Return(new_string(isolate, kind_of(info[0])));
  }
}

void host_promise_details(const Info& info) {
  Isolate* isolate = info.GetIsolate();
  if (info.Length() < 1 || !info[0]->IsPromise()) {
    throw_type_error(isolate, "host.promiseDetails needs a promise");
    return;
  }
  auto promise = info[0].As<v8::Promise>();
  auto state = promise->State();
  Local<Value> pair[2] = {v8::Number::New(isolate, state), Local<Value>()};
  if (state != v8::Promise::kPending) pair[1] = promise->Result();
  info.Return(v8::Array::New(isolate, pair, state == v8::Promise::kPending ? 1 : 2));
}

void host_proxy_details(const Info& info) {
  Isolate* isolate = info.GetIsolate();
  if (info.Length() < 1 || !info[0]->IsProxy()) {
    throw_type_error(isolate, "host.proxyDetails needs a proxy");
    return;
  }
  auto proxy = info[0].As<v8::Proxy>();
  Local<Value> pair[2] = {proxy->GetTarget(), proxy->GetHandler()};
  info.Return(v8::Array::New(isolate, pair, 2));
}

void host_preview_entries(const Info& info) {
  Isolate* isolate = info.GetIsolate();
  bool is_key_value = false;
  Local<v8::Array> entries;
  if (info.Length() < 1 || !info[0]->IsObject() ||
      !info[0].As<v8::Object>()->PreviewEntries(&is_key_value).ToLocal(&entries)) {
    throw_type_error(isolate, "host.previewEntries needs a collection or its iterator");
    return;
  }
  Local<v8::Context> context = current->context.Get(isolate);
  Local<Value> pair[2] = {entries, boolean(isolate, context, is_key_value)};
  info.Return(v8::Array::New(isolate, pair, 2));
}

void host_constructor_name(const Info& info) {
  Isolate* isolate = info.GetIsolate();
  if (info.Length() < 1 || !info[0]->IsObject()) {
    throw_type_error(isolate, "host.constructorName needs an object");
    return;
  }
  info.Return(info[0].As<v8::Object>()->GetConstructorName());
}

// Returns the own keys of an array besides its elements. Object.keys would first create a
// string for every index.
void host_own_non_index_keys(const Info& info) {
  Isolate* isolate = info.GetIsolate();
  if (info.Length() < 2 || !info[0]->IsObject() || info[0]->IsProxy()) {
    throw_type_error(isolate, "host.ownNonIndexKeys needs an object and whether only enumerable keys count");
    return;
  }
  Local<v8::Context> context = current->context.Get(isolate);
  auto filter = info[1]->NumberValue(context).FromMaybe(0) != 0 ? v8::ONLY_ENUMERABLE : v8::ALL_PROPERTIES;
  Local<v8::Array> keys;
  if (info[0].As<v8::Object>()
          ->GetPropertyNames(context, v8::KeyCollectionMode::kOwnOnly, filter, v8::IndexFilter::kSkipIndices,
                             v8::KeyConversionMode::kKeepNumbers)
          .ToLocal(&keys)) {
    info.Return(keys);
  }
}

void host_report_error(const Info& info) {
  if (current->has_reported) return;  // the first error ends the run
  current->has_reported = true;
  if (info.Length() > 0) current->reported.Reset(info.GetIsolate(), info[0]);
}

// host.call(number, server, tool, arguments) starts a host call. The prelude limits the
// number of calls and the size of their arguments.
void host_call(const Info& info) {
  Isolate* isolate = info.GetIsolate();
  bool valid = info.Length() >= 4 && info[0]->IsNumber();
  for (int i = 1; valid && i < 4; i++) valid = info[i]->FullIsString();
  if (!valid) {
    throw_type_error(isolate, "host.call needs a number and three strings");
    return;
  }
  double number = info[0]->NumberValue(current->context.Get(isolate)).FromMaybe(0);
  constexpr size_t kMaxText = size_t{4} << 20;
  std::string text[3];
  for (int i = 0; i < 3; i++) {
    bool cut = false;
    text[i] = to_utf8(isolate, info[i + 1].As<v8::String>(), kMaxText, &cut);
    if (cut) {
      isolate->ThrowException(v8::Exception::RangeError(new_string(isolate, "Host call too large")));
      return;
    }
  }
  if (current->host == 0) {
    throw_type_error(isolate, "There is nothing to call");
    return;
  }
  auto view = [](const std::string& s) { return daybook_bytes{s.data(), s.size()}; };
  current->pending_calls++;
  if (daybook_call(current->host, number, view(text[0]), view(text[1]), view(text[2])) != 0) {
    isolate->TerminateExecution();
  }
}

// host.load(name) evaluates a part of the platform and returns its value. No source has a name
// that a script can choose: the prelude passes constants.
void host_load(const Info& info) {
  Isolate* isolate = info.GetIsolate();
  bool cut = false;
  Source* source = nullptr;
  if (info.Length() > 0 && info[0]->FullIsString()) source = source_named(to_utf8(isolate, info[0].As<v8::String>(), 64, &cut));
  Local<Value> value;
  if (source == nullptr) {
    throw_type_error(isolate, "host.load needs the name of a part of the platform");
  } else if (source->evaluate(isolate, current->context.Get(isolate)).ToLocal(&value)) {
    info.Return(value);
  }
}

// host.compute(name, ...inputs) calls a function of the worker. The inputs are strings and
// Uint8Arrays. It returns the number of bytes of the result, which takeBytes copies; -1 if the
// result is text, or -2 if it is an error, which takeText returns.
void host_compute(const Info& info) {
  Isolate* isolate = info.GetIsolate();
  constexpr int kMaxInputs = 12;
  constexpr size_t kMaxText = size_t{64} << 20;
  const int inputs = info.Length() - 1;
  bool valid = inputs >= 0 && inputs <= kMaxInputs && info[0]->FullIsString();
  for (int i = 1; valid && i <= inputs; i++) valid = info[i]->FullIsString() || info[i]->IsUint8Array();
  if (!valid) {
    throw_type_error(isolate, "host.compute needs a name, and strings and Uint8Arrays");
    return;
  }
  std::string text[kMaxInputs + 1];
  daybook_bytes views[kMaxInputs + 1];
  for (int i = 0; i <= inputs; i++) {
    if (info[i]->FullIsString()) {
      bool cut = false;
      text[i] = to_utf8(isolate, info[i].As<v8::String>(), kMaxText, &cut);
      if (cut) {
        isolate->ThrowException(v8::Exception::RangeError(new_string(isolate, "The text is too large")));
        return;
      }
      views[i] = {text[i].data(), text[i].size()};
    } else {
      auto view = info[i].As<v8::ArrayBufferView>();
      size_t size = view->ByteLength();
      views[i] = {size == 0 ? "" : static_cast<const char*>(view->Buffer()->Data()) + view->ByteOffset(), size};
    }
  }
  free(current->computed.data);
  current->computed = {};
  daybook_compute(views[0], views + 1, inputs, &current->computed);
  const daybook_computed& result = current->computed;
  double number = result.kind == DAYBOOK_COMPUTED_BYTES ? static_cast<double>(result.size) : -result.kind;
  info.Return(v8::Number::New(isolate, number));
}

void host_take_bytes(const Info& info) {
  const daybook_computed& result = current->computed;
  if (info.Length() < 1 || !info[0]->IsUint8Array() || info[0].As<v8::ArrayBufferView>()->ByteLength() != result.size) {
    throw_type_error(info.GetIsolate(), "host.takeBytes needs a Uint8Array of the size of the result");
    return;
  }
  if (result.size != 0) {
    auto view = info[0].As<v8::ArrayBufferView>();
    memcpy(static_cast<char*>(view->Buffer()->Data()) + view->ByteOffset(), result.data, result.size);
  }
  free(current->computed.data);
  current->computed = {};
}

void host_take_text(const Info& info) {
  Isolate* isolate = info.GetIsolate();
  Local<v8::String> text;
  const daybook_computed& result = current->computed;
  if (v8::String::NewFromUtf8(isolate, result.size == 0 ? "" : result.data, v8::NewStringType::kNormal, static_cast<int>(result.size))
          .ToLocal(&text)) {
    info.Return(text);
  } else {
    isolate->ThrowException(v8::Exception::RangeError(new_string(isolate, "The text is too large")));
  }
  free(current->computed.data);
  current->computed = {};
}

// host.artifact(name, mime, bytes) passes an artifact on. bytes is a string, an ArrayBuffer
// or a view. It returns why the artifact exceeds a limit, or undefined.
void host_artifact(const Info& info) {
  Isolate* isolate = info.GetIsolate();
  bool valid = info.Length() >= 3 && info[0]->FullIsString() && info[1]->FullIsString();
  bool is_string = valid && info[2]->FullIsString();
  bool is_view = valid && (info[2]->IsTypedArray() || info[2]->IsDataView());
  if (!is_string && !is_view && !(valid && info[2]->IsArrayBuffer())) {
    throw_type_error(isolate, "host.artifact needs two strings and bytes");
    return;
  }
  auto refuse = [&](const std::string& why) { info.Return(new_string(isolate, why.c_str())); };
  constexpr size_t kMaxName = 256;
  constexpr size_t kMaxBytes = size_t{16} << 20;
  constexpr size_t kMaxTotal = size_t{256} << 20;
  constexpr int kMaxCount = 1000;
  bool cut = false;
  std::string name = to_utf8(isolate, info[0].As<v8::String>(), kMaxName, &cut);
  if (cut) return refuse("key must be at most 256 bytes of UTF-8");
  std::string mime = to_utf8(isolate, info[1].As<v8::String>(), kMaxName, &cut);

  std::string text;
  const char* data = nullptr;
  size_t size = 0;
  if (is_string) {
    size = info[2].As<v8::String>()->Utf8LengthV2(isolate);
    if (size <= kMaxBytes) {
      text = to_utf8(isolate, info[2].As<v8::String>(), kMaxBytes, &cut);
      data = text.data();
      size = text.size();
    }
  } else if (is_view) {
    auto view = info[2].As<v8::ArrayBufferView>();
    size = view->ByteLength();
    if (size > 0) data = static_cast<const char*>(view->Buffer()->Data()) + view->ByteOffset();
  } else {
    auto buffer = info[2].As<v8::ArrayBuffer>();
    size = buffer->ByteLength();
    data = static_cast<const char*>(buffer->Data());
  }
  if (size > kMaxBytes) return refuse("payload exceeds 16777216 bytes (got " + std::to_string(size) + ")");
  if (current->artifacts >= kMaxCount) return refuse("a run creates at most 1000 artifacts");
  if (size > kMaxTotal - current->artifact_bytes) return refuse("the artifacts of a run have at most 268435456 bytes in total");
  current->artifacts++;
  current->artifact_bytes += size;
  auto view_of = [](const std::string& s) { return daybook_bytes{s.data(), s.size()}; };
  if (current->output != 0 &&
      daybook_artifact(current->output, current->clock_ms, view_of(name), view_of(mime), daybook_bytes{data, size}) != 0) {
    isolate->TerminateExecution();
  }
}

// host.compile(name, text) evaluates a script of a module and returns its value, a function. The
// first line of the text is line 0: it precedes the code of the module.
void host_compile(const Info& info) {
  Isolate* isolate = info.GetIsolate();
  if (info.Length() < 2 || !info[0]->FullIsString() || !info[1]->FullIsString()) {
    throw_type_error(isolate, "host.compile needs a name and a text");
    return;
  }
  Local<v8::Context> context = current->context.Get(isolate);
  v8::ScriptOrigin origin(info[0], -1);
  Local<v8::Script> script;
  Local<Value> value;
  {
    CompileScope compiling(current);
    if (!v8::Script::Compile(context, info[1].As<v8::String>(), &origin).ToLocal(&script)) return;
  }
  if (script->Run(context).ToLocal(&value)) info.Return(value);
}

// host.clearCaches() makes V8 forget compiled scripts and regular expressions that nothing
// refers to.
void host_clear_caches(const Info& info) { info.GetIsolate()->ClearCachesForTesting(); }

struct Native {
  const char* name;
  v8::FunctionCallback callback;
};

// Heaps store positions in this list, which the sources follow.
constexpr Native kNatives[] = {
    {"write", host_write},
    {"now", host_now},
    {"random", host_random},
    {"fillRandom", host_fill_random},
    {"kindOf", host_kind_of},
    {"promiseDetails", host_promise_details},
    {"proxyDetails", host_proxy_details},
    {"previewEntries", host_preview_entries},
    {"constructorName", host_constructor_name},
    {"reportError", host_report_error},
    {"ownNonIndexKeys", host_own_non_index_keys},
    {"call", host_call},
    {"load", host_load},
    {"compute", host_compute},
    {"takeBytes", host_take_bytes},
    {"takeText", host_take_text},
    {"artifact", host_artifact},
    {"compile", host_compile},
    {"clearCaches", host_clear_caches},
};
constexpr size_t kNativeCount = sizeof kNatives / sizeof kNatives[0];

}  // namespace

const char* kind_of(Local<Value> object) {
  for (const Kind& kind : kKinds) {
    if (((*object)->*kind.is)()) return kind.name;
  }
  return object->IsFunction() ? function_kind(*object) : "object";
}

const intptr_t* external_references() {
  static const auto* const references = [] {
    auto* list = new intptr_t[kNativeCount + source_count() + 1]{};
    for (size_t i = 0; i < kNativeCount; i++) list[i] = reinterpret_cast<intptr_t>(kNatives[i].callback);
    for (size_t i = 0; i < source_count(); i++) list[kNativeCount + i] = reinterpret_cast<intptr_t>(source_at(i));
    return list;
  }();
  return references;
}

v8::Local<v8::Object> new_host_object(Isolate* isolate, v8::Local<v8::Context> context) {
  auto object_template = v8::ObjectTemplate::New(isolate);
  for (const Native& native : kNatives) {
    object_template->Set(new_string(isolate, native.name),
                         v8::FunctionTemplate::New(isolate, native.callback, {}, {}, 0, v8::ConstructorBehavior::kThrow));
  }
  return object_template->NewInstance(context).ToLocalChecked();
}

// V8 reports an added handler before the promise has it. The function only counts these
// reports, and searches the list after many of them: a search for one promise at each
// report would take quadratic time.
void on_promise_reject(v8::PromiseRejectMessage message) {
  Isolate* isolate = current->isolate;
  auto& list = current->rejections;
  if (message.event_ == v8::kPromiseRejectWithNoHandler) {
    list.push_back({v8::Global<v8::Promise>(isolate, message.promise_), v8::Global<Value>(isolate, message.value_)});
    return;
  }
  constexpr size_t kHandledBeforeSearch = 64;
  if (message.event_ == v8::kPromiseHandlerAddedAfterReject && ++current->handled_rejections > kHandledBeforeSearch &&
      current->handled_rejections > list.size() / 2) {
    drop_handled_rejections(current);
  }
}

void drop_handled_rejections(daybook_isolate* d) {
  v8::HandleScope handles(d->isolate);
  auto& list = d->rejections;
  list.erase(std::remove_if(list.begin(), list.end(),
                            [d](const Rejection& r) {
                              v8::HandleScope each(d->isolate);
                              return r.promise.Get(d->isolate)->HasHandler();
                            }),
             list.end());
  d->handled_rejections = 0;
}

}  // namespace daybook

extern "C" int daybook_external_references(void) { return static_cast<int>(daybook::kNativeCount); }
