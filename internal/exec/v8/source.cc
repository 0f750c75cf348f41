// Keeps the sources, and compiles them.
#include "source.h"

#include <memory>
#include <vector>

#include "isolate.h"

namespace daybook {

namespace {
// Filled before the first isolate, and never changed afterwards: V8 keeps the addresses.
std::vector<std::unique_ptr<Source>>& sources() {
  static auto* const list = new std::vector<std::unique_ptr<Source>>;
  return *list;
}
}  // namespace

v8::MaybeLocal<v8::Value> Source::evaluate(v8::Isolate* isolate, v8::Local<v8::Context> context) {
  v8::Local<v8::String> text;
  auto* resource = reinterpret_cast<v8::String::ExternalOneByteStringResource*>(this);
  if (!v8::String::NewExternalOneByte(isolate, resource).ToLocal(&text)) return {};
  v8::ScriptOrigin origin(new_string(isolate, ("daybook:" + name_).c_str()));
  v8::Local<v8::Script> script;
  {
    CompileScope compiling(current);
    if (!v8::Script::Compile(context, text, &origin).ToLocal(&script)) return {};
  }
  return script->Run(context);
}

size_t source_count() { return sources().size(); }
Source* source_at(size_t index) { return sources()[index].get(); }

Source* source_named(const std::string& name) {
  for (const auto& source : sources()) {
    if (source->name() == name) return source.get();
  }
  return nullptr;
}

}  // namespace daybook

extern "C" void daybook_add_source(daybook_bytes name, daybook_bytes text) {
  daybook::sources().push_back(
      std::make_unique<daybook::Source>(std::string(name.data, name.size), std::string(text.data, text.size)));
}
