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
constexpr int64_t kMostColumns = 384;   // of `b` that stay in the second cache, where k is large
constexpr int64_t kRowStart = 1024;     // multiplications that cutting a row of results costs
constexpr int64_t kUnpackedRows = 192;  // so few are not worth packing `b`
constexpr int64_t kScatteredRows = WICK_WIDE(192, 40);  // the same where `b` is scattered
constexpr int64_t kRememberedBytes = 64 * 4096;         // in pages whose addresses are at hand
constexpr int64_t kPage = 4096;        // bytes: lines so far apart share a place in the first cache
constexpr int64_t kRoundedRows = 512;  // of sums that are rounded at the end
constexpr int64_t kTurnedRows = 128;   // of `a`: more make packing `b` worth it
constexpr int64_t kNearBytes = 1 << 20;  // of results that are likely in the second cache

// Computes in T what is stored as S: pairs along k by Multiply, or numbers.
template <class T, class S, class Multiply = MultiplyAdd>
class Blocks {
  using Left = typename Multiply::template Left<T>;

 public:
  static constexpr bool kConverts = !std::is_same_v<S, Left>;  // to a packed copy

  // `is_turned`: c is the transpose of the product.
  WICK_INLINE Blocks(const Product& p, bool is_turned, Workspace& workspace)
      : p_(p),
        m_(p.sizes.m),
        n_(p.sizes.n),
        k_(p.sizes.k),
        is_turned_(is_turned),
        a_rows_(p.a.column == 1 || k_ == 1),
        rounds_(!std::is_same_v<S, T> && p.out != Dtype::kFloat32),
        tiles_round_(kPairs && rounds_ && !is_turned && k_ <= kInner && !p.accumulate),
        keeps_(!tiles_round_ && (rounds_ || is_turned)),
        keeps_all_(rounds_ && k_ > kInner),
        workspace_(workspace) {}

  WICK_INLINE void run() {
    const double work = static_cast<double>(p_.count) * static_cast<double>(m_) *
                        static_cast<double>(n_) * static_cast<double>(k_ + 1);
    const int64_t threads = useful_threads(work);
    // Rows to read, not to pack.
    const bool is_flat = !kConverts && a_rows_ && (m_ <= kUnpackedRows || is_turned_ || kPairs);
    const int64_t inner = smaller(k_, kInner), row_start = kRowStart / (k_ + 1);
    const int64_t most_columns = kMostColumns * kInner / larger(inner, 1);
    const Parts parts(p_, kTileRows, kTileColumns<T>, keeps_all_ ? kRoundedRows : m_, most_columns,
                      threads, (is_flat ? 0 : 16) + row_start, 16, kNarrow<T>);
    const int64_t rows = parts.most_rows(), columns = parts.most_columns();
    const int64_t steps = steps_of(inner);
    packs_a_ = kConverts || (!a_rows_ && (kPairs || rows > kTileRows));
    packs_b_ = kConverts || kPairs || (p_.b.column != 1 && n_ != 1) || rows > unpacked_rows(steps);
    const int64_t a_size = packs_a_ ? kBlockRows * steps : 0;
    const int64_t b_size = packs_b_ ? round_up(columns, kTileColumns<T>) * steps : 0;
    sums_row_ = round_up(columns, Vec<T>::size);
    const int64_t kept_rows = keeps_all_ ? rows : smaller(kBlockRows, rows);
    const int64_t sums_size = keeps_ ? kept_rows * sums_row_ : 0;
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
  static constexpr int64_t kTogether = Multiply::kTogether;
  static constexpr bool kPairs = kTogether == 2;
  static constexpr int64_t kInner = kTogether * kInnerBytes / static_cast<int64_t>(sizeof(T));

  static WICK_INLINE int64_t steps_of(int64_t inner) { return (inner + kTogether - 1) / kTogether; }
  WICK_INLINE const S* a_at(const Part& part, int64_t row, int64_t k) const {
    return static_cast<const S*>(p_.a.data) + part.product * p_.a_step +
           (part.row + row) * p_.a.row + k * p_.a.column;
  }
  WICK_INLINE const S* b_at(const Part& part, int64_t k, int64_t column) const {
    return static_cast<const S*>(p_.b.data) + part.product * p_.b_step + k * p_.b.row +
           (part.column + column) * p_.b.column;
  }
  // Where results are: those of a turned product in the other order.
  WICK_INLINE int64_t place_of(const Part& part, int64_t row, int64_t column) const {
    row += part.row;
    column += part.column;
    return part.product * p_.c_step +
           (is_turned_ ? column * p_.c_row + row : row * p_.c_row + column);
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
    if (kPairs) return packs_a_;
    return packs_a_ && !a_rows_ && !kConverts && inner > kLooseInner &&
           part.columns > kLooseColumns;
  }

  // In the order in which b lies in memory.
  WICK_INLINE void pack_b(const Part& part, int64_t k, int64_t inner, T* packed) const {
    const int64_t some = p_.b.column == 1 ? kPackedRows : inner, steps = steps_of(inner);
    for (int64_t first = 0; first < inner; first += some) {
      for (int64_t column = 0; column < part.columns; column += kTileColumns<T>) {
        const S* const from = b_at(part, k + first, column);
        const int64_t size = smaller(some, inner - first);
        const int64_t width = smaller(kTileColumns<T>, part.columns - column);
        T* const to = packed + column * steps + first / kTogether * kTileColumns<T>;
#ifdef __AVX512F__
        if constexpr (kPairs) {
          pack_pair_columns(from, p_.b.row, p_.b.column, size, width, to);
          continue;
        }
#endif
        pack_columns(from, p_.b.row, p_.b.column, size, width, to);
      }
    }
  }

  // What a tile is to know of `a`, which is packed if need be.
  WICK_INLINE Tile<T, Multiply> tile_of(const Part& part, int64_t first, int64_t rows, int64_t k,
                                        int64_t inner, T* packed) const {
    const S* const a = a_at(part, first, k);
    Tile<T, Multiply> tile{.inner = steps_of(inner)};
    if (!packs_a_) {
      tile.inner = inner / kTogether;
      tile.has_odd = inner % kTogether != 0;
      tile.a = as_computed(a);
      tile.a_row = p_.a.row;
      tile.a_step = kTogether * p_.a.column;
      return tile;
    }
    tile.a = reinterpret_cast<const Left*>(packed);
    tile.a_row = kTogether;  // of tiles the step is the height
    if constexpr (kPairs) {
#ifdef __AVX512F__
      pack_pair_tiles(a, p_.a.column, inner, rows, part.columns, packed);
#endif
    } else if (a_rows_) {
      pack_lines(a, p_.a.row, rows, inner, inner, packed);
      tile.a_row = inner;
      tile.a_step = 1;
    } else if (packs_tiles(part, inner)) {
      pack_tiles(as_computed(a), p_.a.column, inner, rows, part.columns, packed);
    } else {
      pack_lines(a, p_.a.column, inner, rows, kBlockRows, packed);
      tile.a_step = kBlockRows;
    }
    return tile;
  }

  void compute(const Part& part, T* packed_a, T* packed_b, T* sums) const {
    for (int64_t k = 0; k == 0 || k < k_; k += kInner) {
      const int64_t inner = smaller(kInner, k_ - k);
      const bool is_last = k + inner >= k_;
      if (packs_b_) pack_b(part, k, inner, packed_b);
      for (int64_t first = 0; first < part.rows; first += kBlockRows) {
        const int64_t rows = smaller(kBlockRows, part.rows - first);
        Tile<T, Multiply> tile = tile_of(part, first, rows, k, inner, packed_a);
        T* const kept = sums + (keeps_all_ ? first * sums_row_ : 0);
        multiply_rows(part, tile, k, first, rows, packed_b, kept);
        if (keeps_ && (is_last || !rounds_)) {
          const bool adds = p_.accumulate || (k > 0 && !rounds_);
          if (rounds_) {
            store<S>(part, first, rows, adds, kept);
          } else {
            store<T>(part, first, rows, adds, kept);
          }
        }
        if (!is_last) continue;
        const int64_t place = place_of(part, first, 0);
        if (is_turned_) {
          finish_block(p_, place, part.columns, rows);
        } else {
          finish_block(p_, place, rows, part.columns);
        }
      }
    }
  }

  // Of types that need no conversion; others are packed.
  static WICK_INLINE const Left* as_computed(const S* x) {
    if constexpr (kConverts) {
      return nullptr;
    } else {
      return x;
    }
  }

  // Asks for the rows of `a` that follow a tile. Where one tile has all columns, each row is read
  // once, and the memory would bring it too late. Rows that share places in the cache would only
  // drive out one another.
  static WICK_INLINE void ask_for_rows(const Tile<T, Multiply>& tile, int64_t rows) {
    constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(Left));
    const Left* row = tile.a + rows * tile.a_row;
    for (int64_t r = 0; r < rows; ++r, row += tile.a_row) {
      for (int64_t k = 0; k < tile.inner * kTogether; k += kLine) {
        __builtin_prefetch(row + k, 0, 2);
      }
    }
  }

  // `rows` rows of the part from `first` on, of which `tile` has the elements of a; it changes.
  // Few rows stay in the nearest cache while all columns pass.
  WICK_INLINE void multiply_rows(const Part& part, Tile<T, Multiply>& tile, int64_t k,
                                 int64_t first, int64_t rows, const T* packed_b, T* kept) const {
    const bool adds = k > 0 ? rounds_ || !keeps_ : p_.accumulate && !keeps_;
    const T* const bias = keeps_ || tiles_round_ ? nullptr : static_cast<const T*>(p_.bias);
    const int64_t steps = tile.inner + (tile.has_odd ? 1 : 0);
    const Left* const a = tile.a;
    const bool by_tiles = packs_tiles(part, tile.inner);
    const bool collides = p_.a.row * static_cast<int64_t>(sizeof(S)) % kPage == 0;
    const bool asks = !packs_a_ && a_rows_ && !collides && part.columns > kNarrow<T> &&
                      part.columns <= kTileColumns<T>;
    tile.b_step = packs_b_ ? kTileColumns<T> : p_.b.row;
    tile.padded = packs_b_;
    tile.is_far = !keeps_ && (adds || m_ * n_ * static_cast<int64_t>(sizeof(T)) > kNearBytes);
    for (int64_t begin = 0, end; begin < rows; begin = end) {
      end = begin + tile_rows<T>(rows - begin, part.columns);
      tile.a = a + begin * (by_tiles ? steps * kTogether : tile.a_row);
      if (by_tiles) tile.a_step = kTogether * (end - begin);
      if (asks) ask_for_rows(tile, end - begin);
      for (int64_t column = 0; column < part.columns; column += kTileColumns<T>) {
        const int64_t place = place_of(part, first + begin, column);
        tile.width = smaller(kTileColumns<T>, part.columns - column);
        tile.b = packs_b_ ? packed_b + column * steps : unpacked(b_at(part, k, column));
        tile.c_row = keeps_ ? sums_row_ : p_.c_row;
        if (!tiles_round_) {
          tile.c = keeps_ ? kept + begin * sums_row_ + column : static_cast<T*>(p_.c) + place;
        }
        tile.start = adds ? tile.c : bias != nullptr ? bias + part.column + column : nullptr;
        tile.start_row = adds ? tile.c_row : 0;
        if constexpr (kPairs) {
          if (tiles_round_) {
            const S* const added = static_cast<const S*>(p_.bias);
            tile.rounded = static_cast<S*>(p_.c) + place;
            tile.bias = added == nullptr ? nullptr : added + part.column + column;
          }
        }
        multiply_tile(end - begin, tile);
      }
    }
  }

  // Of types that tiles read as they are.
  static WICK_INLINE const T* unpacked(const S* x) {
    if constexpr (std::is_same_v<S, T>) {
      return x;
    } else {
      return nullptr;
    }
  }

  // Stores what `sums` keeps of `rows` rows. Bias and, if it adds, former results join the sums
  // before they are rounded.
  template <class O>
  WICK_INLINE void store(const Part& part, int64_t first, int64_t rows, bool adds,
                         const T* sums) const {
    constexpr int64_t kLanes = Vec<T>::size;
    if (!is_turned_) {
      for (int64_t r = 0; r < rows; ++r) {
        const T* const row = sums + r * sums_row_;
        const int64_t place = place_of(part, first + r, 0);
        for_vectors<T>(part.columns, [&](int64_t at, int64_t left) {
          store_sums<O>(Vec<T>::load(row + at), place + at, part.column + at, left, adds);
        });
      }
      return;
    }
    for (int64_t row = 0; row < rows; row += kLanes) {
      for (int64_t column = 0; column < part.columns; column += kLanes) {
        typename Vec<T>::Reg square[kLanes];
        for (int64_t i = 0; i < kLanes; ++i) {
          const T* const from = sums + smaller(row + i, rows - 1) * sums_row_ + column;
          square[i] = Vec<T>::load(from).reg;
        }
        transpose_square<kLanes>(square);
        const int64_t place = place_of(part, first + row, column);
        for (int64_t i = 0; i < smaller(kLanes, part.columns - column); ++i) {
          store_sums<O>(Vec<T>(square[i]), place + i * p_.c_row, part.row + first + row,
                        smaller(kLanes, rows - row), adds);
        }
      }
    }
  }

  // `count` sums of one row of c, of which the first is at `place` and in `column`.
  template <class O>
  WICK_INLINE void store_sums(Vec<T> sums, int64_t place, int64_t column, int64_t count,
                              bool adds) const {
    O* const c = static_cast<O*>(p_.c) + place;
    if (adds) {
      sums = load_up_to<T>(c, count) + sums;
    } else if (p_.bias != nullptr) {
      sums = load_up_to<T>(static_cast<const O*>(p_.bias) + column, count) + sums;
    }
#ifdef __AVX512F__
    if constexpr (kPairs && !std::is_same_v<O, T>) {
      const __mmask16 mask = static_cast<__mmask16>(halves_mask(count));
      return _mm256_mask_storeu_epi16(c, mask, round_half(sums));
    }
#endif
    store_up_to(sums, c, count);
  }

  const Product& p_;
  int64_t m_, n_, k_;
  bool is_turned_;
  bool a_rows_;       // whether a's rows lie in one piece
  bool rounds_;       // whether sums are rounded at the end
  bool tiles_round_;  // by tiles, of which each has whole sums
  bool keeps_;        // whether sums are kept apart until they are stored: of some rows,
  bool keeps_all_;    // or of all that a part has, to which several blocks of k add
  bool packs_a_ = false, packs_b_ = false;
  int64_t sums_row_ = 0;  // from one row of kept sums to the next
  Workspace& workspace_;
};

// Few rows by a transposed matrix, whose own rows need no packing as those of the left side. It
// saves the packing of n - m columns, and costs a transposition of the results.
WICK_INLINE bool suits_turned(const Product& p) {
  const auto [m, n, k] = p.sizes;
  return p.b.column != 1 && m > 1 && m <= kTurnedRows && (n - m) * k > 2 * m * n;
}

template <class T, class S, class Multiply = MultiplyAdd>
WICK_INLINE void multiply_blocks(const Product& p, Workspace& workspace) {
  using Own = Blocks<T, S, Multiply>;
  if (!Own::kConverts && suits_turned(p)) return Own(turned(p), true, workspace).run();
  Own(p, false, workspace).run();
}

template <class T, class S>
WICK_INLINE void multiply(const Product& p, Workspace& workspace) {
  if (Dots<T, S>::suits(p)) {
#ifdef __AVX512F__
    if constexpr (std::is_same_v<S, BFloat16>) {
      if (p.unit == BFloat16Unit::kDotProduct) return Dots<T, S, DotPairs>(p).run();
    }
#endif
    return Dots<T, S>(p).run();
  }
  // A column of results as a row, where that makes rows of b contiguous.
  const bool turns = p.sizes.n == 1 && p.sizes.m > 1 && p.a.row == 1 && p.c_row == 1;
  if (turns && p.bias == nullptr) return Blocks<T, S>(turned(p), false, workspace).run();
#ifdef __AVX512F__
  if constexpr (std::is_same_v<S, BFloat16>) {
    if (p.unit == BFloat16Unit::kMatrix) return bfloat16_product(p, workspace);
    if (p.unit == BFloat16Unit::kDotProduct) {
      return multiply_blocks<T, S, MultiplyPairs>(p, workspace);
    }
  }
#endif
  multiply_blocks<T, S>(p, workspace);
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
