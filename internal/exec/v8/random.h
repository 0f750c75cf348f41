// The run's random numbers: ChaCha20 keyed with its recorded 128-bit seed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace daybook {

class Random {
 public:
  explicit Random(const uint8_t seed[16]);

  // Uniform in [0, 1), 53 bits.
  double number();
  void fill(uint8_t* out, size_t size);

 private:
  void refill();

  uint32_t state_[16];
  uint8_t block_[64];
  size_t used_ = sizeof block_;
};

}  // namespace daybook
