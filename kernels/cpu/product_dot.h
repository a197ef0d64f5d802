#pragma once

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

// Sums over the lanes of as many vectors at once as there are lanes.
template <class T, int kCount>
WICK_INLINE void add_lanes(const Vec<T>* sums, T* results) {
  constexpr int kLanes = static_cast<int>(Vec<T>::size);
  for (int first = 0; first < kCount; first += kLanes) {
    typename Vec<T>::Reg rows[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      Vec<T> row = T(0);
      if (first + i < kCount) row = sums[(first + i) * kDotParts<T>];
      if (first + i < kCount && kDotParts<T> == 2) row += sums[(first + i) * kDotParts<T> + 1];
      rows[i] = row.reg;
    }
    transpose_square<kLanes>(rows);
    for (int half = kLanes / 2; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) rows[i] += rows[i + half];
    }
    store_up_to(Vec<T>(rows[0]), results + first, kCount - first);
  }
}

/// results[c, r] of `kRows` lines of a and `kCount` lines of b.
template <class T, int kRows, int kCount, class S>
[[gnu::noinline]] void dot_products(const S* a, int64_t a_line, const S* b, int64_t b_line,
                                    int64_t inner, T* results) {
  using V = Vec<T>;
  constexpr int kParts = kDotParts<T>;
  V sums[kCount][kRows][kParts];
#pragma GCC unroll 6
  for (int c = 0; c < kCount; ++c) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      for (int part = 0; part < kParts; ++part) sums[c][r][part] = V(T(0));
    }
  }
  int64_t k = 0;
  for (; k + kParts * V::size <= inner; k += kParts * V::size) {
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
      const int64_t at = k + part * V::size;
      V x[kRows];
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) x[r] = V::load(a + r * a_line + at);
#pragma GCC unroll 6
      for (int c = 0; c < kCount; ++c) {
        const V y = V::load(b + c * b_line + at);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) sums[c][r][part] = fma(x[r], y, sums[c][r][part]);
      }
    }
  }
#pragma GCC unroll 2
  for (int part = 0; part < kParts; ++part, k += V::size) {
    if (k >= inner) break;
#pragma GCC unroll 6
    for (int c = 0; c < kCount; ++c) {
      const V y = load_up_to<T>(b + c * b_line + k, inner - k);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const V x = load_up_to<T>(a + r * a_line + k, inner - k);
        sums[c][r][part] = fma(x, y, sums[c][r][part]);
      }
    }
  }
  add_lanes<T, kRows * kCount>(&sums[0][0][0], results);
}

template <class T, int kRows, class S>
WICK_INLINE int64_t dot_columns(const S* a, int64_t a_line, const S* b, int64_t b_line,
                                int64_t inner, int64_t columns, T* results) {
  constexpr int kMost = WICK_WIDE(6, 3);
  if (columns >= kMost) {
    dot_products<T, kRows, kMost>(a, a_line, b, b_line, inner, results);
    return kMost;
  }
  if (columns >= 2) {
    dot_products<T, kRows, 2>(a, a_line, b, b_line, inner, results);
    return 2;
  }
  dot_products<T, kRows, 1>(a, a_line, b, b_line, inner, results);
  return 1;
}

/// A product with m <= kDotRows, or n, whose lines along k are contiguous in both matrices.
template <class T, class S>
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
    if (few > 2 && std::is_same_v<S, BFloat16> && p.unit != cpu::BFloat16Unit::kFloat32) {
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
      case 1: return dot_columns<T, 1>(a, few_line_, b, many_line_, k, columns, results);
#ifdef __AVX512F__
      case 3: return dot_columns<T, 3>(a, few_line_, b, many_line_, k, columns, results);
      case 4: return dot_columns<T, 4>(a, few_line_, b, many_line_, k, columns, results);
#endif
      default: return dot_columns<T, 2>(a, few_line_, b, many_line_, k, columns, results);
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
