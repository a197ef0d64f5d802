#pragma once

#include "wick/kernels/cuda/common/device_code.h"
#include "wick/kernels/cuda/common/real.h"
#include "wick/kernels/elementwise_ops.h"

// How kernels call a functor of elementwise_ops.h.
namespace wick::cuda {

/// What functors compute with: on T, for results that are stored as S.
// clang-format off
template <class T, class S> struct OperandOf { using type = fn::Real<T, sizeof(S) == 2>; };
template <class S> struct OperandOf<int64_t, S> { using type = fn::Integer; };
// clang-format on

template <class S, class F, class T>
__device__ T apply_functor(const F& f, const T* x) {
  using V = typename OperandOf<T, S>::type;
  V v[F::arity];
  for (int k = 0; k < F::arity; ++k) v[k].value = x[k];
  if constexpr (F::arity == 1) {
    return V(f(v[0])).value;
  } else if constexpr (F::arity == 2) {
    return V(f(v[0], v[1])).value;
  } else {
    return V(f(v[0], v[1], v[2])).value;
  }
}

}  // namespace wick::cuda
