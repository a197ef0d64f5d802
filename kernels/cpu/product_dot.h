#pragma once

#include <bit>

#include "wick/core/base/parallel.h"
#include "wick/kernels/cpu/product_finish.h"
#include "wick/kernels/cpu/product_pack.h"

// Products of few rows, or few columns, by a matrix whose lines along k are contiguous: nothing is
// packed, and each result is a dot product. Its partial sums are 64 bytes' lanes, which are added
// in halves: on AVX2 the lanes are those of two vectors.
namespace wick::WICK_ISA {

inline constexpr int64_t kDotRows = 32;    // so few rows or columns take this way
inline constexpr int64_t kDotInner = 32;   // times their number: shorter sums do not pay
inline constexpr int64_t kDotColumns = 6;  // results of one row at a time

template <class T>
inline constexpr int kDotParts = 64 / static_cast<int>(sizeof(Vec<T>));

// Each vector has pieces of 2 kHalf lanes. The result has those of x, then of y, each of which is
// the sum of its halves.
template <int kHalf, class V, int... kLane>
WICK_INLINE V add_halves(V x, V y, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(x, y, (kLane / kHalf * 2 * kHalf + kLane % kHalf)...) +
         __builtin_shufflevector(x, y, (kLane / kHalf * 2 * kHalf + kLane % kHalf + kHalf)...);
}

// The sums over the lanes of `kCount` vectors, a power of 2, in the first lanes of the first.
template <int kHalf, int kCount, class V>
WICK_INLINE void add_pieces(V* x) {
  constexpr int kLanes = sizeof(V) / sizeof(x[0][0]);
  constexpr int kLeft = kCount > 1 ? kCount / 2 : 1;
#pragma GCC unroll 8
  for (int i = 0; i < kLeft; ++i) {
    x[i] = add_halves<kHalf>(x[kCount > 1 ? 2 * i : 0], x[kCount > 1 ? 2 * i + 1 : 0],
                             std::make_integer_sequence<int, kLanes>{});
  }
  if constexpr (kHalf > 1) add_pieces<kHalf / 2, kLeft>(x);
}

// Sums over the lanes of kCount results' vectors.
template <class T, int kCount>
WICK_INLINE void add_lanes(const Vec<T>* sums, T* results) {
  constexpr int kLanes = static_cast<int>(Vec<T>::size);
  constexpr int kSome = std::bit_ceil(static_cast<unsigned>(kCount < kLanes ? kCount : kLanes));
  typename Vec<T>::Reg rows[kSome];
#pragma GCC unroll 16
  for (int i = 0; i < kSome; ++i) {
    Vec<T> row = T(0);
    if (i < kCount) row = sums[i * kDotParts<T>];
    if (i < kCount && kDotParts<T> == 2) row += sums[i * kDotParts<T> + 1];
    rows[i] = row.reg;
  }
  add_pieces<kLanes / 2, kSome>(rows);
  store_up_to(Vec<T>(rows[0]), results, kCount);
  if constexpr (kCount > kLanes) {
    add_lanes<T, kCount - kLanes>(sums + kLanes * kDotParts<T>, results + kLanes);
  }
}

/// How vectors along k join sums: a register of numbers that are converted to T,
template <class T, class S>
struct DotNumbers {
  static constexpr int64_t kElements = Vec<T>::size;
  static WICK_INLINE Vec<T> load(const S* x) { return Vec<T>::load(x); }
  static WICK_INLINE Vec<T> load_up_to(const S* x, int64_t n) {
    return WICK_ISA::load_up_to<T>(x, n);
  }
  static WICK_INLINE Vec<T> add(Vec<T> x, Vec<T> y, Vec<T> sum) { return fma(x, y, sum); }
};

#ifdef __AVX512F__
/// or of pairs of bfloat16.
struct DotPairs {
  static constexpr int64_t kElements = 2 * VecF::size;
  static WICK_INLINE VecF load(const BFloat16* x) {
    return VecF(_mm512_castsi512_ps(_mm512_loadu_si512(x)));
  }
  static WICK_INLINE VecF load_up_to(const BFloat16* x, int64_t n) {
    return VecF(_mm512_castsi512_ps(_mm512_maskz_loadu_epi16(halves_mask(n), x)));
  }
  static WICK_INLINE VecF add(VecF x, VecF y, VecF sum) { return MultiplyPairs::add(x, y, sum); }
};
#endif

/// results[c, r] of `kRows` lines of a and `kCount` lines of b.
template <class T, class Along, int kRows, int kCount, class S>
[[gnu::noinline]] void dot_products(const S* a, int64_t a_line, const S* b, int64_t b_line,
                                    int64_t inner, T* results) {
  using V = Vec<T>;
  constexpr int kParts = kDotParts<T>;
  constexpr int64_t kElements = Along::kElements;
  V sums[kCount][kRows][kParts];
#pragma GCC unroll 6
  for (int c = 0; c < kCount; ++c) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      for (int part = 0; part < kParts; ++part) sums[c][r][part] = V(T(0));
    }
  }
  int64_t k = 0;
  for (; k + kParts * kElements <= inner; k += kParts * kElements) {
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
      const int64_t at = k + part * kElements;
      V x[kRows];
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) x[r] = Along::load(a + r * a_line + at);
#pragma GCC unroll 6
      for (int c = 0; c < kCount; ++c) {
        const V y = Along::load(b + c * b_line + at);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) {
          sums[c][r][part] = Along::add(x[r], y, sums[c][r][part]);
        }
      }
    }
  }
#pragma GCC unroll 2
  for (int part = 0; part < kParts; ++part, k += kElements) {
    if (k >= inner) break;
#pragma GCC unroll 6
    for (int c = 0; c < kCount; ++c) {
      const V y = Along::load_up_to(b + c * b_line + k, inner - k);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const V x = Along::load_up_to(a + r * a_line + k, inner - k);
        sums[c][r][part] = Along::add(x, y, sums[c][r][part]);
      }
    }
  }
  add_lanes<T, kRows * kCount>(&sums[0][0][0], results);
}

template <class T, class Along, int kRows, class S>
WICK_INLINE int64_t dot_columns(const S* a, int64_t a_line, const S* b, int64_t b_line,
                                int64_t inner, int64_t columns, T* results) {
  constexpr int kMost = WICK_WIDE(6, 3);
  if (columns >= kMost) {
    dot_products<T, Along, kRows, kMost>(a, a_line, b, b_line, inner, results);
    return kMost;
  }
  if (columns >= 2) {
    dot_products<T, Along, kRows, 2>(a, a_line, b, b_line, inner, results);
    return 2;
  }
  dot_products<T, Along, kRows, 1>(a, a_line, b, b_line, inner, results);
  return 1;
}

/// A product with m <= kDotRows, or n, whose lines along k are contiguous in both matrices.
template <class T, class S, class Along = DotNumbers<T, S>>
class Dots {
 public:
  WICK_INLINE explicit Dots(const cpu::Product& p) : p_(p), turned_(p.sizes.m > p.sizes.n) {
    few_ = turned_ ? p.sizes.n : p.sizes.m;
    many_ = turned_ ? p.sizes.m : p.sizes.n;
    few_line_ = turned_ ? p.b.column : p.a.row;
    many_line_ = turned_ ? p.a.row : p.b.column;
    few_step_ = turned_ ? p.b_step : p.a_step;
    many_step_ = turned_ ? p.a_step : p.b_step;
  }

  static WICK_INLINE bool suits(const cpu::Product& p) {
    const int64_t few = smaller(p.sizes.m, p.sizes.n);
    if (few > 2 && std::is_same_v<S, BFloat16> && p.unit == cpu::BFloat16Unit::kMatrix) {
      return false;
    }
    return p.a.column == 1 && p.b.row == 1 && few <= kDotRows && p.sizes.k >= kDotInner * few;
  }

  WICK_INLINE void run() const {
    const int64_t each = few_ * p_.sizes.k + 1;
    parallel_for(p_.count * many_, 65536 / each + kDotColumns, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end;) {
        const int64_t product = i / many_, first = i % many_;
        const int64_t last = smaller(many_, first + end - i);
        compute(product, first, last);
        i += last - first;
      }
    });
  }

 private:
  // Columns `begin` to `end` of all rows, where a turned product has rows for columns.
  void compute(int64_t product, int64_t begin, int64_t end) const {
    const S* const few = static_cast<const S*>(turned_ ? p_.b.data : p_.a.data);
    const S* const many = static_cast<const S*>(turned_ ? p_.a.data : p_.b.data);
    constexpr int64_t kRows = WICK_WIDE(4, 2);
    for (int64_t first = begin; first < end;) {
      const S* const b = many + product * many_step_ + first * many_line_;
      int64_t columns = 0;
      for (int64_t row = 0; row < few_; row += kRows) {
        const S* const a = few + product * few_step_ + row * few_line_;
        const int64_t rows = smaller(kRows, few_ - row);
        alignas(64) T results[kRows * kDotColumns];
        columns = some_rows(rows, a, b, end - first, results);
        for (int64_t c = 0; c < columns; ++c) {
          for (int64_t r = 0; r < rows; ++r) {
            store(product, row + r, first + c, results[c * rows + r]);
          }
        }
      }
      first += columns;
    }
    const int64_t some = end - begin, at = product * p_.c_step;
    if (turned_) return finish_block(p_, at + begin * p_.c_row, some, few_);
    finish_block(p_, at + begin, few_, some);
  }

  WICK_INLINE int64_t some_rows(int64_t rows, const S* a, const S* b, int64_t columns,
                                T* results) const {
    const int64_t k = p_.sizes.k;
    switch (rows) {
      case 1: return dot_columns<T, Along, 1>(a, few_line_, b, many_line_, k, columns, results);
#ifdef __AVX512F__
      case 3: return dot_columns<T, Along, 3>(a, few_line_, b, many_line_, k, columns, results);
      case 4: return dot_columns<T, Along, 4>(a, few_line_, b, many_line_, k, columns, results);
#endif
      default: return dot_columns<T, Along, 2>(a, few_line_, b, many_line_, k, columns, results);
    }
  }

  WICK_INLINE void store(int64_t product, int64_t few, int64_t many, T sum) const {
    const int64_t row = turned_ ? many : few, column = turned_ ? few : many;
    const int64_t at = product * p_.c_step + row * p_.c_row + column;
    if (std::is_same_v<S, T> || p_.out == Dtype::kFloat32) {
      add_and_store(static_cast<T*>(p_.c) + at, static_cast<const T*>(p_.bias), column, sum);
    } else {
      add_and_store(static_cast<S*>(p_.c) + at, static_cast<const S*>(p_.bias), column, sum);
    }
  }
  template <class O>
  WICK_INLINE void add_and_store(O* c, const O* bias, int64_t column, T sum) const {
    if (p_.accumulate) {
      sum = static_cast<T>(*c) + sum;
    } else if (bias != nullptr) {
      sum = static_cast<T>(bias[column]) + sum;
    }
    *c = static_cast<O>(sum);
  }

  const cpu::Product& p_;
  bool turned_;  // whether n is the smaller one
  int64_t few_, many_, few_line_, many_line_, few_step_, many_step_;
};

}  // namespace wick::WICK_ISA
