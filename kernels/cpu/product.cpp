#include "wick/kernels/cpu/product.h"

#include "wick/core/base/parallel.h"
#include "wick/kernels/cpu/product_dot.h"
#include "wick/kernels/cpu/product_finish.h"
#include "wick/kernels/cpu/product_parts.h"

namespace wick::WICK_ISA {

using namespace cpu;

namespace {

constexpr int64_t kInnerBytes = 2048;   // of a row of a block of k: what decides the sums' order
constexpr int64_t kBlockRows = 48;      // of `a` that are packed at a time, in whole tiles
constexpr int64_t kLooseInner = 128;    // of k: so few of a block of `a` stay in the first cache
constexpr int64_t kLooseColumns = 128;  // of results: so few use a packed tile of `a` too seldom
constexpr int64_t kPackedRows = 16;     // of `b` that are packed at a time, with all columns
constexpr int64_t kMostColumns = 384;   // of `b` that stay in the second cache
constexpr int64_t kUnpackedRows = 192;  // so few are not worth packing `b`
constexpr int64_t kScatteredRows = WICK_WIDE(192, 40);  // the same where `b` is scattered
constexpr int64_t kRememberedBytes = 64 * 4096;         // in pages whose addresses are at hand
constexpr int64_t kPage = 4096;        // bytes: lines so far apart share a place in the first cache
constexpr int64_t kRoundedRows = 256;  // of sums that are rounded at the end
constexpr int64_t kNearBytes = 1 << 20;  // of results that are likely in the second cache

// Computes in T what is stored as S.
template <class T, class S>
class Blocks {
 public:
  WICK_INLINE Blocks(const Product& p, Workspace& workspace)
      : p_(p),
        m_(p.sizes.m),
        n_(p.sizes.n),
        k_(p.sizes.k),
        a_rows_(p.a.column == 1 || k_ == 1),
        rounds_(!std::is_same_v<S, T> && p.out != Dtype::kFloat32),
        workspace_(workspace) {}

  WICK_INLINE void run() {
    const double work = static_cast<double>(p_.count) * static_cast<double>(m_) *
                        static_cast<double>(n_) * static_cast<double>(k_ + 1);
    const int64_t threads = useful_threads(work);
    const bool is_flat = !kConverts && a_rows_ && m_ <= kUnpackedRows;  // rows to read, not to pack
    const Parts parts(p_, kTileRows, kTileColumns<T>, rounds_ ? kRoundedRows : m_, kMostColumns,
                      threads, is_flat ? 0 : 16, 16);
    const int64_t rows = parts.most_rows(), columns = parts.most_columns();
    const int64_t inner = smaller(k_, kInner);
    packs_a_ = kConverts || (!a_rows_ && rows > kTileRows);
    packs_b_ = kConverts || (p_.b.column != 1 && n_ != 1) || rows > unpacked_rows(inner);
    const int64_t a_size = packs_a_ ? kBlockRows * inner : 0;
    const int64_t b_size = packs_b_ ? columns * inner : 0;
    const int64_t sums_size = rounds_ ? rows * columns : 0;
    const int64_t each = round_up(a_size + b_size + sums_size + 1, 16);
    const int64_t used = smaller(threads, parts.count());
    T* const buffers =
        static_cast<T*>(workspace_.allocate(static_cast<size_t>(each * used) * sizeof(T)));
    parallel_for_threads(parts.count(), used, [&](int64_t thread, int64_t begin, int64_t end) {
      T* const buffer = buffers + thread * each;
      for (int64_t i = begin; i < end; ++i) {
        compute(parts[i], buffer, buffer + a_size, buffer + a_size + b_size);
      }
    });
    workspace_.release(buffers);
  }

 private:
  static constexpr bool kConverts = !std::is_same_v<S, T>;
  static constexpr int64_t kInner = kInnerBytes / static_cast<int64_t>(sizeof(T));

  WICK_INLINE const S* a_at(const Part& part, int64_t row, int64_t k) const {
    return static_cast<const S*>(p_.a.data) + part.product * p_.a_step +
           (part.row + row) * p_.a.row + k * p_.a.column;
  }
  WICK_INLINE const S* b_at(const Part& part, int64_t k, int64_t column) const {
    return static_cast<const S*>(p_.b.data) + part.product * p_.b_step + k * p_.b.row +
           (part.column + column) * p_.b.column;
  }
  WICK_INLINE int64_t place_of(const Part& part) const {
    return part.product * p_.c_step + part.row * p_.c_row + part.column;
  }
  template <class O>
  WICK_INLINE O* c_at(const Part& part) const {
    return static_cast<O*>(p_.c) + place_of(part);
  }

  // How many rows are not worth packing `b`. AVX2's narrow panels feel it where every few k lie in
  // another page, and the pages are more than the processor remembers.
  WICK_INLINE int64_t unpacked_rows(int64_t inner) const {
    const int64_t bytes = inner * p_.b.row * static_cast<int64_t>(sizeof(T));
    return bytes > kRememberedBytes ? kScatteredRows : kUnpackedRows;
  }

  // Whether packed columns of `a` lie tile by tile, not in lines of a whole block. A conversion
  // takes whole vectors.
  WICK_INLINE bool packs_tiles(const Part& part, int64_t inner) const {
    return packs_a_ && !a_rows_ && !kConverts && inner > kLooseInner &&
           part.columns > kLooseColumns;
  }

  // In the order in which b lies in memory.
  WICK_INLINE void pack_b(const Part& part, int64_t k, int64_t inner, T* packed) const {
    const int64_t some = p_.b.column == 1 ? kPackedRows : inner;
    for (int64_t first = 0; first < inner; first += some) {
      for (int64_t column = 0; column < part.columns; column += kTileColumns<T>) {
        pack_columns(b_at(part, k + first, column), p_.b.row, p_.b.column,
                     smaller(some, inner - first), smaller(kTileColumns<T>, part.columns - column),
                     packed + column * inner + first * kTileColumns<T>);
      }
    }
  }

  void compute(const Part& part, T* packed_a, T* packed_b, T* sums) const {
    for (int64_t k = 0; k == 0 || k < k_; k += kInner) {
      const int64_t inner = smaller(kInner, k_ - k);
      if (packs_b_) pack_b(part, k, inner, packed_b);
      for (int64_t first = 0; first < part.rows; first += kBlockRows) {
        const int64_t rows = smaller(kBlockRows, part.rows - first);
        const S* const a = a_at(part, first, k);
        Tile<T> tile{.inner = inner};
        if (!packs_a_) {
          tile.a = as_computed(a);
          tile.a_row = p_.a.row;
          tile.a_step = p_.a.column;
        } else if (a_rows_) {
          pack_lines(a, p_.a.row, rows, inner, inner, packed_a);
          tile.a = packed_a;
          tile.a_row = inner;
          tile.a_step = 1;
        } else if (packs_tiles(part, inner)) {
          pack_tiles(as_computed(a), p_.a.column, inner, rows, part.columns, packed_a);
          tile.a = packed_a;
          tile.a_row = 1;  // the step is the tile's height
        } else {
          pack_lines(a, p_.a.column, inner, rows, kBlockRows, packed_a);
          tile.a = packed_a;
          tile.a_row = 1;
          tile.a_step = kBlockRows;
        }
        multiply_rows(part, tile, k, first, rows, packed_b, sums);
        if (!rounds_ && k + inner >= k_) {
          finish_block(p_, place_of(part) + first * p_.c_row, rows, part.columns);
        }
      }
    }
    if (rounds_) {
      round(part, sums);
      finish_block(p_, place_of(part), part.rows, part.columns);
    }
  }

  // Of types that need no conversion; others are packed.
  static WICK_INLINE const T* as_computed(const S* x) {
    if constexpr (kConverts) {
      return nullptr;
    } else {
      return x;
    }
  }

  // Asks for the rows of `a` that follow a tile. Where one tile has all columns, each row is read
  // once, and the memory would bring it too late. Rows that share places in the cache would only
  // drive out one another.
  static WICK_INLINE void ask_for_rows(const Tile<T>& tile, int64_t rows) {
    constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
    const T* row = tile.a + rows * tile.a_row;
    for (int64_t r = 0; r < rows; ++r, row += tile.a_row) {
      for (int64_t k = 0; k < tile.inner; k += kLine) __builtin_prefetch(row + k, 0, 2);
    }
  }

  // `rows` rows of the part from `first` on, of which `tile` has the elements of a; it changes.
  // Few rows stay in the nearest cache while all columns pass.
  WICK_INLINE void multiply_rows(const Part& part, Tile<T>& tile, int64_t k, int64_t first,
                                 int64_t rows, const T* packed_b, T* sums) const {
    const bool adds = k > 0 || (p_.accumulate && !rounds_);
    const T* const bias = rounds_ ? nullptr : static_cast<const T*>(p_.bias);
    T* const c = rounds_ ? sums : c_at<T>(part);
    const T* const a = tile.a;
    const bool by_tiles = packs_tiles(part, tile.inner);
    const bool collides = p_.a.row * static_cast<int64_t>(sizeof(T)) % kPage == 0;
    const bool asks = !packs_a_ && a_rows_ && !collides && part.columns > kNarrow<T> &&
                      part.columns <= kTileColumns<T>;
    tile.b_step = packs_b_ ? kTileColumns<T> : p_.b.row;
    tile.padded = packs_b_;
    tile.c_row = rounds_ ? part.columns : p_.c_row;
    tile.start_row = adds ? tile.c_row : 0;
    tile.is_far = adds || m_ * n_ * static_cast<int64_t>(sizeof(T)) > kNearBytes;
    for (int64_t begin = 0, end; begin < rows; begin = end) {
      end = begin + tile_rows<T>(rows - begin, part.columns);
      tile.a = a + begin * (by_tiles ? tile.inner : tile.a_row);
      if (by_tiles) tile.a_step = end - begin;
      if (asks) ask_for_rows(tile, end - begin);
      for (int64_t column = 0; column < part.columns; column += kTileColumns<T>) {
        tile.width = smaller(kTileColumns<T>, part.columns - column);
        tile.b = packs_b_ ? packed_b + column * tile.inner : as_computed(b_at(part, k, column));
        tile.c = c + (first + begin) * tile.c_row + column;
        tile.start = adds ? tile.c : bias != nullptr ? bias + part.column + column : nullptr;
        multiply_tile(end - begin, tile);
      }
    }
  }

  // Bias and former results join the sums before the one rounding.
  WICK_INLINE void round(const Part& part, const T* sums) const {
    if constexpr (kConverts) {
      S* c = c_at<S>(part);
      const S* bias = static_cast<const S*>(p_.bias);
      for (int64_t r = 0; r < part.rows; ++r, c += p_.c_row, sums += part.columns) {
        for_vectors<T>(part.columns, [&](int64_t at, int64_t left) {
          Vec<T> sum = load_up_to<T>(sums + at, left);
          if (bias != nullptr) sum += load_up_to<T>(bias + part.column + at, left);
          if (p_.accumulate) sum += load_up_to<T>(c + at, left);
          store_up_to(sum, c + at, left);
        });
      }
    }
  }

  const Product& p_;
  int64_t m_, n_, k_;
  bool a_rows_;  // whether a's rows lie in one piece
  bool rounds_;  // whether sums are kept apart, to be rounded at the end
  bool packs_a_ = false, packs_b_ = false;
  Workspace& workspace_;
};

// A column of results as a row, where that makes rows of b contiguous.
WICK_INLINE Product turned(const Product& p) {
  Product t = p;
  t.sizes = {1, p.sizes.m, p.sizes.k};
  t.a = {p.b.data, p.b.column, p.b.row};
  t.b = {p.a.data, p.a.column, p.a.row};
  t.a_step = p.b_step;
  t.b_step = p.a_step;
  return t;
}

template <class T, class S>
WICK_INLINE void multiply(const Product& p, Workspace& workspace) {
  if (Dots<T, S>::suits(p)) return Dots<T, S>(p).run();
  const bool turns = p.sizes.n == 1 && p.sizes.m > 1 && p.a.row == 1 && p.c_row == 1;
  if (turns && p.bias == nullptr) return Blocks<T, S>(turned(p), workspace).run();
#ifdef __AVX512F__
  if (std::is_same_v<S, BFloat16> && p.unit != BFloat16Unit::kFloat32) {
    return bfloat16_product(p, workspace);
  }
#endif
  Blocks<T, S>(p, workspace).run();
}

}  // namespace

void product(const Product& p, Workspace& workspace) {
  if (p.count == 0 || p.sizes.m == 0 || p.sizes.n == 0) return;
  if (p.sizes.k == 0 && p.a.data != p.c) {  // operands without elements may have no memory
    Product sums = p;
    sums.a = sums.b = {p.c, 0, 0};
    sums.a_step = sums.b_step = 0;
    return product(sums, workspace);
  }
  switch (p.in) {
    case Dtype::kFloat64: return multiply<double, double>(p, workspace);
    case Dtype::kBFloat16: return multiply<float, BFloat16>(p, workspace);
    default: return multiply<float, float>(p, workspace);
  }
}

}  // namespace wick::WICK_ISA
