#ifdef __AVX512F__

#include "wick/core/base/parallel.h"
#include "wick/kernels/cpu/amx_tiles.h"
#include "wick/kernels/cpu/product_finish.h"
#include "wick/kernels/cpu/product_parts.h"
#include "wick/kernels/cpu/product_tile.h"

namespace wick::WICK_ISA {

namespace amx {
namespace {

constexpr int64_t kMostInner = 1024;  // elements along k of one block: the sums' order
constexpr int64_t kMostSteps = 8;     // of 32 k, of which a block stays in the first cache
constexpr int64_t kPackedB = int64_t{1} << 19;  // elements of `b` that stay in the second cache
constexpr int64_t kSummedRows = 512;            // of sums that several blocks of k add to
constexpr int64_t kThreadWork = 1 << 20;        // multiplications that are worth a thread
constexpr int64_t kLoadedColumns = 256;         // so few do not pay for packing `a`
constexpr int64_t kTurnedRows = 128;            // so few do not pay for packing a transposed `b`
constexpr int64_t kTurnedInner = 128;           // nor do sums so short
constexpr int64_t kStep = 2 * kTileHalves;      // what a block of 32 lines has of 32 k

// The sides of a product. Tiles have rows of a, and columns of b as pairs along k.
enum class Side { kA, kB };

// Up to 32 lines of a block: elements of consecutive k or, if not `along_k`, lines that cross them.
struct Lines {
  const BFloat16* data;
  int64_t distance;  // between lines
  bool along_k;
  int64_t count;  // rows of a or columns of b
};

// 16 lines of consecutive k, as they are: rows of 32 elements.
WICK_INLINE void load_lines(const Lines& lines, int64_t first, int64_t k, int64_t left,
                            __m512i* rows) {
  const __mmask32 mask = halves_mask(left);
  const BFloat16* line = lines.data + first * lines.distance + k;
#pragma GCC unroll 16
  for (int64_t i = 0; i < kTile; ++i, line += lines.distance) {
    rows[i] = _mm512_setzero_si512();
    if (first + i >= lines.count) continue;
    rows[i] = _mm512_maskz_loadu_epi16(mask, line);
    __builtin_prefetch(line + 2 * kBlock);
  }
}

// Lines that cross k, two by two: 16 rows of pairs for the first 16 elements, and for the last.
WICK_INLINE void load_pairs(const Lines& lines, int64_t k, int64_t left, __m512i* rows) {
  const __mmask32 mask = halves_mask(lines.count);
  const BFloat16* line = lines.data + k * lines.distance;
  for (int64_t i = 0; i < kTile; ++i, line += 2 * lines.distance) {
    __m512i even = _mm512_setzero_si512(), odd = _mm512_setzero_si512();
    if (2 * i < left) even = _mm512_maskz_loadu_epi16(mask, line);
    if (2 * i + 1 < left) odd = _mm512_maskz_loadu_epi16(mask, line + lines.distance);
    if (2 * i + 1 + kBlock < left) {
      __builtin_prefetch(line + kBlock * lines.distance);
      __builtin_prefetch(line + (kBlock + 1) * lines.distance);
    }
    const Pairs pairs(even, odd);
    rows[i] = pairs.low;
    rows[kTile + i] = pairs.high;
  }
}

// Elements k to k + 32 as two tiles, or one if there are few lines; what has no source is 0.
template <Side kSide>
WICK_INLINE void pack_step(const Lines& lines, int64_t k, int64_t inner, BFloat16* to) {
  __m512i rows[kBlock];
  if (!lines.along_k) load_pairs(lines, k, inner - k, rows);
  for (int64_t first = 0; first < lines.count; first += kTile) {
    __m512i* const tile = rows + first;
    if (lines.along_k) load_lines(lines, first, k, inner - k, tile);
    if (lines.along_k == (kSide == Side::kB)) transpose(tile);
#pragma GCC unroll 16
    for (int64_t i = 0; i < kTile; ++i) {
      _mm512_store_si512(to + (first + i) * kBlock, tile[i]);
    }
  }
}

template <Side kSide>
WICK_INLINE void pack(const Lines& lines, int64_t inner, BFloat16* to) {
  for (int64_t k = 0; k < inner; k += kBlock, to += kStep) pack_step<kSide>(lines, k, inner, to);
}

// Where the two tiles of a step are that have rows of a: packed, or in the matrix itself.
struct Operand {
  const BFloat16* data;
  int64_t step, next, row;  // from one step, tile and row to the next
  bool is_tall;             // whether there is a second tile

  WICK_INLINE Operand from(int64_t first) const {
    return {data + first * step, step, next, row, is_tall};
  }
};

// Of 2 x 2 tiles those that have elements.
template <bool kTall, bool kWide>
[[gnu::noinline]] void multiply_tiles_of(const Operand& a, const BFloat16* b, int64_t steps,
                                         bool adds, float* block) {
  constexpr int64_t kDown = kTile * kBlock, kRowBytes = kBlock * 4;
  zero_block();
  if (adds) {
    load_tile<0>(block, kRowBytes);
    if (kWide) load_tile<1>(block + kTile, kRowBytes);
    if (kTall) load_tile<2>(block + kDown, kRowBytes);
    if (kTall && kWide) load_tile<3>(block + kDown + kTile, kRowBytes);
  }
  const BFloat16* from = a.data;
  const int64_t a_step = a.step, a_next = a.next, a_row = a.row * 2;
  for (; steps > 0; --steps, from += a_step, b += kStep) {
    load_tile<4>(from, a_row);
    load_tile<6>(b, 64);
    if (kWide) load_tile<7>(b + kTileHalves, 64);
    multiply_tiles<0, 4, 6>();
    if (kTall) load_tile<5>(from + a_next, a_row);
    if (kWide) multiply_tiles<1, 4, 7>();
    if (kTall) multiply_tiles<2, 5, 6>();
    if (kTall && kWide) multiply_tiles<3, 5, 7>();
  }
  store_tile<0>(block, kRowBytes);
  if (kWide) store_tile<1>(block + kTile, kRowBytes);
  if (kTall) store_tile<2>(block + kDown, kRowBytes);
  if (kTall && kWide) store_tile<3>(block + kDown + kTile, kRowBytes);
}

// --- What becomes of a block's sums -------------------------------------------------------------

WICK_INLINE void add_floats(float* block, int64_t rows, int64_t columns, const float* x,
                            int64_t row) {
  const FirstLanes<float> low(smaller(columns, kTile)), high(larger(columns - kTile, 0));
  for (int64_t r = 0; r < rows; ++r, block += kBlock, x += row) {
    (low.load(x) + VecF::load(block)).store(block);
    (high.load(x + kTile) + VecF::load(block + kTile)).store(block + kTile);
  }
}
WICK_INLINE void add_halves(float* block, int64_t rows, int64_t columns, const BFloat16* x,
                            int64_t row) {
  alignas(64) BFloat16 line[kBlock];
  for (int64_t r = 0; r < rows; ++r, block += kBlock, x += row) {
    _mm512_store_si512(line, _mm512_maskz_loadu_epi16(halves_mask(columns), x));
    (VecF::load(line) + VecF::load(block)).store(block);
    (VecF::load(line + kTile) + VecF::load(block + kTile)).store(block + kTile);
  }
}
WICK_INLINE void store_floats(const float* block, int64_t rows, int64_t columns, float* to,
                              int64_t row) {
  const FirstLanes<float> low(smaller(columns, kTile)), high(larger(columns - kTile, 0));
  for (int64_t r = 0; r < rows; ++r, block += kBlock, to += row) {
    low.store(VecF::load(block), to);
    high.store(VecF::load(block + kTile), to + kTile);
  }
}

// In place: 2 x 2 tiles of 16 x 16.
WICK_INLINE void transpose_block(float* block) {
  __m512i tiles[4][kTile];
  for (int i = 0; i < 4; ++i) {
    const float* const from = block + i / 2 * kTile * kBlock + i % 2 * kTile;
    for (int64_t r = 0; r < kTile; ++r) tiles[i][r] = _mm512_load_si512(from + r * kBlock);
    transpose(tiles[i]);
  }
  for (int i = 0; i < 4; ++i) {
    float* const to = block + i % 2 * kTile * kBlock + i / 2 * kTile;
    for (int64_t r = 0; r < kTile; ++r) _mm512_store_si512(to + r * kBlock, tiles[i][r]);
  }
}

class MatrixProduct {
 public:
  WICK_INLINE MatrixProduct(const cpu::Product& p, bool is_turned, Workspace& workspace)
      : p_(p),
        k_(p.sizes.k),
        is_turned_(is_turned),
        loads_a_(p.a.column == 1 && k_ % kBlock == 0 && k_ > 0 && p.a.row % 2048 != 0),
        float_out_(p.out == Dtype::kFloat32),
        inner_(round_up(larger(1, smaller(k_, kMostInner)), kBlock)),
        workspace_(workspace) {}

  WICK_INLINE void run() {
    const double work = static_cast<double>(p_.count) * static_cast<double>(p_.sizes.m) *
                        static_cast<double>(p_.sizes.n) * static_cast<double>(k_);
    const int64_t threads = useful_threads(work, kThreadWork);
    const bool sums = !float_out_ && k_ > kMostInner;
    const Parts parts(p_, kBlock, kBlock, sums ? kSummedRows : p_.sizes.m,
                      larger(kBlock, kPackedB / inner_ / kBlock * kBlock), threads, 256, 256);
    const int64_t used = smaller(threads, parts.count());
    loads_a_ = loads_a_ && parts.most_columns() <= kLoadedColumns;
    const int64_t a_size = kBlock * inner_, b_size = parts.most_columns() * inner_;
    const int64_t sums_size = sums ? 2 * parts.most_rows() * parts.most_columns() : 0;
    const int64_t blocks_size = 2 * kBlock * parts.most_columns();
    const int64_t each = a_size + b_size + blocks_size + sums_size;
    BFloat16* const buffers =
        static_cast<BFloat16*>(workspace_.allocate(static_cast<size_t>(each * used) * 2));
    parallel_for_threads(parts.count(), used, [&](int64_t thread, int64_t begin, int64_t end) {
      BFloat16* const buffer = buffers + thread * each;
      float* const blocks = reinterpret_cast<float*>(buffer + a_size + b_size);
      const Tiles tiles;
      for (int64_t i = begin; i < end; ++i) {
        compute(parts[i], buffer, buffer + a_size, blocks, blocks + blocks_size / 2);
      }
    });
    workspace_.release(buffers);
  }

 private:
  WICK_INLINE Lines a_lines(const Part& part, int64_t row, int64_t k) const {
    const bool along_k = p_.a.column == 1 || k_ == 1;
    const BFloat16* data = static_cast<const BFloat16*>(p_.a.data) + part.product * p_.a_step +
                           (part.row + row) * p_.a.row + k * p_.a.column;
    return {data, along_k ? p_.a.row : p_.a.column, along_k, smaller(kBlock, part.rows - row)};
  }
  WICK_INLINE Lines b_lines(const Part& part, int64_t column, int64_t k) const {
    const bool along_k = p_.b.column != 1 && p_.sizes.n != 1;
    const BFloat16* data = static_cast<const BFloat16*>(p_.b.data) + part.product * p_.b_step +
                           (part.column + column) * p_.b.column + k * p_.b.row;
    return {data, along_k ? p_.b.column : p_.b.row, along_k,
            smaller(kBlock, part.columns - column)};
  }

  void compute(const Part& part, BFloat16* packed_a, BFloat16* packed_b, float* blocks,
               float* sums) const {
    for (int64_t k = 0; k == 0 || k < k_; k += kMostInner) {
      const int64_t inner = smaller(kMostInner, k_ - k), steps = (inner + kBlock - 1) / kBlock;
      // In the order in which b lies in memory.
      const bool along_k = b_lines(part, 0, k).along_k;
      const int64_t some = along_k ? inner : kBlock;
      for (int64_t first = 0; first < inner; first += some) {
        for (int64_t column = 0; column < part.columns; column += kBlock) {
          pack<Side::kB>(b_lines(part, column, k + first), smaller(some, inner - first),
                         packed_b + column * inner_ + first * kBlock);
        }
      }
      for (int64_t row = 0; row < part.rows; row += kBlock) {
        const Lines lines = a_lines(part, row, k);
        Operand a{packed_a, kStep, kTileHalves, kBlock, lines.count > kTile};
        if (loads_a_ && lines.count % kTile == 0) {
          a = {lines.data, kBlock, kTile * lines.distance, lines.distance, lines.count > kTile};
        } else {
          pack<Side::kA>(lines, inner, packed_a);
        }
        for (int64_t step = 0; step == 0 || step < steps; step += kMostSteps) {
          const int64_t count = smaller(kMostSteps, steps - step);
          float* block = blocks;
          for (int64_t column = 0; column < part.columns; column += kBlock) {
            const BFloat16* const b = packed_b + column * inner_ + step * kStep;
            multiply(a.from(step), b, part.columns - column > kTile,
                     smaller(count * kBlock, inner - step * kBlock), step > 0, block);
            if (step + count == steps) {
              store(part, row, column, block, k == 0, k + kMostInner >= k_, sums);
            }
            if (steps > kMostSteps) block += kBlock * kBlock;
          }
        }
      }
    }
  }

  // The sums of one block of 32 x 32 over `inner` elements along k, added to what `block` has.
  WICK_INLINE void multiply(const Operand& a, const BFloat16* b, bool is_wide, int64_t inner,
                            bool adds, float* block) const {
    const int64_t steps = (inner + kBlock - 1) / kBlock;
    if (a.is_tall) {
      if (is_wide) return multiply_tiles_of<true, true>(a, b, steps, adds, block);
      return multiply_tiles_of<true, false>(a, b, steps, adds, block);
    }
    if (is_wide) return multiply_tiles_of<false, true>(a, b, steps, adds, block);
    multiply_tiles_of<false, false>(a, b, steps, adds, block);
  }

  // Adds what was there before to a block's sums.
  WICK_INLINE void store(const Part& part, int64_t row, int64_t column, float* block, bool is_first,
                         bool is_last, float* sums) const {
    const int64_t across = part.column + column, down = part.row + row;
    int64_t rows = smaller(kBlock, part.rows - row);
    int64_t columns = smaller(kBlock, part.columns - column);
    int64_t at = part.product * p_.c_step;
    if (is_turned_) {
      transpose_block(block);
      const int64_t height = rows;
      rows = columns;
      columns = height;
      at += across * p_.c_row + down;
      sums += column * part.rows + row;
    } else {
      at += down * p_.c_row + across;
      sums += row * part.columns + column;
    }
    const int64_t bias_at = is_turned_ ? down : across;
    if (!float_out_) {
      BFloat16* const c = static_cast<BFloat16*>(p_.c) + at;
      const BFloat16* const bias = static_cast<const BFloat16*>(p_.bias);
      if (is_first && p_.accumulate) add_halves(block, rows, columns, c, p_.c_row);
      if (is_first && bias != nullptr) add_halves(block, rows, columns, bias + bias_at, 0);
      const int64_t sums_row = is_turned_ ? part.rows : part.columns;
      if (!is_first) add_floats(block, rows, columns, sums, sums_row);
      if (!is_last) return store_floats(block, rows, columns, sums, sums_row);
      const __mmask32 mask = halves_mask(columns);
      for (int64_t r = 0; r < rows; ++r, block += kBlock) {
        _mm512_mask_storeu_epi16(c + r * p_.c_row, mask,
                                 round_pair(VecF::load(block), VecF::load(block + kTile)));
      }
      return finish_block(p_, at, rows, columns);
    }
    float* const c = static_cast<float*>(p_.c) + at;
    const float* const bias = static_cast<const float*>(p_.bias);
    if (!is_first || p_.accumulate) add_floats(block, rows, columns, c, p_.c_row);
    if (is_first && bias != nullptr) add_floats(block, rows, columns, bias + bias_at, 0);
    store_floats(block, rows, columns, c, p_.c_row);
    if (is_last) finish_block(p_, at, rows, columns);
  }

  const cpu::Product& p_;
  int64_t k_;
  bool is_turned_;  // whether the results are to be stored as rows of columns
  bool loads_a_;    // whether tiles of a are loaded from the matrix itself: not in one cache set
  bool float_out_;
  int64_t inner_;  // of a block, in whole steps
  Workspace& workspace_;
};

}  // namespace
}  // namespace amx

// Few rows by a transposed matrix: its own rows are loaded as they are, as those of the left side.
void bfloat16_product(const cpu::Product& p, Workspace& workspace) {
  const auto [m, n, k] = p.sizes;
  if (m > amx::kTurnedRows || n < m || k < amx::kTurnedInner || p.b.column == 1) {
    return amx::MatrixProduct(p, false, workspace).run();
  }
  amx::MatrixProduct(turned(p), true, workspace).run();
}

}  // namespace wick::WICK_ISA

#endif
