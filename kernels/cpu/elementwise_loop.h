#pragma once

#include "wick/kernels/cpu/chain_link.h"
#include "wick/kernels/elementwise.h"
#include "wick/kernels/elementwise_ops.h"

// How a functor becomes a kernel on the CPU: one loop over neighbouring elements of the computing
// type per functor. All that concerns strides, dtypes, threads and caches is in one function that
// no functor instantiates anew.
namespace wick::WICK_ISA {

/// y[i] = f(x[0][i], ...) for i < n.
using ElementLoop = void (*)(const void* f, void* y, const void* const* x, int64_t n);

/// Walks the views, calling `loop` on pieces of them as elements of `compute`'s computing type.
/// `links`: what chains use for float32, or null.
void run_elementwise(ElementLoop loop, const FunctorLinks* links, const void* f, Dtype compute,
                     int arity, const View& y, const View* x);

template <class F, class T>
void element_loop(const void* functor, void* y, const void* const* x, int64_t n) {
  const F f = *static_cast<const F*>(functor);
  T* out = static_cast<T*>(y);
  const T* in[F::arity];
  for (int k = 0; k < F::arity; ++k) in[k] = static_cast<const T*>(x[k]);
  if constexpr (__is_same(T, int64_t)) {
    for (int64_t i = 0; i < n; ++i) {
      fn::Integer a[F::arity];
      for (int k = 0; k < F::arity; ++k) a[k] = in[k][i];
      out[i] = call_functor(f, a).value;
    }
  } else {
    using V = Vec<T>;
    V a[F::arity];
    int64_t i = 0;
    for (; i + V::size <= n; i += V::size) {
      for (int k = 0; k < F::arity; ++k) a[k] = V::load(in[k] + i);
      call_functor(f, a).store(out + i);
    }
    if (i < n) {
      for (int k = 0; k < F::arity; ++k) a[k] = V::load_partial(in[k] + i, n - i);
      call_functor(f, a).store_partial(out + i, n - i);
    }
  }
}

template <class F>
void elementwise(const F& f, Dtype compute, const View& y, const View* x) {
  ElementLoop loop = nullptr;
  const FunctorLinks* links = nullptr;
  if (is_floating(compute)) {
    if constexpr (F::on_floats) {
      if constexpr (kIsLinked<F>) links = &kFunctorLinks<F>;
      loop = compute == Dtype::kFloat64 ? &element_loop<F, double> : &element_loop<F, float>;
    }
  } else if constexpr (F::on_integers) {
    loop = &element_loop<F, int64_t>;
  }
  if (loop == nullptr) unsupported_dtype(compute);
  run_elementwise(loop, links, &f, compute, F::arity, y, x);
}

}  // namespace wick::WICK_ISA

/// Instantiates the kernel of functor `F`.
#define WICK_INSTANTIATE(F) template void elementwise<F>(const F&, Dtype, const View&, const View*);
/// The same, and that of its gradient.
#define WICK_INSTANTIATE_DIFFERENTIABLE(F) \
  WICK_INSTANTIATE(F)                      \
  WICK_INSTANTIATE(fn::Gradient<F>)
