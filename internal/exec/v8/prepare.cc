// Prepares objects of a heap to be saved. V8 defers objects behind long chains of references, and
// ends the process at a second reference to certain internal objects that it deferred:
//
//   - The compiled form of a regular expression, which V8 shares among objects with the same
//     source and flags. So each of these objects gets its own compiled form.
//   - What the trace of an error refers to until its text is made, when it is first read. So the
//     texts of new errors are made.
#include <cstring>

#include "isolate.h"

namespace daybook {

namespace {

// Returns all objects of a kind in the heap, also those that are garbage, in no certain order.
// It makes handles after the search: nothing may be allocated before.
std::vector<v8::Local<v8::Value>> find_objects(v8::Isolate* isolate, bool (v8::Value::*is_kind)() const) {
  std::vector<v8::internal::Address> found;
  {
    auto* heap = reinterpret_cast<v8::internal::HeapProfiler*>(isolate->GetHeapProfiler())->heap();
    v8::internal::HeapObjectIterator objects(heap, v8::internal::HeapObjectIterator::kNoFiltering);
    v8::internal::Address address;
    v8::Local<v8::Value> object;
    object.slot_ = &address;
    while (static_cast<uint32_t>(address = objects.Next()) != 0) {
      if (((*object)->*is_kind)()) found.push_back(address);
    }
  }
  std::vector<v8::Local<v8::Value>> handles(found.size());
  for (size_t i = 0; i < found.size(); i++) {
    handles[i].slot_ = v8::HandleScope::CreateHandle(reinterpret_cast<v8::internal::Isolate*>(isolate), found[i]);
  }
  return handles;
}

}  // namespace

// V8 counts lookups in its caches of compiled scripts and regular expressions. It looks up
// each regular expression that it creates, except the copies that a function makes of its
// literal. Scripts that eval compiles are counted too, but not the script of a run.
int* counter_named(const char* name) {
  const bool counts = strcmp(name, "c:V8.CompilationCacheHits") == 0 || strcmp(name, "c:V8.CompilationCacheMisses") == 0;
  return counts && current != nullptr ? &current->regexps : nullptr;
}

void unshare_regexps(daybook_isolate* d, v8::Local<v8::Context> context) {
  constexpr size_t kMost = size_t{1} << 24;  // elements of a Map
  v8::HandleScope handles(d->isolate);
  std::vector<v8::Local<v8::Value>> regexps = find_objects(d->isolate, &v8::Value::IsRegExp);
  if (regexps.size() < 2 || regexps.size() > kMost) return;
  v8::Local<v8::Value> list = v8::Array::New(d->isolate, regexps.data(), regexps.size());
  (void)call_entry(d, context, "unshareRegExps", 1, &list);
}

// Makes the texts of the traces of errors. A script that keeps a great many errors has them as
// they are: their texts would take time and memory.
void read_stacks(daybook_isolate* d, v8::Local<v8::Context> context) {
  constexpr size_t kMost = 10000;
  v8::HandleScope handles(d->isolate);
  std::vector<v8::Local<v8::Value>> errors = find_objects(d->isolate, &v8::Value::IsNativeError);
  if (errors.empty() || errors.size() > kMost) return;
  v8::Local<v8::Value> list = v8::Array::New(d->isolate, errors.data(), errors.size());
  (void)call_entry(d, context, "readStacks", 1, &list);
}

}  // namespace daybook
