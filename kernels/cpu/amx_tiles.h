#pragma once

// What the kernels of bfloat16 on matrix units share: the instructions, what stands in for them
// without matrix units, orders of elements, and how convolutions number pixels.

#include "wick/kernels/cpu/amx.h"
#include "wick/kernels/cpu/channels_last.h"
#include "wick/kernels/cpu/product_tile.h"

namespace wick::WICK_ISA::amx {

inline constexpr int64_t kTile = 16;  // rows of a tile, and columns of float32
inline constexpr int64_t kBlock =
    2 * kTile;  // what 2 x 2 tiles cover, and a tile's row of bfloat16
inline constexpr int64_t kTileBytes = 1024;
inline constexpr int64_t kTileFloats = kTile * kTile;
inline constexpr int64_t kTileHalves = kTile * kBlock;

// --- The instructions ---------------------------------------------------------------------------

/// Eight tiles of 16 rows of 64 bytes, for the thread that holds this. What multiply_block() adds
/// up are sums of `inner` products: an even number.
class Tiles {
 public:
  WICK_INLINE explicit Tiles(int64_t inner = kBlock) {
    struct alignas(64) Config {
      uint8_t palette, start_row, reserved[14];
      uint16_t row_bytes[16];
      uint8_t rows[16];
    } config = {};
    config.palette = 1;
    for (int i = 0; i < 8; ++i) {
      config.row_bytes[i] = 64;
      config.rows[i] = kTile;
    }
    config.row_bytes[4] = config.row_bytes[5] = static_cast<uint16_t>(inner * 2);
    config.rows[6] = config.rows[7] = static_cast<uint8_t>(inner / 2);
    asm volatile("ldtilecfg %0" ::"m"(config));
  }
  WICK_INLINE ~Tiles() { asm volatile("tilerelease" ::: "memory"); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
};

template <int kIndex>
WICK_INLINE void zero_tile() {
  asm volatile("tilezero %%tmm%c0" ::"i"(kIndex));
}
/// Rows are `stride` bytes apart.
template <int kIndex>
WICK_INLINE void load_tile(const void* p, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(stride), "i"(kIndex) : "memory");
}
template <int kIndex>
WICK_INLINE void store_tile(void* p, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(p), "r"(stride), "i"(kIndex) : "memory");
}
/// sum += a b: `a` has 16 rows of 32 bfloat16, `b` the 32 rows of 16 columns as 16 rows of pairs.
template <int kSum, int kA, int kB>
WICK_INLINE void multiply_tiles() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kA), "i"(kB));
}

/// Tiles 0 to 3, a block of 2 x 2, += tiles 4 and 5 from `a` times tiles 6 and 7 from `b`.
WICK_INLINE void multiply_block(const BFloat16* a, int64_t a_next, int64_t a_row, const BFloat16* b,
                                int64_t b_next, int64_t b_row) {
  load_tile<4>(a, a_row);
  load_tile<6>(b, b_row);
  load_tile<7>(b + b_next, b_row);
  multiply_tiles<0, 4, 6>();
  load_tile<5>(a + a_next, a_row);
  multiply_tiles<1, 4, 7>();
  multiply_tiles<2, 5, 6>();
  multiply_tiles<3, 5, 7>();
}
WICK_INLINE void zero_block() {
  zero_tile<0>();
  zero_tile<1>();
  zero_tile<2>();
  zero_tile<3>();
}
/// The four tiles of a block as 32 rows of 32 floats, which are `row` floats apart.
WICK_INLINE void load_block(const float* from, int64_t row = kBlock) {
  load_tile<0>(from, row * 4);
  load_tile<1>(from + kTile, row * 4);
  load_tile<2>(from + kTile * row, row * 4);
  load_tile<3>(from + kTile * row + kTile, row * 4);
}
WICK_INLINE void store_block(float* to, int64_t row = kBlock) {
  store_tile<0>(to, row * 4);
  store_tile<1>(to + kTile, row * 4);
  store_tile<2>(to + kTile * row, row * 4);
  store_tile<3>(to + kTile * row + kTile, row * 4);
}

// --- The same by dot products of pairs ----------------------------------------------------------

/// Tiles of 16 rows: what lies between tiles, rows and blocks of 32 elements along k.
struct PairedRows {
  const BFloat16* data;
  int64_t next, row, step;
};

/// c = a b, or c += a b with `adds`: `rows`, a multiple of 8, by kTiles tiles of 16 columns. `b`
/// has the tiles of 32 k one after the other, as pairs along k, and the next 32 k `b_step` later.
/// Sums run along the first `inner` elements of k. Inlined: steps that are constants save 5 %.
template <int kTiles>
WICK_INLINE void multiply_pairs(int64_t rows, int64_t inner, const PairedRows& a, const BFloat16* b,
                                int64_t b_step, bool adds, float* c, int64_t c_row) {
  constexpr int64_t kRows = 8;
  const int64_t a_row = a.row, a_step = a.step;
  for (int64_t row = 0; row < rows; row += kRows, c += kRows * c_row) {
    const BFloat16* const first = a.data + row / kTile * a.next + row % kTile * a_row;
    VecF sums[kRows][kTiles];
#pragma GCC unroll 8
    for (int64_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int i = 0; i < kTiles; ++i) {
        sums[r][i] = adds ? VecF::load(c + r * c_row + i * kTile) : VecF(0);
      }
    }
    for (int64_t k = 0; k < inner; k += kBlock) {
      const BFloat16 *left = first + k / kBlock * a_step, *right = b + k / kBlock * b_step;
      for (int64_t pairs = smaller(kTile, (inner - k + 1) / 2); pairs > 0; --pairs) {
        VecF columns[kTiles];
#pragma GCC unroll 2
        for (int i = 0; i < kTiles; ++i) columns[i] = VecF(_mm512_load_ps(right + i * kTileHalves));
#pragma GCC unroll 8
        for (int64_t r = 0; r < kRows; ++r) {
          const VecF pair = MultiplyPairs::left(left + r * a_row);
#pragma GCC unroll 2
          for (int i = 0; i < kTiles; ++i) {
            sums[r][i] = MultiplyPairs::add(pair, columns[i], sums[r][i]);
          }
        }
        left += 2;
        right += kBlock;
      }
    }
#pragma GCC unroll 8
    for (int64_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int i = 0; i < kTiles; ++i) sums[r][i].store(c + r * c_row + i * kTile);
    }
  }
}

// --- Orders of elements -------------------------------------------------------------------------

/// Transposes 16 rows of 16 numbers of 32 bits.
WICK_INLINE void transpose(__m512i* r) {
  __m512i t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
  }
}

/// Takes lines of 32 channels, position by position, and writes them as rows of positions, `pitch`
/// apart.
class Transposer {
 public:
  WICK_INLINE Transposer(BFloat16* to, int64_t pitch) : to_(to), pitch_(pitch) {}

  WICK_INLINE void operator()(int64_t position, __m512i line) {
    if (position % 2 == 0) {
      before_ = line;
      return;
    }
    const Pairs pairs(before_, line);
    const int64_t pair = position / 2 % kTile;
    low_[pair] = pairs.low;
    high_[pair] = pairs.high;
    if (pair + 1 < kTile) return;
    transpose(low_);
    transpose(high_);
    BFloat16* out = to_ + position / kBlock * kBlock;
    for (int64_t i = 0; i < kTile; ++i) {
      _mm512_store_si512(out + i * pitch_, low_[i]);
      _mm512_store_si512(out + (kTile + i) * pitch_, high_[i]);
    }
  }

 private:
  BFloat16* to_;
  int64_t pitch_;
  __m512i low_[kTile], high_[kTile], before_ = _mm512_setzero_si512();
};

WICK_INLINE BFloat16* halves(Workspace& workspace, int64_t count) {
  return static_cast<BFloat16*>(workspace.allocate(static_cast<size_t>(count) * 2));
}

// --- How pixels are numbered --------------------------------------------------------------------

/// Where tap `tap` of a kernel reads along one axis: in plane `plane` of the source (of every
/// stride-th element), `shift` places on from the result's.
struct Reach {
  bool used;
  int64_t plane, shift;
};
WICK_INLINE Reach reach_forward(int64_t tap, int64_t stride, int64_t padding, int64_t dilation) {
  const int64_t at = tap * dilation - padding;
  const int64_t plane = (at % stride + stride) % stride;
  return {true, plane, (at - plane) / stride};
}
/// The other way round: from y's gradient to plane `phase` of x's.
WICK_INLINE Reach reach_backward(int64_t tap, int64_t stride, int64_t padding, int64_t dilation,
                                 int64_t phase) {
  const int64_t at = phase + padding - tap * dilation;
  return {at % stride == 0, 0, at / stride};
}

/// The numbers along one axis: enough zeros follow the elements that no tap reaches beyond them.
struct Axis {
  int64_t source, result, before = 0, after = 0;
  WICK_INLINE Axis(int64_t source_size, int64_t result_size)
      : source(source_size), result(result_size) {}
  WICK_INLINE void include(int64_t shift) {
    before = larger(before, -shift);
    after = larger(after, shift);
  }
  WICK_INLINE int64_t period() const { return larger(source + before, result + after); }
};

struct Tap {
  int64_t plane, rows, columns;  // of the source, and how far from the result's pixel
  int64_t weight;                // which element of the kernel
};

/// The pixels of several images in one row of numbers.
struct Grid {
  int64_t rows, columns;  // of an image, with its zeros
  int64_t before, after;  // zeros that taps reach before the first image and after the last

  WICK_INLINE Grid(const Axis& y, const Axis& x)
      : rows(y.period()),
        columns(x.period()),
        before(y.before * columns + x.before),
        after(y.after * columns + x.after) {}
  WICK_INLINE int64_t image() const { return rows * columns; }
  WICK_INLINE int64_t shift(const Tap& tap) const { return tap.rows * columns + tap.columns; }
};

}  // namespace wick::WICK_ISA::amx
