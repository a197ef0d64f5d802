#pragma once

#include "wick/kernels/cuda/common/quick_math.h"
#include "wick/kernels/cuda/common/rows.h"

namespace wick::cuda {

template <class A>
inline constexpr A kLowest = -static_cast<A>(__builtin_inf());

/// The larger one, or the one that is not NaN.
struct LargerNumber {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return fmax(a, b);
  }
};

/// exp(x) of x <= 0 for sums to which 1 = exp(0) belongs: the error of quick_exp grows with |x|
/// while the term itself vanishes.
template <class A>
__device__ A exp_in_sum(A x) {
  if constexpr (__is_same(A, float)) return quick_exp(x);
  return exp(x);
}

/// exp(x) for results that are rounded to T.
template <class T, class A>
__device__ A exp_for(A x) {
  if constexpr (sizeof(T) == 2) return quick_exp(x);
  return exp(x);
}

/// A number near the largest of some elements, and the sum of exp(x - max) over them, NaN where one
/// is NaN or infinite, or all are -infinity. Long sums are held in S.
template <class A, class S = A>
struct ExpSum {
  A max = kLowest<A>;
  S sum = 0;

  /// Adds elements one by one.
  __device__ void add(A x) {
    raise(x);
    sum += static_cast<S>(exp_in_sum(x - base()));
  }
  /// Adds some at once.
  template <class T, int kCount>
  __device__ void add(const Pack<T, kCount>& x) {
    A largest = kLowest<A>;
    for (int j = 0; j < kCount; ++j) largest = LargerNumber{}(convert<A>(x[j]), largest);
    // A sum of 16-bit elements may run ahead of its base, which saves most changes of it.
    if (sizeof(T) > 2 || !(largest <= max + 8)) raise(largest);
    const A from = base();
    A total = 0;
    for (int j = 0; j < kCount; ++j) total += exp_in_sum(convert<A>(x[j]) - from);
    sum += static_cast<S>(total);
  }

  /// This thread's sum, taken from `common`, the largest of several threads.
  __device__ S sum_from(A common) const {
    if (common == kLowest<A>) return static_cast<S>(__builtin_nan(""));
    return max == common || max == kLowest<A> ? sum : sum * static_cast<S>(exp(max - common));
  }

 private:
  __device__ void raise(A x) {
    if (!(x > max)) return;
    if (max != kLowest<A>) sum *= static_cast<S>(exp_in_sum(max - x));
    max = x;
  }
  /// What exponents are counted from, so that those of -infinity are not NaN.
  __device__ A base() const { return max == kLowest<A> ? A{0} : max; }
};

/// ExpSum of a row, for each of its lanes. visit(pack, first element) sees each of the lane's
/// packs, in the pass that reads the row.
template <class A, class T, int kPacks, class Visit>
__device__ ExpSum<A, A> exp_sum_of_row(const RowFragment<T, kPacks>& x,
                                       const RowSlice<T, kPacks>& slice, int lanes,
                                       const Visit& visit) {
  ExpSum<A, A> all;
  if constexpr (kPacks > 0) {
    A max = kLowest<A>, sum = 0;
    x.for_packs(slice, [&](const RowPack<T>& v, auto at) {
      visit(v, at);
      for (int j = 0; j < kPackSize<T>; ++j) max = LargerNumber{}(convert<A>(v[j]), max);
    });
    all.max = row_reduce(max, lanes, LargerNumber{}, kLowest<A>);
    x.for_packs(slice, [&](const RowPack<T>& v, auto) {
      for (int j = 0; j < kPackSize<T>; ++j) sum += exp_in_sum(convert<A>(v[j]) - all.max);
    });
    all.sum = row_sum(sum, lanes);
  } else {
    ExpSum<A, double> own;
    x.for_packs(slice, [&](const RowPack<T>& v, auto at) {
      visit(v, at);
      own.add(v);
    });
    all.max = row_reduce(own.max, lanes, LargerNumber{}, kLowest<A>);
    all.sum = static_cast<A>(row_sum(own.sum_from(all.max), lanes));
  }
  return all;
}
template <class A, class T, int kPacks>
__device__ ExpSum<A, A> exp_sum_of_row(const RowFragment<T, kPacks>& x,
                                       const RowSlice<T, kPacks>& slice, int lanes) {
  return exp_sum_of_row<A>(x, slice, lanes, [](const RowPack<T>&, auto) {});
}

}  // namespace wick::cuda
