#include "wick/core/apply.h"
#include "wick/core/memory/workspace.h"
#include "wick/core/ops/composed_gradient.h"
#include "wick/core/ops/norm.h"
#include "wick/core/ops/norm_composed.h"
#include "wick/core/ops/norm_views.h"
#include "wick/kernels/norm.h"

namespace wick {

namespace {

// A row-major tensor as rows of the product of its last `axes` axes.
View rows_of(const Tensor& x, int axes) {
  View view = x.view_for_kernel();
  int64_t size = 1;
  for (int axis = x.rank() - axes; axis < x.rank(); ++axis) size *= x.shape()[axis];
  int64_t rows = 1;
  for (int axis = 0; axis < x.rank() - axes; ++axis) rows *= x.shape()[axis];
  view.shape = {rows, size};
  view.strides = {size, 1};
  return view;
}

// dx, dweight and dbias, those that are wanted. mean is undefined for RMS norm.
struct LayerNormBackward {
  static constexpr OpInfo info{
      .name = "layer_norm_backward", .differentiable = false, .is_gradient = true};
  int axes;
  bool want_x, want_parameters;
  static constexpr auto fields = std::tuple{
      field("axes", &LayerNormBackward::axes), field("want_x", &LayerNormBackward::want_x),
      field("want_parameters", &LayerNormBackward::want_parameters)};

  std::array<Tensor, 3> forward(Saved&, const Tensor& dy, const Tensor& x, const Tensor& weight,
                                const Tensor& mean, const Tensor& invstd) const {
    const Tensor in = x.contiguous(), gradient = dy.contiguous(), scale = as_parameter(x, weight);
    const View rows = rows_of(in, axes);
    std::array<Tensor, 3> out;
    if (want_x) out[0] = empty(x.shape(), x.dtype(), x.device());
    if (want_parameters) {
      const Dtype dtype = accumulator_dtype(x.dtype());
      Shape shape;
      for (int axis = x.rank() - axes; axis < x.rank(); ++axis) shape.push_back(x.shape()[axis]);
      out[1] = empty(shape, dtype, x.device());
      out[2] = empty(shape, dtype, x.device());
    }
    AllocatorWorkspace workspace(x.device());
    WICK_DISPATCH(x.device(), layer_norm_backward(rows_of(gradient, axes), rows, view_of(scale),
                                                  view_of(mean), view_of(invstd), view_of(out[0]),
                                                  view_of(out[1]), view_of(out[2]), workspace));
    return out;
  }
};

// Over the last `axes` axes: layer norm of (x, weight, bias), or RMS norm of (x, weight).
template <bool kRms>
struct LayerNorm {
  static constexpr OpInfo info{.name = kRms ? "rms_norm" : "layer_norm",
                               .autocast = {.cuda = Autocast::kToFloat32}};
  int axes;
  double eps;
  static constexpr auto fields =
      std::tuple{field("axes", &LayerNorm::axes), field("eps", &LayerNorm::eps)};

  Tensor forward(Saved& saved, const Tensor& x, const Tensor& weight, const Tensor& bias) const {
    const Tensor in = x.contiguous(), scale = as_parameter(x, weight),
                 shift = as_parameter(x, bias);
    Tensor y = empty(x.shape(), x.dtype(), x.device());
    const View rows = rows_of(in, axes);
    const Tensor invstd = empty({rows.shape[0]}, kFloat64, x.device());
    const Tensor mean = kRms ? Tensor() : empty_like(invstd);
    WICK_DISPATCH(x.device(),
                  layer_norm_forward(rows, view_of(scale), view_of(shift), rows_of(y, axes),
                                     view_of(mean), view_of(invstd), eps));
    saved.save(x, weight, bias, mean, invstd);
    return y;
  }

  Gradients backward(const Saved& saved, const Tensor& dy) const {
    if (grad_enabled()) {
      return composed_gradients(saved, {saved[0], saved[1], saved[2]}, dy,
                                [&](const std::vector<Tensor>& in) {
                                  return kRms ? composed_rms_norm(in[0], axes, in[1], eps)
                                              : composed_layer_norm(in[0], axes, in[1], in[2], eps);
                                });
    }
    const bool parameters = saved.needs(1) || saved.needs(2);
    const auto found = apply(LayerNormBackward{axes, saved.needs(0), parameters}, dy, saved[0],
                             saved[1], saved[3], saved[4]);
    Gradients grads(3);
    grads[0] = found[0];
    if (saved.needs(1)) grads[1] = found[1].to(saved.input(1).dtype);
    if (saved.needs(2)) grads[2] = found[2].to(saved.input(2).dtype);
    return grads;
  }
};

void check(const char* op, const Tensor& x, const Shape& normalized_shape, const Tensor& weight,
           const Tensor& bias) {
  WICK_CHECK(is_floating(x.dtype()), op, ": needs a floating dtype: got ", to_string(x.dtype()));
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

}  // namespace

Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight,
                  const Tensor& bias, double eps) {
  check("layer_norm", x, normalized_shape, weight, bias);
  return apply(LayerNorm<false>{normalized_shape.rank(), eps}, x, weight, bias);
}

Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight, double eps) {
  check("rms_norm", x, normalized_shape, weight, {});
  return apply(LayerNorm<true>{normalized_shape.rank(), eps}, x, weight, Tensor());
}

}  // namespace wick
