// Offers WebAssembly modules to the script of a plain isolate.
#include <map>

#include "isolate.h"

namespace daybook {
namespace {

using v8::Local;
using v8::Value;

// The compiled modules of the process by key. A module object of a later isolate shares the
// code of an earlier one: compiling a large module takes longer than a small run. The map is
// never destroyed, because V8 may end before it.
std::map<std::string, v8::CompiledWasmModule>& compiled() {
  static auto* modules = new std::map<std::string, v8::CompiledWasmModule>();
  return *modules;
}

bool is_offered(const std::string& key) {
  for (const OfferedModule& m : current->wasm) {
    if (m.key == key) return true;
  }
  return false;
}

v8::MaybeLocal<v8::WasmModuleObject> module_object(v8::Isolate* isolate, OfferedModule& offered) {
  if (!offered.module.IsEmpty()) return offered.module.Get(isolate);
  Local<v8::WasmModuleObject> module;
  if (const auto found = compiled().find(offered.key); found != compiled().end()) {
    if (!v8::WasmModuleObject::FromCompiledModule(isolate, found->second).ToLocal(&module)) return {};
  } else {
    const auto* bytes = reinterpret_cast<const uint8_t*>(offered.bytes.data);
    if (!v8::WasmModuleObject::Compile(isolate, {bytes, offered.bytes.size}).ToLocal(&module)) return {};
    // Those that the process kept for other modules of earlier runs.
    std::erase_if(compiled(), [](const auto& entry) { return !is_offered(entry.first); });
    compiled().emplace(offered.key, module->GetCompiledModule());
  }
  offered.module.Reset(isolate, module);
  return module;
}

// Returns the module that a getter is for; its data is the index.
v8::MaybeLocal<v8::WasmModuleObject> module_of(const v8::PropertyCallbackInfo<Value>& info) {
  const double index = info.Data()->NumberValue(current->context.Get(info.GetIsolate())).FromMaybe(0);
  return module_object(info.GetIsolate(), current->wasm[static_cast<size_t>(index)]);
}

void get_module(Local<v8::Name>, const v8::PropertyCallbackInfo<Value>& info) {
  Local<v8::WasmModuleObject> module;
  if (module_of(info).ToLocal(&module)) info.Return(module);
}

void get_exports(Local<v8::Name>, const v8::PropertyCallbackInfo<Value>& info) {
  v8::Isolate* isolate = info.GetIsolate();
  Local<v8::Context> context = current->context.Get(isolate);
  Local<v8::WasmModuleObject> module;
  if (!module_of(info).ToLocal(&module)) return;
  Local<Value> argument = module;
  Local<v8::Object> instance;
  Local<Value> exported;
  if (!current->wasm_instance.Get(isolate)->NewInstance(context, 1, &argument).ToLocal(&instance)) return;
  if (!instance->Get(context, new_string(isolate, "exports")).ToLocal(&exported)) return;
  info.Return(exported);
}

}  // namespace
}  // namespace daybook

extern "C" void daybook_clear_wasm(daybook_isolate* d) { d->wasm.clear(); }

extern "C" void daybook_offer_wasm(daybook_isolate* d, daybook_bytes name, daybook_bytes key, daybook_bytes bytes,
                                   int has_imports) {
  using namespace daybook;
  v8::HandleScope handles(d->isolate);
  Local<v8::Context> context = d->context.Get(d->isolate);
  v8::Context::Scope scope(context);
  Local<v8::Object> global = context->Global();
  Local<Value> assembly, instance;
  if (d->wasm_instance.IsEmpty()) {
    if (!global->Get(context, new_string(d->isolate, "WebAssembly")).ToLocal(&assembly) || !assembly->IsObject() ||
        !assembly.As<v8::Object>()->Get(context, new_string(d->isolate, "Instance")).ToLocal(&instance) || !instance->IsFunction()) {
      return;
    }
    d->wasm_instance.Reset(d->isolate, instance.As<v8::Function>());
  }
  Local<Value> index = v8::Number::New(d->isolate, static_cast<double>(d->wasm.size()));
  d->wasm.push_back({std::string(key.data, key.size), bytes, {}});
  const std::string text(name.data, name.size);
  // An object that is made at the first access is an ordinary property for the script.
  (void)global->SetLazyDataProperty(context, new_string(d->isolate, ("__wasm_" + text).c_str()).As<v8::Name>(), get_module, index);
  if (has_imports == 0) {
    (void)global->SetLazyDataProperty(context, new_string(d->isolate, text.c_str()).As<v8::Name>(), get_exports, index);
  }
}
