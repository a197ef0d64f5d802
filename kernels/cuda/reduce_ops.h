#pragma once

#include "wick/kernels/cuda/common/block_reduce.h"
#include "wick/kernels/reduce.h"

// What each reduction does to an element, and how it joins two partial results: in the
// accumulator's type of the elements, and in the double or int64 in which long partial results are
// held.
namespace wick::cuda {

/// A center in two parts, so that x - center is exact where both are close.
template <class L>
struct Center {
  L high = 0, low = 0;

  Center() = default;
  __device__ explicit Center(double c)
      : high(static_cast<L>(c)), low(static_cast<L>(c - static_cast<double>(high))) {}
  __device__ L distance(L x) const { return (x - high) - low; }
};

// What the largest and the smallest number of a type are replaced by.
template <class T>
__device__ T below_all() {
  if constexpr (__is_same(T, int64_t)) {
    return INT64_MIN;
  } else {
    return -static_cast<T>(__builtin_inf());
  }
}
template <class T>
__device__ T above_all() {
  if constexpr (__is_same(T, int64_t)) {
    return INT64_MAX;
  } else {
    return static_cast<T>(__builtin_inf());
  }
}

struct SumReduction : Add {
  static constexpr bool kUsesCenter = false;
  template <class T>
  __device__ static T identity() {
    return 0;
  }
  template <class L>
  __device__ static L map(L x, const Center<L>&) {
    return x;
  }
};
struct SumSquaresReduction : SumReduction {
  template <class L>
  __device__ static L map(L x, const Center<L>&) {
    return x * x;
  }
};
struct SumDeviationsReduction : SumReduction {
  static constexpr bool kUsesCenter = true;
  template <class L>
  __device__ static L map(L x, const Center<L>& c) {
    return c.distance(x);
  }
};
struct SumSquaredDeviationsReduction : SumReduction {
  static constexpr bool kUsesCenter = true;
  template <class L>
  __device__ static L map(L x, const Center<L>& c) {
    return c.distance(x) * c.distance(x);
  }
};
struct SumExpReduction : SumReduction {
  static constexpr bool kUsesCenter = true;
  template <class L>
  __device__ static L map(L x, const Center<L>& c) {
    return exp(x - c.high);
  }
};
struct ProdReduction {
  static constexpr bool kUsesCenter = false;
  template <class T>
  __device__ static T identity() {
    return 1;
  }
  template <class L>
  __device__ static L map(L x, const Center<L>&) {
    return x;
  }
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a * b;
  }
};
struct MaxReduction : Largest {
  static constexpr bool kUsesCenter = false;
  template <class T>
  __device__ static T identity() {
    return below_all<T>();
  }
  template <class L>
  __device__ static L map(L x, const Center<L>&) {
    return x;
  }
};
struct MinReduction : Smallest {
  static constexpr bool kUsesCenter = false;
  template <class T>
  __device__ static T identity() {
    return above_all<T>();
  }
  template <class L>
  __device__ static L map(L x, const Center<L>&) {
    return x;
  }
};

/// The reduction that joins the partial results of `kind`.
inline Reduction joins_like(Reduction kind) {
  return kind > Reduction::kMin ? Reduction::kSum : kind;
}

/// Calls `run(Op{})` with the operation that `kind` names, for floating or integer
/// elements.
template <bool kFloating, class Run>
void visit_reduction(Reduction kind, const Run& run) {
  switch (kind) {
    case Reduction::kSum: return run(SumReduction{});
    case Reduction::kProd: return run(ProdReduction{});
    case Reduction::kMax: return run(MaxReduction{});
    case Reduction::kMin: return run(MinReduction{});
    default: break;
  }
  if constexpr (kFloating) {
    if (kind == Reduction::kSumSquares) return run(SumSquaresReduction{});
    if (kind == Reduction::kSumDeviations) return run(SumDeviationsReduction{});
    if (kind == Reduction::kSumExp) return run(SumExpReduction{});
    run(SumSquaredDeviationsReduction{});
  }
}

}  // namespace wick::cuda
