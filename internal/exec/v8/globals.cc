// Lists the properties that user code added to the global object, other than writable data
// properties.
#include "isolate.h"

namespace daybook {

namespace {

constexpr int kMaxListed = 5;
constexpr size_t kNameLimit = 200;  // bytes
constexpr int kMaxRead = 20000;     // names, 0.4 us each
constexpr int kCheckEvery = 4096;   // names between two checks for a stop

// A fresh isolate has these. The first three cannot change, and a change of mcp is reported
// as that of a built-in object.
bool is_built_in(daybook_isolate* d, v8::Local<v8::Name> name) {
  for (const char* known : {"undefined", "NaN", "Infinity", "mcp"}) {
    if (name->StrictEquals(new_string(d->isolate, known))) return true;
  }
  return false;
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
