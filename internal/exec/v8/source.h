// The sources of the prelude and of the platform, outside V8's heap.
#pragma once

#include <string>

#include "v8abi.h"

namespace daybook {

// A source in Latin-1 that V8 reads where it is, so that no saved heap contains it. A heap
// refers to it by its position in the external references.
//
// The virtual functions are those of V8's class ExternalOneByteStringResource, in its order,
// which TestABI checks. The class is not derived from a declaration of V8's class: the linker
// would then replace these functions by V8's inline ones, whose Dispose frees the object.
class Source {
 public:
  Source(std::string name, std::string text) : name_(std::move(name)), text_(std::move(text)) {}
  virtual ~Source() = default;
  virtual bool IsCacheable() const { return true; }
  virtual void Unaccount(v8::Isolate*) {}
  virtual size_t EstimateMemoryUsage() const { return 0; }
  virtual void EstimateSharedMemoryUsage(void*) const {}
  virtual void Dispose() {}  // it lives as long as the process
  virtual void Lock() const {}
  virtual void Unlock() const {}
  virtual const char* data() const { return text_.data(); }
  virtual size_t length() const { return text_.size(); }

  const std::string& name() const { return name_; }
  // Compiles the source, as a script with the name daybook:NAME, and evaluates it.
  v8::MaybeLocal<v8::Value> evaluate(v8::Isolate*, v8::Local<v8::Context>);

 private:
  const char* cached_data_ = nullptr;  // V8 writes it
  std::string name_;
  std::string text_;
};

// The number of sources. It is final once the first isolate exists.
size_t source_count();
Source* source_at(size_t index);
// Returns null if there is no such source.
Source* source_named(const std::string& name);

}  // namespace daybook
