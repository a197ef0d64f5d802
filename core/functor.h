#pragma once

#include <array>
#include <span>

#include "wick/core/apply.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/kernels/elementwise.h"
#include "wick/kernels/elementwise_ops.h"

// Elementwise functions of a program's own, written once for CPUs and GPUs and compiled to the
// kernels that the library's own have. A header, swiglu.h, that includes nothing but
// kernels/elementwise_ops.h and core/fields.h, as it is compiled for each instruction set:
//
//   struct Swiglu : wick::fn::OnFloats<2> {  // of two inputs
//     static constexpr char name[] = "swiglu";
//     template <class V>
//     WICK_HOST_DEVICE V operator()(V gate, V up) const {
//       return gate * sigmoid(gate) * up;
//     }
//     template <int kInput, class V>  // dy times the derivative by input kInput
//     WICK_HOST_DEVICE V gradient(V dy, V gate, V up) const {
//       const V s = sigmoid(gate);
//       if constexpr (kInput == 0) return dy * up * (s + gate * s * (1.0 - s));
//       return dy * gate * s;
//     }
//   };
//
// V is a vector of floats or doubles, a number of a GPU, or, where a gradient is differentiated
// again, a Tensor. Constants are doubles. There are abs, ceil, cos, erf, exp, expm1, floor, log,
// log1p, round, rsqrt, sigmoid, sin, sqrt, tanh, trunc, comparisons, and select(condition, a, b)
// for what would branch. A functor may have attributes: data members, which `fields` lists as those
// of an op. In CMake
//
//   wick_functors(program swiglu.h BINARY Swiglu)
//
// compiles its kernels, for each instruction set and for the GPU that the library was built for; in
// the program
//
//   const Tensor y = elementwise(Swiglu(), gate, up);
namespace wick {

/// x, in float32 if it is of 16 bits, for what is computed in several steps. Undefined stays
/// undefined.
inline Tensor wide(const Tensor& x) {
  return x.defined() && is_reduced(x.dtype()) ? x.to(kFloat32) : x;
}

// Tensor as the number type of a gradient.
inline Tensor select(const Tensor& condition, const Tensor& x, const Tensor& y) {
  return where(condition, x, y);
}
inline Tensor select(const Tensor& condition, const Tensor& x, double y) {
  return masked_fill(x, logical_not(condition), y);
}
inline Tensor select(const Tensor& condition, double x, const Tensor& y) {
  return masked_fill(y, condition, x);
}

namespace detail {

template <size_t kA, size_t kB>
constexpr auto join_names(const char (&a)[kA], const char (&b)[kB]) {
  std::array<char, kA + kB - 1> joined{};
  for (size_t i = 0; i + 1 < kA; ++i) joined[i] = a[i];
  for (size_t i = 0; i < kB; ++i) joined[kA - 1 + i] = b[i];
  return joined;
}
template <class F>
constexpr auto kBackwardName = join_names(F::name, "_backward");

/// f(inputs...), as the widest of them.
template <class F>
Tensor functor_result(const F& f, std::span<const Tensor> inputs) {
  Shape shape = inputs[0].shape();
  Dtype dtype = inputs[0].dtype();
  View views[F::arity];
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& x = inputs[i];
    WICK_CHECK(is_floating(x.dtype()), F::name, ": input ", i, " is of the wrong dtype: got ",
               x.dtype(), ", expected a floating one");
    shape = broadcast_shapes(F::name, shape, x.shape());
    dtype = promote(dtype, x.dtype());
    views[i] = x.view_for_kernel();
  }
  const bool is_first = inputs[0].shape() == shape && is_dense(shape, inputs[0].strides());
  const Tensor y =
      is_first ? empty_like(inputs[0], dtype) : empty(shape, dtype, inputs[0].device());
  const View result = y.view_for_kernel();
  WICK_DISPATCH(y.device(), elementwise(f, dtype, result, views));
  return y;
}

/// Of dy and the inputs, the gradient of input `kInput`.
template <class F, int kInput>
struct FunctorBackward : fn::PartialGradient<F, kInput> {
  static constexpr OpInfo info{.name = kBackwardName<F>.data(),
                               .differentiable = false,
                               .is_gradient = true,
                               .elementwise = true};
  Tensor forward(Saved&, std::span<const Tensor> given) const {
    const fn::PartialGradient<F, kInput>& f = *this;
    return functor_result(f, given);
  }
};

template <class F>
struct Functor : F {
  static_assert(F::arity == 1 || F::arity == 2, "a functor has one or two inputs");
  static constexpr OpInfo info{.name = F::name, .broadcasts = true, .elementwise = true};

  Tensor forward(Saved& saved, std::span<const Tensor> inputs) const {
    for (const Tensor& x : inputs) saved.save(x);
    const F& f = *this;
    return functor_result(f, inputs);
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    Gradients gradients(F::arity);
    gradients[0] = gradient_of<0>(saved, dy);
    if constexpr (F::arity == 2) gradients[1] = gradient_of<1>(saved, dy);
    return gradients;
  }
  template <int kInput>
  Tensor gradient_of(const Saved& saved, const Tensor& dy) const {
    if (!saved.needs(kInput)) return {};
    const bool sums = !(dy.shape() == saved.input(kInput).shape);
    std::array<Tensor, F::arity + 1> given{sums ? wide(dy) : dy};
    for (int i = 0; i < F::arity; ++i) given[static_cast<size_t>(i) + 1] = saved[i];
    if (!grad_enabled()) {
      const F& f = *this;
      return apply(FunctorBackward<F, kInput>{{f}}, given);
    }
    for (Tensor& x : given) x = wide(x);
    if constexpr (F::arity == 1) {
      return F::template gradient<kInput>(given[0], given[1]);
    } else {
      return F::template gradient<kInput>(given[0], given[1], given[2]);
    }
  }
};

}  // namespace detail

/// f(x), or f(x, y), of each element: floating tensors, whose shapes broadcast and whose dtypes
/// promote. 16-bit elements are computed in float32 and rounded once. Gradients of every order.
template <class F>
Tensor elementwise(const F& f, const Tensor& x) {
  static_assert(F::arity == 1, "this functor has two inputs");
  return apply(detail::Functor<F>{f}, std::array<Tensor, 1>{x});
}
template <class F>
Tensor elementwise(const F& f, const Tensor& x, const Tensor& y) {
  static_assert(F::arity == 2, "this functor has one input");
  return apply(detail::Functor<F>{f}, std::array<Tensor, 2>{x, y});
}

}  // namespace wick
