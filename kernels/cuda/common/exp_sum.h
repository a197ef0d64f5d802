#pragma once

#include "wick/kernels/cuda/common/rows.h"

namespace wick::cuda {

template <class A>
inline constexpr A kLowest = -static_cast<A>(__builtin_inf());

/// The larger one, or the second where one of them is NaN.
struct LargerOrSecond {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};

/// The largest of some elements and the sum of exp(x - max) over them, NaN where one is NaN or
/// infinite, or all are -infinity. Long sums are held in S.
template <class A, class S = A>
struct ExpSum {
  A max = kLowest<A>;
  S sum = 0;

  /// Adds elements one by one.
  __device__ void add(A x) {
    raise(x);
    sum += static_cast<S>(term(x));
  }
  /// Adds some at once.
  template <class T, int kCount>
  __device__ void add(const Pack<T, kCount>& x) {
    A largest = kLowest<A>;
    for (int j = 0; j < kCount; ++j) largest = LargerOrSecond{}(convert<A>(x[j]), largest);
    raise(largest);
    A total = 0;
    for (int j = 0; j < kCount; ++j) total += term(convert<A>(x[j]));
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
    if (max != kLowest<A>) sum *= static_cast<S>(exp(max - x));
    max = x;
  }
  __device__ A term(A x) const { return x == kLowest<A> ? A{0} : exp(x - max); }
};

/// ExpSum of a row, for each of the threads that share it.
template <class A, class T, int kPacks>
__device__ ExpSum<A, A> exp_sum_of_row(const RowData<T, kPacks>& x,
                                       const RowShare<T, kPacks>& share, int lanes) {
  ExpSum<A, A> all;
  if constexpr (kPacks > 0) {
    A max = kLowest<A>, sum = 0;
    share.for_packs([&](int k, auto at) {
      const RowPack<T> v = x.get(k, at);
      for (int j = 0; j < kPackSize<T>; ++j) max = LargerOrSecond{}(convert<A>(v[j]), max);
    });
    all.max = row_reduce(max, lanes, LargerOrSecond{}, kLowest<A>);
    share.for_packs([&](int k, auto at) {
      const RowPack<T> v = x.get(k, at);
      for (int j = 0; j < kPackSize<T>; ++j) sum += exp(convert<A>(v[j]) - all.max);
    });
    all.sum = row_sum(sum, lanes);
  } else {
    ExpSum<A, double> own;
    share.for_packs([&](int k, auto at) { own.add(x.get(k, at)); });
    all.max = row_reduce(own.max, lanes, LargerOrSecond{}, kLowest<A>);
    all.sum = static_cast<A>(row_sum(own.sum_from(all.max), lanes));
  }
  return all;
}

}  // namespace wick::cuda
