#include "random.h"

#include <algorithm>
#include <cstring>

#include "bridge.h"

namespace daybook {
namespace {

uint32_t rotate(uint32_t v, int n) { return v << n | v >> (32 - n); }

void quarter_round(uint32_t* s, int a, int b, int c, int d) {
  s[a] += s[b], s[d] = rotate(s[d] ^ s[a], 16);
  s[c] += s[d], s[b] = rotate(s[b] ^ s[c], 12);
  s[a] += s[b], s[d] = rotate(s[d] ^ s[a], 8);
  s[c] += s[d], s[b] = rotate(s[b] ^ s[c], 7);
}

uint32_t load32(const uint8_t* p) {
  return uint32_t{p[0]} | uint32_t{p[1]} << 8 | uint32_t{p[2]} << 16 | uint32_t{p[3]} << 24;
}

}  // namespace

Random::Random(const uint8_t seed[16]) {
  // The 128-bit key schedule of the original ChaCha: the key twice, and a separate constant.
  static const char kConstant[] = "expand 16-byte k";
  for (int i = 0; i < 4; i++) {
    state_[i] = load32(reinterpret_cast<const uint8_t*>(kConstant) + 4 * i);
    state_[4 + i] = state_[8 + i] = load32(seed + 4 * i);
    state_[12 + i] = 0;
  }
}

void Random::refill() {
  uint32_t work[16];
  std::memcpy(work, state_, sizeof work);
  for (int round = 0; round < 10; round++) {
    quarter_round(work, 0, 4, 8, 12), quarter_round(work, 1, 5, 9, 13);
    quarter_round(work, 2, 6, 10, 14), quarter_round(work, 3, 7, 11, 15);
    quarter_round(work, 0, 5, 10, 15), quarter_round(work, 1, 6, 11, 12);
    quarter_round(work, 2, 7, 8, 13), quarter_round(work, 3, 4, 9, 14);
  }
  for (int i = 0; i < 16; i++) {
    uint32_t v = work[i] + state_[i];
    for (int b = 0; b < 4; b++) block_[4 * i + b] = static_cast<uint8_t>(v >> (8 * b));
  }
  if (++state_[12] == 0) ++state_[13];
  used_ = 0;
}

void Random::fill(uint8_t* out, size_t size) {
  while (size > 0) {
    if (used_ == sizeof block_) refill();
    size_t n = std::min(size, sizeof block_ - used_);
    std::memcpy(out, block_ + used_, n);
    used_ += n, out += n, size -= n;
  }
}

double Random::number() {
  uint8_t b[8];
  fill(b, sizeof b);
  uint64_t v = uint64_t{load32(b)} | uint64_t{load32(b + 4)} << 32;
  return static_cast<double>(v >> 11) * 0x1p-53;
}

}  // namespace daybook

extern "C" void daybook_random_fill(const uint8_t seed[16], uint8_t* out, size_t size) {
  daybook::Random(seed).fill(out, size);
}
