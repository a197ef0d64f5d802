#pragma once

#include <initializer_list>

#include "wick/core/apply.h"
#include "wick/core/autograd.h"
#include "wick/core/functor.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/kernels/elementwise.h"
#include "wick/kernels/elementwise_ops.h"

// What the elementwise ops are made of. A unary op is its functor and nothing else; a binary one
// adds its gradients.
namespace wick {

// --- Dtypes, layouts, kernels -------------------------------------------------------------------

/// The dtype that an operation on two tensors has, as PyTorch: the wider of the two, but a tensor
/// of rank 0 does not widen one of the same kind (bool, integer, floating) with dimensions.
Dtype result_dtype(const Tensor& x, const Tensor& y, const char* user = __builtin_FUNCTION());
/// That of a tensor and a number: the tensor's, unless the number is of a higher kind.
Dtype result_dtype(const Tensor& x, Scalar y, const char* user = __builtin_FUNCTION());
/// `dtype` if it is floating, else float32.
inline Dtype floating_dtype(Dtype dtype) { return is_floating(dtype) ? dtype : kFloat32; }

inline fn::Number to_number(Scalar value) { return {value.to_double(), value.to_int64()}; }

/// Uninitialised, for a result of `shape` from `inputs`: laid out as the first of them that has
/// this shape and is dense, else row-major.
Tensor empty_result(const Shape& shape, Dtype dtype, std::initializer_list<Tensor> inputs);

/// Error unless a result of `dtype` and `shape` may be written to `self`.
void check_writable(const char* op, const Tensor& self, const Shape& shape, Dtype dtype);

/// `other`, or a copy of it if it shares part of `self`'s memory without being the same elements.
Tensor without_overlap(const Tensor& self, const Tensor& other);

/// What `self` is before it is changed in place, for backward: a copy with the same history.
Tensor old_value(const Tensor& self);

/// Runs the kernel of `f`: y = f(inputs...), computed as `compute` is.
template <class F, class... Tensors>
void run_functor(const F& f, Dtype compute, const Tensor& y, const Tensors&... inputs) {
  static_assert(sizeof...(Tensors) == F::arity);
  const View views[] = {inputs.view_for_kernel()...};
  const View result = y.view_for_kernel();
  WICK_DISPATCH(y.device(), elementwise(f, compute, result, views));
}

/// The attributes of the op of functor `F`: specialised where it has any.
template <class F>
constexpr auto functor_fields = std::tuple<>{};

/// The autocast class of the op of functor `F`: specialised where it is not kAsIs.
template <class F>
constexpr AutocastPolicy functor_autocast{};
/// Of functions that leave float16's range or precision soon.
constexpr AutocastPolicy kFloat32OnGpus{.cuda = Autocast::kToFloat32};

namespace detail {
template <class F>
constexpr auto kInPlaceName = join_names(F::name, "_");
template <class F>
constexpr auto kScalarName = join_names(F::name, "_scalar");
}  // namespace detail

// --- Unary ops ----------------------------------------------------------------------------------

/// dy times the derivative of `F`, in one pass. Used where no further derivative is wanted: with
/// create_graph the same expression is made of ops.
template <class F>
struct UnaryBackward : fn::Gradient<F> {
  static constexpr OpInfo info{.name = detail::kBackwardName<F>.data(),
                               .differentiable = false,
                               .is_gradient = true,
                               .elementwise = true};
  static constexpr auto fields = functor_fields<F>;

  Tensor forward(Saved&, std::span<const Tensor> inputs) const {
    WICK_CHECK(inputs.size() == fn::Gradient<F>::arity, info.name, ": got ", inputs.size(),
               " inputs, expected ", fn::Gradient<F>::arity);
    const Tensor& dy = inputs[0];
    WICK_CHECK(is_floating(dy.dtype(info.name)) && inputs.back().shape(info.name) == dy.shape(),
               info.name, ": the gradient does not fit: got ", dy.dtype(), dy.shape(), " and ",
               inputs.back().shape(), ", expected floating numbers of one shape");
    const fn::Gradient<F>& f = *this;
    Tensor dx = empty_result(dy.shape(), dy.dtype(), {inputs.back(), dy});
    if constexpr (fn::Gradient<F>::arity == 1) {
      run_functor(f, dy.dtype(), dx, dy);
    } else {
      run_functor(f, dy.dtype(), dx, dy, inputs[1]);
    }
    return dx;
  }
};

template <class F>
Gradients unary_gradient(const F& f, const Saved& saved, const Tensor& dy) {
  if constexpr (F::keep == fn::Keep::kNothing) {
    if (grad_enabled()) return {f.gradient(wide(dy), wide(dy))};
    return {apply(UnaryBackward<F>{f}, dy)};
  } else {
    const Tensor kept = saved[0];
    if (grad_enabled()) return {f.gradient(wide(dy), wide(kept))};
    return {apply(UnaryBackward<F>{f}, dy, kept)};
  }
}

/// y = f(x). Integers stay what they are where `F` is defined on them and become float32 elsewhere.
template <class F>
struct Unary : F {
  static constexpr OpInfo info{
      .name = F::name, .autocast = functor_autocast<F>, .elementwise = true};
  static constexpr auto fields = functor_fields<F>;

  Tensor forward(Saved& saved, const Tensor& x) const {
    const Dtype dtype = F::on_integers ? x.dtype() : floating_dtype(x.dtype());
    const Tensor y = empty_like(x, dtype);
    const F& f = *this;
    run_functor(f, dtype, y, x);
    if constexpr (F::keep == fn::Keep::kInput) saved.save(x);
    if constexpr (F::keep == fn::Keep::kOutput) saved.save(y);
    return y;
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    return unary_gradient<F>(*this, saved, dy);
  }
};

/// x = f(x)
template <class F>
struct UnaryInPlace : F {
  static constexpr OpInfo info{.name = detail::kInPlaceName<F>.data(), .mutates = 1};
  static constexpr auto fields = functor_fields<F>;

  Tensor forward(Saved& saved, const Tensor& x) const {
    check_writable(info.name, x, x.shape(), F::on_integers ? x.dtype() : floating_dtype(x.dtype()));
    if constexpr (F::keep == fn::Keep::kInput) {
      if (saved.recording()) saved.save(old_value(x));
    }
    const F& f = *this;
    run_functor(f, x.dtype(), x, x);
    if constexpr (F::keep == fn::Keep::kOutput) saved.save_changed(0, x);
    return x;
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    return unary_gradient<F>(*this, saved, dy);
  }
};

// --- Binary ops ---------------------------------------------------------------------------------

template <class Rule>
Gradients binary_gradients(const Rule& rule, const Saved& saved, const Tensor& dz);

/// z = f(x, y) with broadcasting, for a `Rule` that is derived from `Functor` and adds
///   keeps_inputs   whether the gradients are computed from x and y
///   roundings(i)   how many ops of `gradients` round the gradient of input i
///   gradients(dz, x, y, needs_x, needs_y)   of which only those asked for need be defined
template <class Rule>
struct Binary : Rule {
  static constexpr OpInfo info{.name = Rule::name,
                               .autocast = functor_autocast<typename Rule::Functor>,
                               .broadcasts = true,
                               .elementwise = true};
  static constexpr auto fields = functor_fields<typename Rule::Functor>;

  Tensor forward(Saved& saved, const Tensor& x, const Tensor& y) const {
    Dtype dtype = result_dtype(x, y);
    if (!Rule::on_integers) dtype = floating_dtype(dtype);
    const Tensor z = empty_result(broadcast_shapes(info.name, x.shape(), y.shape()), dtype, {x, y});
    const typename Rule::Functor& f = *this;
    run_functor(f, dtype, z, x, y);
    if constexpr (Rule::keeps_inputs) saved.save(x, y);
    return z;
  }
  Gradients backward(const Saved& saved, const Tensor& dz) const {
    return binary_gradients<Rule>(*this, saved, dz);
  }
};

/// x = f(x, y), y broadcast to x's shape.
template <class Rule>
struct BinaryInPlace : Rule {
  static constexpr OpInfo info{
      .name = detail::kInPlaceName<Rule>.data(), .mutates = 1, .broadcasts = true};
  static constexpr auto fields = functor_fields<typename Rule::Functor>;

  Tensor forward(Saved& saved, const Tensor& x, const Tensor& y) const {
    Dtype dtype = result_dtype(x, y);
    if (!Rule::on_integers) dtype = floating_dtype(dtype);
    check_writable(info.name, x, broadcast_shapes(info.name, x.shape(), y.shape()), dtype);
    if constexpr (Rule::keeps_inputs) {
      if (saved.recording()) {
        const Tensor old = old_value(x);
        saved.save(old, y.is_same(x) ? old : y);
      }
    }
    const typename Rule::Functor& f = *this;
    run_functor(f, dtype, x, x, without_overlap(x, y));
    return x;
  }
  Gradients backward(const Saved& saved, const Tensor& dz) const {
    return binary_gradients<Rule>(*this, saved, dz);
  }
};

template <class Rule>
Gradients binary_gradients(const Rule& rule, const Saved& saved, const Tensor& dz) {
  Tensor x, y;
  if constexpr (Rule::keeps_inputs) {
    x = saved[0];
    y = saved[1];
  }
  Gradients gradients(2);
  for (const size_t i : {size_t{0}, size_t{1}}) {
    if (!saved.needs(static_cast<int>(i))) continue;
    const TensorMeta& input = saved.input(static_cast<int>(i));
    // With the engine's sum over broadcast axes, which rounds too.
    const int roundings = rule.roundings(i);
    const bool sums = !(dz.shape() == input.shape);
    const Tensor dwide = roundings + sums > 1 ? wide(dz) : dz;
    const Tensor gradient = roundings > 1
                                ? rule.gradients(dwide, wide(x), wide(y), i == 0, i == 1)[i]
                                : rule.gradients(dwide, x, y, i == 0, i == 1)[i];
    gradients[i] = gradient.to(promote(gradient.dtype(), input.dtype));
  }
  return gradients;
}

}  // namespace wick
