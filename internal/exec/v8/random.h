// The random numbers of a run: ChaCha20 with the run's recorded 128-bit seed as the key.
#pragma once

#include <cstddef>
#include <cstdint>

namespace daybook {

class Random {
 public:
  explicit Random(const uint8_t seed[16]);

  // Returns a uniform number in [0, 1) with 53 random bits.
  double number();
  void fill(uint8_t* out, size_t size);

 private:
  void refill();

  uint32_t state_[16];
  uint8_t block_[64];
  size_t used_ = sizeof block_;
};

}  // namespace daybook
