#pragma once

#include "wick/kernels/cuda/common/convert.h"
#include "wick/kernels/cuda/common/functor_call.h"
#include "wick/kernels/cuda/common/launch.h"
#include "wick/kernels/cuda/common/offsets.h"
#include "wick/kernels/cuda/common/vector_access.h"
#include "wick/kernels/elementwise.h"
#include "wick/kernels/elementwise_chain.h"

// How a functor becomes kernels on a GPU: one for dense tensors of one floating dtype, which moves
// 16 bytes at a time, and one for all strides and dtypes.
namespace wick::cuda {

template <int kArity>
struct ElementwiseOperands {
  void* y;
  const void* x[kArity];
  Dtype y_dtype, x_dtype[kArity];
};

template <class F, class T>
__global__ void elementwise_strided_kernel(F f, ElementwiseOperands<F::arity> operands,
                                           LoopNest<F::arity + 1> nest) {
  for (int64_t i = global_thread(); i < nest.numel; i += global_threads()) {
    const Offsets<F::arity + 1> at(nest, i);
    T x[F::arity];
    for (int k = 0; k < F::arity; ++k) {
      x[k] = load_as<T>(operands.x[k], operands.x_dtype[k], at.offset[k + 1]);
    }
    store_as(operands.y, operands.y_dtype, at.offset[0], apply_functor<T>(f, x));
  }
}

/// All operands are S* of n neighbouring elements, aligned to 16 bytes.
template <class F, class S, class T>
__global__ void __launch_bounds__(kGridThreads, 1)
    elementwise_packed_kernel(F f, ElementwiseOperands<F::arity> operands, int64_t n) {
  constexpr int kSize = kPackSize<S>;
  S* const y = static_cast<S*>(operands.y);
  for (int64_t i = global_thread() * kSize; i < n; i += global_threads() * kSize) {
    if (i + kSize <= n) {
      Pack<S, kSize> x[F::arity];
      T result[kSize];
      for (int k = 0; k < F::arity; ++k) {
        x[k] = load_pack<kSize>(static_cast<const S*>(operands.x[k]) + i);
      }
      for (int j = 0; j < kSize; ++j) {
        T element[F::arity];
        for (int k = 0; k < F::arity; ++k) element[k] = convert<T>(x[k][j]);
        result[j] = apply_functor<S>(f, element);
      }
      store_pack(y + i, convert_pack<S>(result));
    } else {
      for (int64_t j = i; j < n; ++j) {
        T element[F::arity];
        for (int k = 0; k < F::arity; ++k) {
          element[k] = convert<T>(static_cast<const S*>(operands.x[k])[j]);
        }
        y[j] = convert<S>(apply_functor<S>(f, element));
      }
    }
  }
}

/// Whether all views are of y's dtype, a floating one.
template <int kViews>
bool have_one_floating_dtype(const View* const (&views)[kViews]) {
  for (const View* view : views) {
    if (view->dtype != views[0]->dtype) return false;
  }
  return is_floating(views[0]->dtype);
}

/// The type of F as run-time compiled sources name it; null if they do not have it.
template <class F>
inline constexpr const char* kSourceType = nullptr;

template <class F, class T>
void run_elementwise(const F& f, const View& y, const View* x) {
  const View* views[F::arity + 1] = {&y};
  ElementwiseOperands<F::arity> operands = {};
  operands.y = y.data;
  operands.y_dtype = y.dtype;
  for (int k = 0; k < F::arity; ++k) {
    views[k + 1] = &x[k];
    operands.x[k] = x[k].data;
    operands.x_dtype[k] = x[k].dtype;
  }
  const LoopNest<F::arity + 1> nest(views, F::arity + 1);
  const bool is_packed = have_one_floating_dtype(views) && can_be_packed(nest, views);
  if (ElementwiseCapture* const capture = elementwise_capture()) {
    static_assert(__is_trivially_copyable(F), "kernels get a copy of the functor");
    const FunctorSource source{kSourceType<F>, sizeof(F), alignof(F),
                               is_packed && is_reduced(y.dtype)};
    return capture->note({nullptr, nullptr, &f, dtype_of<T>, F::arity, y, {}, source}, x);
  }
  if constexpr (!__is_same(T, int64_t)) {
    if (is_packed) {
      visit_floating(y.dtype, [&]<class S>(Type<S>) {
        if constexpr (__is_same(Accumulator<S>, T)) {
          launch(F::name, y.device, grid_for(y.device, nest.numel, kPackSize<S>),
                 elementwise_packed_kernel<F, S, T>, f, operands, nest.numel);
        }
      });
      return;
    }
  }
  launch(F::name, y.device, grid_for(y.device, nest.numel), elementwise_strided_kernel<F, T>, f,
         operands, nest);
}

template <class F>
void elementwise(const F& f, Dtype compute, const View& y, const View* x) {
  if (is_floating(compute)) {
    if constexpr (F::on_floats) {
      // A dtype narrower than the computation's is computed in float all the same.
      if (compute == Dtype::kFloat64) return run_elementwise<F, double>(f, y, x);
      return run_elementwise<F, float>(f, y, x);
    }
  } else if constexpr (F::on_integers) {
    return run_elementwise<F, int64_t>(f, y, x);
  }
  unsupported_dtype(compute);
}

}  // namespace wick::cuda

/// Instantiates the kernels of functor `F`, which is one of chain_source()'s.
#define WICK_INSTANTIATE(F)                         \
  template <>                                       \
  inline constexpr const char* kSourceType<F> = #F; \
  template void elementwise<F>(const F&, Dtype, const View&, const View*);
/// The same, and those of its gradient.
#define WICK_INSTANTIATE_DIFFERENTIABLE(F) \
  WICK_INSTANTIATE(F)                      \
  WICK_INSTANTIATE(fn::Gradient<F>)
