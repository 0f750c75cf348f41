// Offers WebAssembly modules to the script of a plain isolate.
#include <map>

#include "isolate.h"

namespace daybook {
namespace {

using v8::Local;
using v8::Value;

// The compiled modules of the process by key. The module objects of all isolates share the code:
// compiling a large module takes longer than a small run. The process never destroys the map,
// because V8 may end first.
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

// Runs no code of the script: V8 replaces the property afterwards, and aborts if the script has
// deleted it meanwhile.
void get_exports(Local<v8::Name>, const v8::PropertyCallbackInfo<Value>& info) {
  v8::Isolate* isolate = info.GetIsolate();
  Local<v8::Context> context = current->context.Get(isolate);
  Local<v8::WasmModuleObject> module;
  if (!module_of(info).ToLocal(&module)) return;
  Local<Value> argument = module;
  Local<v8::Object> instance;
  Local<Value> exported;
  if (!current->wasm_instance.Get(isolate)->NewInstance(context, 1, &argument).ToLocal(&instance)) return;
  if (!current->wasm_exports.Get(isolate)->Call(context, instance, 0, nullptr).ToLocal(&exported)) return;
  info.Return(exported);
}

bool own_value(v8::Isolate* isolate, Local<v8::Context> context, Local<Value> object, const char* name, Local<Value>* value) {
  return object->IsObject() && object.As<v8::Object>()->Get(context, new_string(isolate, name)).ToLocal(value);
}

// Keeps WebAssembly.Instance and the getter of its exports, before any code of the script runs.
bool keep_constructors(daybook_isolate* d, Local<v8::Context> context) {
  if (!d->wasm_instance.IsEmpty()) return true;
  v8::Isolate* isolate = d->isolate;
  Local<Value> assembly, instance, prototype, descriptor, getter;
  if (!own_value(isolate, context, context->Global(), "WebAssembly", &assembly) ||
      !own_value(isolate, context, assembly, "Instance", &instance) ||
      !own_value(isolate, context, instance, "prototype", &prototype) || !prototype->IsObject() ||
      !prototype.As<v8::Object>()->GetOwnPropertyDescriptor(context, new_string(isolate, "exports").As<v8::Name>()).ToLocal(&descriptor) ||
      !own_value(isolate, context, descriptor, "get", &getter) || !instance->IsFunction() || !getter->IsFunction()) {
    return false;
  }
  d->wasm_instance.Reset(isolate, instance.As<v8::Function>());
  d->wasm_exports.Reset(isolate, getter.As<v8::Function>());
  return true;
}

bool offer(daybook_isolate* d, Local<v8::Context> context, const daybook_wasm& m) {
  Local<v8::Object> global = context->Global();
  const std::string name(m.name.data, m.name.size);
  Local<Value> index = v8::Number::New(d->isolate, static_cast<double>(d->wasm.size()));
  d->wasm.push_back({std::string(m.key.data, m.key.size), m.bytes, {}});
  // For the script, these are ordinary properties.
  Local<v8::Name> module_name = new_string(d->isolate, ("__wasm_" + name).c_str()).As<v8::Name>();
  if (!global->SetLazyDataProperty(context, module_name, get_module, index).FromMaybe(false)) return false;
  if (m.has_imports != 0) return true;
  return global->SetLazyDataProperty(context, new_string(d->isolate, name.c_str()).As<v8::Name>(), get_exports, index).FromMaybe(false);
}

}  // namespace
}  // namespace daybook

extern "C" int daybook_offer_wasm(daybook_isolate* d, const daybook_wasm* modules, int count) {
  using namespace daybook;
  d->wasm.clear();
  v8::HandleScope handles(d->isolate);
  Local<v8::Context> context = d->context.Get(d->isolate);
  v8::Context::Scope scope(context);
  v8::TryCatch ignored(d->isolate);
  bool ok = count == 0 || keep_constructors(d, context);
  for (int i = 0; ok && i < count; i++) ok = offer(d, context, modules[i]);
  std::erase_if(compiled(), [](const auto& entry) { return !is_offered(entry.first); });
  return ok || d->stop_requested() ? 0 : 1;
}
