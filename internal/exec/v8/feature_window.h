// In an isolate that can be saved, V8 creates contexts without some builtins (Promise.try,
// RegExp.escape, Error.isError, ...), although a snapshot can hold them. This depends only
// on one byte of V8's internal isolate, which has no setter. A FeatureWindow clears the byte
// while the first context is created. Restored contexts already have the builtins.
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
      // The byte has another meaning, or there is no optimizer: restore it.
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

  // use_optimizer() starts with a comparison of this byte to zero. Another version of V8 has
  // another offset in that code. The byte is then not changed.
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
