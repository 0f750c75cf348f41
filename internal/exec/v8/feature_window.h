// V8 leaves some builtins (Promise.try, RegExp.escape, Error.isError, ...) out
// of a context made in an isolate that is meant for a snapshot, although a
// snapshot can hold them. The one thing it looks at is a byte of its internal
// isolate, for which there is no setter. The window clears the byte while the
// very first context is made; restored contexts need nothing.
#pragma once

#include <cstring>

#include "v8abi.h"

namespace daybook {

class FeatureWindow {
 public:
  explicit FeatureWindow(v8::Isolate* isolate) {
    auto* internal = reinterpret_cast<v8::internal::Isolate*>(isolate);
    auto* byte = reinterpret_cast<unsigned char*>(isolate) + kSerializerEnabled;
    if (!offset_ok() || *byte != 1 || internal->use_optimizer()) return;
    *byte = 0;
    if (!internal->use_optimizer()) {
      // Not the byte we took it for, or no optimizer to ask: leave it alone.
      *byte = 1;
      return;
    }
    byte_ = byte;
  }
  ~FeatureWindow() {
    if (byte_ != nullptr) *byte_ = 1;
  }
  FeatureWindow(const FeatureWindow&) = delete;
  void operator=(const FeatureWindow&) = delete;

  bool open() const { return byte_ != nullptr; }

 private:
  static constexpr unsigned kSerializerEnabled = 0x10240;  // V8 13.6.233.10, linux/amd64

  // use_optimizer() begins with a comparison of that very byte to zero. Another
  // V8 has another offset in its code and the window stays shut.
  static bool offset_ok() {
    auto function = &v8::internal::Isolate::use_optimizer;
    const unsigned char* code;
    std::memcpy(&code, &function, sizeof code);
    const unsigned char compare[7] = {0x80,
                                      0xbf,
                                      kSerializerEnabled & 255,
                                      kSerializerEnabled >> 8 & 255,
                                      kSerializerEnabled >> 16 & 255,
                                      kSerializerEnabled >> 24 & 255,
                                      0};
    for (int i = 0; i < 64; i++) {
      if (std::memcmp(code + i, compare, sizeof compare) == 0) return true;
    }
    return false;
  }

  unsigned char* byte_ = nullptr;
};

}  // namespace daybook
