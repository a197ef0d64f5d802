#include "wick/data/detail/crc32c.h"

#include <array>
#include <cstring>

#ifdef __SSE4_2__
#include <nmmintrin.h>
#endif

namespace wick::data {

namespace {

constexpr std::array<uint32_t, 256> make_table() {
  constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = make_table();

#ifdef __SSE4_2__
// The instruction takes three cycles, but one may begin in each: three lanes of bytes side by side.
constexpr size_t kLane = 512;

// What `count` zero bytes make of a checksum's register, by its bytes: a linear function.
using Shift = std::array<std::array<uint32_t, 256>, 4>;
constexpr Shift make_shift(size_t count) {
  Shift shift{};
  for (size_t bit = 0; bit < 32; ++bit) {
    uint32_t state = uint32_t{1} << bit;
    for (size_t i = 0; i < count; ++i) state = (state >> 8) ^ kTable[state & 0xff];
    shift[bit / 8][size_t{1} << bit % 8] = state;
  }
  for (auto& of_byte : shift) {
    for (size_t byte = 1; byte < 256; ++byte) {
      of_byte[byte] = of_byte[byte & (byte - 1)] ^ of_byte[byte & (~byte + 1)];
    }
  }
  return shift;
}
constexpr Shift kOneLane = make_shift(kLane), kTwoLanes = make_shift(2 * kLane);

uint32_t shifted(const Shift& shift, uint64_t state) {
  return shift[0][state & 0xff] ^ shift[1][state >> 8 & 0xff] ^ shift[2][state >> 16 & 0xff] ^
         shift[3][state >> 24 & 0xff];
}

uint64_t add_word(uint64_t state, const uint8_t* bytes) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return _mm_crc32_u64(state, word);
}

uint64_t add_three_lanes(uint64_t first, const uint8_t* at) {
  uint64_t second = 0, third = 0;
  for (const uint8_t* end = at + kLane; at != end; at += sizeof(uint64_t)) {
    first = add_word(first, at);
    second = add_word(second, at + kLane);
    third = add_word(third, at + 2 * kLane);
  }
  return shifted(kTwoLanes, first) ^ shifted(kOneLane, second) ^ third;
}
#endif

}  // namespace

uint32_t crc32c_by_table(const void* bytes, size_t count, uint32_t crc) {
  const auto* at = static_cast<const uint8_t*>(bytes);
  crc = ~crc;
  for (size_t i = 0; i < count; ++i) crc = (crc >> 8) ^ kTable[(crc ^ at[i]) & 0xff];
  return ~crc;
}

uint32_t crc32c(const void* bytes, size_t count, uint32_t crc) {
#ifdef __SSE4_2__
  const auto* at = static_cast<const uint8_t*>(bytes);
  uint64_t state = static_cast<uint32_t>(~crc);
  for (; count >= 3 * kLane; count -= 3 * kLane, at += 3 * kLane) {
    state = add_three_lanes(state, at);
  }
  for (; count >= sizeof(uint64_t); count -= sizeof(uint64_t), at += sizeof(uint64_t)) {
    state = add_word(state, at);
  }
  auto rest = static_cast<uint32_t>(state);
  for (; count > 0; --count, ++at) rest = _mm_crc32_u8(rest, *at);
  return ~rest;
#else
  return crc32c_by_table(bytes, count, crc);
#endif
}

}  // namespace wick::data
