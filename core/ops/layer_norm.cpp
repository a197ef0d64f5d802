#include "wick/core/apply.h"
#include "wick/core/memory/detail/workspace.h"
#include "wick/core/ops/detail/composed_gradient.h"
#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/detail/norm_composed.h"
#include "wick/core/ops/detail/norm_views.h"
#include "wick/core/ops/norm.h"
#include "wick/kernels/norm.h"

namespace wick {

namespace {

// A row-major tensor, which may be undefined, as rows of the product of its last `axes` axes.
View rows_of(const Tensor& x, int axes) {
  View view = view_of(x);
  if (!x.defined()) return view;
  int64_t size = 1;
  for (int axis = x.rank() - axes; axis < x.rank(); ++axis) size *= x.shape()[axis];
  int64_t rows = 1;
  for (int axis = 0; axis < x.rank() - axes; ++axis) rows *= x.shape()[axis];
  view.shape = {rows, size};
  view.strides = {size, 1};
  return view;
}

// The last `axes` axes. Error unless x has them, and weight and bias their shape.
Shape checked_row(const char* op, const Tensor& x, int axes, const Tensor& weight,
                  const Tensor& bias) {
  WICK_CHECK(axes >= 0 && axes <= x.rank(), op, ": wrong number of axes: got ", axes,
             " for a tensor of shape ", x.shape());
  Shape row;
  for (int axis = x.rank() - axes; axis < x.rank(); ++axis) row.push_back(x.shape()[axis]);
  check_parameter(op, "weight", row, weight);
  check_parameter(op, "bias", row, bias);
  return row;
}

Tensor row_major(const Tensor& x) { return x.defined() ? x.contiguous() : x; }

// dx, which includes dsum, dweight and dbias, those that are wanted. mean: undefined for RMS norm.
struct LayerNormBackward {
  static constexpr OpInfo info{
      .name = "layer_norm_backward", .differentiable = false, .is_gradient = true};
  int axes;
  bool want_x, want_parameters;
  static constexpr auto fields = std::tuple{
      field("axes", &LayerNormBackward::axes), field("want_x", &LayerNormBackward::want_x),
      field("want_parameters", &LayerNormBackward::want_parameters)};

  std::array<Tensor, 3> forward(Saved&, const Tensor& dy, const Tensor& dsum, const Tensor& x,
                                const Tensor& weight, const Tensor& mean,
                                const Tensor& invstd) const {
    const Shape row = checked_row(info.name, x, axes, weight, {});
    check_like(info.name, "dy", x, dy);
    check_like(info.name, "dsum", x, dsum);
    const Tensor in = x.contiguous(), gradient = dy.contiguous(), more = row_major(dsum),
                 scale = as_parameter(x, weight);
    std::array<Tensor, 3> out;
    if (want_x) out[0] = empty(x.shape(), x.dtype(), x.device());
    if (want_parameters) {
      const Dtype dtype = accumulator_dtype(x.dtype());
      out[1] = empty(row, dtype, x.device());
      out[2] = empty(row, dtype, x.device());
    }
    const Shape rows{rows_of(in, axes).shape[0]};
    if (mean.defined()) check_statistic(info.name, "mean", rows, mean);
    check_statistic(info.name, "invstd", rows, invstd);
    AllocatorWorkspace workspace(x.device());
    WICK_DISPATCH(x.device(), layer_norm_backward({.x = rows_of(in, axes),
                                                   .weight = view_of(scale),
                                                   .mean = view_of(mean),
                                                   .invstd = view_of(invstd),
                                                   .dy = rows_of(gradient, axes),
                                                   .dsum = rows_of(more, axes),
                                                   .dx = rows_of(out[0], axes),
                                                   .dweight = view_of(out[1]),
                                                   .dbias = view_of(out[2]),
                                                   .workspace = &workspace}));
    return out;
  }
};

// Layer norm, or RMS norm, over the last `axes` axes. Inputs: x, weight, bias, and what is added to
// x first, which is undefined unless kAdd. Outputs: y, and then the sum; being an output, it has a
// history, and so this op a second derivative.
template <bool kRms, bool kAdd>
struct LayerNorm {
  static constexpr OpInfo info{.name = kRms ? (kAdd ? "add_rms_norm" : "rms_norm")
                                            : (kAdd ? "add_layer_norm" : "layer_norm"),
                               .autocast = {.cuda = Autocast::kToFloat32}};
  int axes;
  double eps;
  static constexpr auto fields =
      std::tuple{field("axes", &LayerNorm::axes), field("eps", &LayerNorm::eps)};

  std::array<Tensor, 2> forward(Saved& saved, const Tensor& x, const Tensor& weight,
                                const Tensor& bias, const Tensor& residual) const {
    checked_row(info.name, x, axes, weight, bias);
    WICK_CHECK(residual.defined() == kAdd, info.name, ": wrong number of inputs: got ",
               kAdd ? "no residual, expected one" : "a residual, expected none");
    check_residual(info.name, x, residual);
    const Tensor in = x.contiguous(), other = row_major(residual), scale = as_parameter(x, weight),
                 shift = as_parameter(x, bias);
    const Tensor y = empty(x.shape(), x.dtype(), x.device());
    const Tensor sum = kAdd ? empty(x.shape(), x.dtype(), x.device()) : Tensor();
    const View rows = rows_of(in, axes);
    const Tensor invstd = empty({rows.shape[0]}, kFloat64, x.device());
    const Tensor mean = kRms ? Tensor() : empty_like(invstd);
    WICK_DISPATCH(x.device(), layer_norm_forward({.x = rows,
                                                  .residual = rows_of(other, axes),
                                                  .weight = view_of(scale),
                                                  .bias = view_of(shift),
                                                  .y = rows_of(y, axes),
                                                  .sum = rows_of(sum, axes),
                                                  .mean = view_of(mean),
                                                  .invstd = view_of(invstd),
                                                  .eps = eps}));
    saved.save(kAdd ? sum : x, weight, bias, mean, invstd);
    return {y, sum};
  }

  Gradients backward(const Saved& saved, const Tensor& dy, const Tensor& dsum) const {
    const bool want_x = saved.needs(0) || saved.needs(3);
    Gradients grads(4);
    if (!dy.defined()) {
      grads[0] = dsum;
    } else if (grad_enabled()) {
      const Tensor x = saved[0];
      grads = composed_gradients(saved, {x, saved[1], saved[2], saved.needs(0) ? Tensor() : x}, dy,
                                 [&](const std::vector<Tensor>& in) {
                                   const Tensor& rows = saved.needs(0) ? in[0] : in[3];
                                   return kRms ? composed_rms_norm(rows, axes, in[1], eps)
                                               : composed_layer_norm(rows, axes, in[1], in[2], eps);
                                 });
      if (!saved.needs(0)) grads[0] = grads[3];
      if (want_x && dsum.defined()) grads[0] = grads[0] + dsum;
    } else {
      const bool parameters = saved.needs(1) || saved.needs(2);
      const auto found = apply(LayerNormBackward{axes, want_x, parameters}, dy, dsum, saved[0],
                               saved[1], saved[3], saved[4]);
      grads[0] = found[0];
      if (saved.needs(1)) grads[1] = found[1].to(saved.input(1).dtype);
      if (saved.needs(2)) grads[2] = found[2].to(saved.input(2).dtype);
    }
    grads[3] = saved.needs(3) ? grads[0] : Tensor();
    if (!saved.needs(0)) grads[0] = {};
    return grads;
  }
};

void check(const char* op, const Tensor& x, const Shape& normalized_shape, const Tensor& weight,
           const Tensor& bias) {
  WICK_CHECK(is_floating(x.dtype(op)), op, ": needs a floating dtype: got ", to_string(x.dtype()));
  const int lead = x.rank() - normalized_shape.rank();
  bool fits = lead >= 0 && !normalized_shape.empty();
  for (int i = 0; fits && i < normalized_shape.rank(); ++i) {
    fits = x.shape()[lead + i] == normalized_shape[i];
  }
  WICK_CHECK(fits, op, ": the last axes of x must be normalized_shape: got shape ", x.shape(),
             ", expected [..., ", normalized_shape, "]");
  check_parameter(op, "weight", normalized_shape, weight);
  check_parameter(op, "bias", normalized_shape, bias);
}

// From 1 to the next number of `dtype`.
double epsilon_of(Dtype dtype) {
  return dtype == kFloat64   ? 0x1p-52
         : dtype == kFloat32 ? 0x1p-23
         : dtype == kFloat16 ? 0x1p-10
                             : 0x1p-7;
}

template <bool kRms>
SumAndNorm add_norm(const Tensor& x, const Tensor& residual, const Shape& normalized_shape,
                    const Tensor& weight, const Tensor& bias, std::optional<double> eps) {
  using Op = LayerNorm<kRms, true>;
  const char* const op = Op::info.name;
  check_defined(op, x, residual);
  WICK_CHECK(residual.shape() == x.shape(), op, ": residual must match x: got shape ",
             residual.shape(), ", expected ", x.shape());
  const Dtype dtype = promote(x.dtype(), residual.dtype());
  const Tensor in = x.to(dtype);
  check(op, in, normalized_shape, weight, bias);
  const auto [y, sum] = apply(Op{normalized_shape.rank(), eps.value_or(epsilon_of(dtype))}, in,
                              weight, bias, residual.to(dtype));
  return {sum, y};
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight,
                  const Tensor& bias, double eps) {
  check("layer_norm", x, normalized_shape, weight, bias);
  return apply(LayerNorm<false, false>{normalized_shape.rank(), eps}, x, weight, bias, Tensor())[0];
}

SumAndNorm add_layer_norm(const Tensor& x, const Tensor& residual, const Shape& normalized_shape,
                          const Tensor& weight, const Tensor& bias, double eps) {
  return add_norm<false>(x, residual, normalized_shape, weight, bias, eps);
}

Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight,
                std::optional<double> eps) {
  check("rms_norm", x, normalized_shape, weight, {});
  return apply(LayerNorm<true, false>{normalized_shape.rank(), eps.value_or(epsilon_of(x.dtype()))},
               x, weight, Tensor(), Tensor())[0];
}

SumAndNorm add_rms_norm(const Tensor& x, const Tensor& residual, const Shape& normalized_shape,
                        const Tensor& weight, std::optional<double> eps) {
  return add_norm<true>(x, residual, normalized_shape, weight, {}, eps);
}

}  // namespace wick
