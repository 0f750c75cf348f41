// Lists the properties that user code added to the global object, other than writable data
// properties, for a run. Describes all globals of user code without a run.
#include <algorithm>

#include "isolate.h"

namespace daybook {

namespace {

constexpr int kMaxListed = 5;
constexpr size_t kNameLimit = 200;  // bytes
constexpr int kMaxRead = 20000;     // names, 0.4 us each
constexpr int kCheckEvery = 4096;   // names between two checks for a stop

// A fresh isolate has these. The first three cannot change, and a change of mcp or of a global
// of the platform is reported as that of a built-in object.
bool is_built_in(daybook_isolate* d, v8::Local<v8::Name> name) {
  for (const char* known : {"undefined", "NaN", "Infinity", "mcp"}) {
    if (name->StrictEquals(new_string(d->isolate, known))) return true;
  }
  v8::Local<v8::Context> context = d->context.Get(d->isolate);
  v8::Local<v8::Value> parts, part;
  auto entry = context->SlowGetEmbedderData(kEntryIndex).As<v8::Object>();
  return entry->Get(context, new_string(d->isolate, "partOfGlobal")).ToLocal(&parts) && parts->IsObject() &&
         parts.As<v8::Object>()->Get(context, name).ToLocal(&part) && part->FullIsString();
}

// Appends one property: its kind, whether its key is a symbol, and the length and the
// text of the name.
void append_name(daybook_isolate* d, char kind, v8::Local<v8::Name> name) {
  v8::Local<v8::Value> text = name;
  const bool symbol = name->IsSymbol();
  if (symbol) text = name.As<v8::Symbol>()->Description(d->isolate);
  bool cut = false;
  std::string bytes;
  if (text->FullIsString()) bytes = to_utf8(d->isolate, text.As<v8::String>(), kNameLimit, &cut);
  d->text += kind;
  d->text += symbol ? 's' : '-';
  d->text += static_cast<char>(bytes.size());
  d->text += bytes;
}

constexpr size_t kGlobalNameLimit = 1024;  // bytes

// The text of a key, as a person would write it: Symbol(x) for a symbol.
std::string text_of_key(v8::Isolate* isolate, v8::Local<v8::Name> key) {
  const bool symbol = key->IsSymbol();
  v8::Local<v8::Value> text = key;
  if (symbol) text = key.As<v8::Symbol>()->Description(isolate);
  bool cut = false;
  std::string bytes;
  if (text->FullIsString()) bytes = to_utf8(isolate, text.As<v8::String>(), kGlobalNameLimit, &cut);
  return symbol ? "Symbol(" + bytes + ")" : bytes;
}

// The options of the context of inspectGlobal: for a preview, and for the comparison of heaps.
// 1e9 is no limit.
constexpr const char* kPreview =
    "{\"indentationLvl\":-2,\"customInspect\":false,\"maxStringLength\":4096,\"maxPrinted\":4096,\"left\":16384}";
constexpr const char* kCanonical =
    "{\"indentationLvl\":-2,\"customInspect\":false,\"maxStringLength\":262144,\"maxPrinted\":262144,\"left\":262144,"
    "\"maxArrayLength\":262144,\"depth\":8,\"breakLength\":1e9,\"compact\":0,\"sources\":1}";
constexpr size_t kPreviewLimit = 1021;  // bytes, 1 KiB with an ellipsis
constexpr size_t kCanonicalLimit = size_t{64} << 20;  // no text reaches it

// Calls inspectGlobal of the prelude. Returns false if the inspection was stopped.
bool inspect_global(daybook_isolate* d, v8::Local<v8::Context> context, const char* options, v8::Local<v8::Value> holder,
                    v8::Local<v8::Value> key, size_t limit, std::string* text, bool* cut) {
  v8::HandleScope handles(d->isolate);
  v8::Local<v8::Value> args[3] = {holder, key, {}}, result;
  if (!v8::JSON::Parse(context, new_string(d->isolate, options)).ToLocal(&args[2]) ||
      !call_entry(d, context, "inspectGlobal", 3, args).ToLocal(&result) || !result->FullIsString()) {
    return false;
  }
  *text = to_utf8(d->isolate, result.As<v8::String>(), limit, cut);
  return true;
}

// Returns the size of a value, or -1 if it has none.
double size_of(daybook_isolate* d, v8::Local<v8::Context> context, v8::Local<v8::Value> value) {
  if (value->FullIsString()) return value.As<v8::String>()->Length();
  if (!value->IsObject() || value->IsProxy()) return -1;
  if (value->IsArray()) return value.As<v8::Array>()->Length();
  if (value->IsMap()) return static_cast<double>(value.As<v8::Map>()->Size());
  if (value->IsSet()) return static_cast<double>(value.As<v8::Set>()->Size());
  if (value->IsArrayBuffer()) return static_cast<double>(value.As<v8::ArrayBuffer>()->ByteLength());
  if (value->IsTypedArray() || value->IsDataView()) return static_cast<double>(value.As<v8::ArrayBufferView>()->ByteLength());
  if (std::string("object") != kind_of(value)) return -1;
  v8::HandleScope handles(d->isolate);
  v8::Local<v8::Array> keys;
  if (!value.As<v8::Object>()
           ->GetPropertyNames(context, v8::KeyCollectionMode::kOwnOnly, v8::ONLY_ENUMERABLE,
                              v8::IndexFilter::kIncludeIndices, v8::KeyConversionMode::kKeepNumbers)
           .ToLocal(&keys)) {
    return -1;
  }
  return keys->Length();
}

// The names of the global object in a fresh isolate, as the prelude recorded them.
bool built_in_names(daybook_isolate* d, v8::Local<v8::Context> context, std::vector<v8::Local<v8::Value>>* names) {
  v8::Local<v8::Value> list;
  if (!call_entry(d, context, "namesOfGlobals", 0, nullptr).ToLocal(&list) || !list->IsArray()) return false;
  v8::Local<v8::Array> found = list.As<v8::Array>();
  for (uint32_t i = 0; i < found->Length(); i++) {
    v8::Local<v8::Value> name;
    if (!found->Get(context, v8::Number::New(d->isolate, i)).ToLocal(&name)) return false;
    names->push_back(name);
  }
  return true;
}

int why_stopped(daybook_isolate* d) { return d->out_of_memory ? DAYBOOK_OUT_OF_MEMORY : DAYBOOK_TERMINATED; }

}  // namespace

}  // namespace daybook

// No code of a script runs: the global object is an ordinary object, and only the kind and
// the attributes of a property are read.
extern "C" int daybook_inspect_globals(daybook_isolate* d, int* count, int* unseen, daybook_bytes* names) {
  using namespace daybook;
  *count = 0;
  d->text.clear();
  v8::HandleScope handles(d->isolate);
  v8::Local<v8::Context> context = d->context.Get(d->isolate);
  v8::Context::Scope scope(context);
  v8::TryCatch ignored(d->isolate);
  v8::Local<v8::Object> global = context->Global();
  v8::Local<v8::Array> keys;
  v8::Local<v8::Value> length;
  if (!global
           ->GetPropertyNames(context, v8::KeyCollectionMode::kOwnOnly, v8::ALL_PROPERTIES,
                              v8::IndexFilter::kIncludeIndices, v8::KeyConversionMode::kConvertToString)
           .ToLocal(&keys) ||
      !keys->Get(context, new_string(d->isolate, "length")).ToLocal(&length)) {
    return 1;
  }
  int all = static_cast<int>(length->NumberValue(context).FromMaybe(0));
  *unseen = all > kMaxRead ? all - kMaxRead : 0;
  all -= *unseen;
  for (int i = 0; i < all; i++) {
    if (i % kCheckEvery == 0 && d->stop_requested()) return 1;
    v8::HandleScope inner(d->isolate);
    v8::Local<v8::Value> key;
    if (!keys->Get(context, v8::Number::New(d->isolate, i)).ToLocal(&key)) return 1;
    v8::Local<v8::Name> name = key.As<v8::Name>();
    char kind = 0;
    if (global->HasRealNamedCallbackProperty(context, name).FromMaybe(false)) {
      kind = 'a';
    } else if ((global->GetRealNamedPropertyAttributes(context, name).FromMaybe(v8::None) & v8::ReadOnly) != 0) {
      kind = 'r';
    }
    if (kind == 0 || is_built_in(d, name)) continue;
    if ((*count)++ < kMaxListed) append_name(d, kind, name);
  }
  *names = {d->text.data(), d->text.size()};
  return 0;
}

extern "C" int daybook_list_globals(daybook_isolate* d, int skip, int most, int* listed, int* total) {
  using namespace daybook;
  v8::Isolate* isolate = d->isolate;
  d->globals.clear();
  v8::HandleScope handles(isolate);
  v8::Local<v8::Context> context = d->context.Get(isolate);
  v8::Context::Scope scope(context);
  v8::TryCatch ignored(isolate);
  std::vector<v8::Local<v8::Value>> built_in;
  v8::Local<v8::Array> keys;
  if (!built_in_names(d, context, &built_in) ||
      !context->Global()
           ->GetPropertyNames(context, v8::KeyCollectionMode::kOwnOnly, v8::ALL_PROPERTIES,
                              v8::IndexFilter::kIncludeIndices, v8::KeyConversionMode::kConvertToString)
           .ToLocal(&keys)) {
    return why_stopped(d);
  }
  const uint32_t count = keys->Length();
  for (uint32_t i = 0; i < count; i++) {
    if (i % kCheckEvery == 0 && d->stop_requested()) return why_stopped(d);
    v8::HandleScope inner(isolate);
    v8::Local<v8::Value> key;
    if (!keys->Get(context, v8::Number::New(isolate, i)).ToLocal(&key)) return why_stopped(d);
    bool is_built_in = false;
    for (size_t b = 0; b < built_in.size() && !is_built_in; b++) is_built_in = built_in[b]->StrictEquals(key);
    if (is_built_in) continue;
    v8::Local<v8::Name> name = key.As<v8::Name>();
    d->globals.push_back({text_of_key(isolate, name), v8::Global<v8::Name>(isolate, name), false});
  }
  std::vector<v8::Global<v8::String>> names;
  v8::debug::GlobalLexicalScopeNames(context, &names);
  for (const auto& name : names) {
    v8::HandleScope inner(isolate);
    v8::Local<v8::Name> key = name.Get(isolate).As<v8::Name>();
    d->globals.push_back({text_of_key(isolate, key), v8::Global<v8::Name>(isolate, key), true});
  }
  // In the order of their names, so that the first ones of two heaps are comparable. A name
  // that several scripts declared is listed once.
  std::stable_sort(d->globals.begin(), d->globals.end(), [](const ListedGlobal& a, const ListedGlobal& b) {
    return a.name != b.name ? a.name < b.name : a.is_lexical < b.is_lexical;
  });
  d->globals.erase(std::unique(d->globals.begin(), d->globals.end(),
                               [](const ListedGlobal& a, const ListedGlobal& b) {
                                 return a.is_lexical && b.is_lexical && a.name == b.name && a.name.size() < kGlobalNameLimit;
                               }),
                   d->globals.end());
  *total = static_cast<int>(d->globals.size());
  d->globals.erase(d->globals.begin(), d->globals.begin() + std::min(*total, skip));
  *listed = std::min(static_cast<int>(d->globals.size()), most);
  d->globals.erase(d->globals.begin() + *listed, d->globals.end());
  return 0;
}

// No code of a script runs: an accessor is not called, and the name of a lexical binding,
// evaluated alone, reads the binding.
extern "C" int daybook_describe_global(daybook_isolate* d, int index, daybook_global* result) {
  using namespace daybook;
  v8::Isolate* isolate = d->isolate;
  *result = {};
  for (std::string& text : d->texts) text.clear();
  v8::HandleScope handles(isolate);
  v8::Local<v8::Context> context = d->context.Get(isolate);
  v8::Context::Scope scope(context);
  v8::TryCatch ignored(isolate);
  if (d->stop_requested()) return why_stopped(d);
  const ListedGlobal& global = d->globals[static_cast<size_t>(index)];
  auto view = [](const std::string& text) { return daybook_bytes{text.data(), text.size()}; };
  result->name = view(global.name);
  result->size = -1;
  v8::Local<v8::Name> name = global.key.Get(isolate);
  v8::Local<v8::Value> holder = context->Global(), key = name, object;
  result->kind = global.is_lexical ? 'l' : 'p';
  if (!global.is_lexical && context->Global()->HasRealNamedCallbackProperty(context, name).FromMaybe(true)) {
    result->kind = 'a';
  } else {
    v8::Local<v8::Value> value;
    bool has_value = false;
    if (global.is_lexical) {
      v8::Local<v8::Script> script;
      has_value = v8::Script::Compile(context, name.As<v8::String>()).ToLocal(&script) && script->Run(context).ToLocal(&value);
    } else {
      has_value = context->Global()->Get(context, name).ToLocal(&value);
    }
    if (!has_value) {
      if (ignored.HasTerminated() || d->stop_requested() || d->out_of_memory) return why_stopped(d);
      result->kind = 'u';  // the script that declared it failed before it had a value
      return 0;
    }
    bool cut = false;
    d->texts[0] = to_utf8(isolate, value->TypeOf(isolate), 64, &cut);
    if (d->texts[0] == "object" && !value->IsObject()) d->texts[0] = "null";
    result->size = size_of(d, context, value);
    object = value;
    if (!v8::JSON::Parse(context, new_string(isolate, "{}")).ToLocal(&holder)) return why_stopped(d);
    key = new_string(isolate, "value");
    if (!holder.As<v8::Object>()->CreateDataProperty(context, key.As<v8::Name>(), value).FromMaybe(false)) return why_stopped(d);
  }
  bool cut = false;
  if (!inspect_global(d, context, kCanonical, holder, key, kCanonicalLimit, &d->texts[3], &cut) ||
      !inspect_global(d, context, kPreview, holder, key, kPreviewLimit, &d->texts[2], &cut)) {
    if (ignored.HasTerminated() || d->stop_requested() || d->out_of_memory) return why_stopped(d);
    ignored.Reset();  // the prelude failed: the other globals are described nevertheless
    d->texts[2] = d->texts[3] = "~<cannot be shown>";
  }
  result->is_preview_cut = cut;
  if (!object.IsEmpty() && object->IsProxy()) {
    d->texts[1] = "Proxy";
  } else if (!object.IsEmpty() && object->IsObject()) {  // inspectGlobal has made the prelude quiet
    v8::Local<v8::Value> class_name;
    if (!call_entry(d, context, "classOf", 1, &object).ToLocal(&class_name)) {
      if (ignored.HasTerminated() || d->stop_requested() || d->out_of_memory) return why_stopped(d);
    } else if (class_name->FullIsString()) {
      d->texts[1] = to_utf8(isolate, class_name.As<v8::String>(), 128, &cut);
    }
  }
  result->type = view(d->texts[0]);
  result->class_name = view(d->texts[1]);
  result->preview = view(d->texts[2]);
  result->canonical = view(d->texts[3]);
  return 0;
}
