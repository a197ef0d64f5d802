#include "wick/core/ops/detail/norm_composed.h"

#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/reduce.h"

namespace wick {

namespace {

// One number per channel, as it broadcasts to x.
Tensor per_channel(const Tensor& value, const Tensor& x) {
  Shape shape = Shape::filled(x.rank(), 1);
  shape[1] = x.size(1);
  return value.reshape(shape);
}

Tensor affine(const Tensor& normalised, const Tensor& weight, const Tensor& bias) {
  Tensor y = normalised;
  if (weight.defined()) y = y * weight;
  if (bias.defined()) y = y + bias;
  return y.to(normalised.dtype());
}

Tensor normalise(const Tensor& x, const Shape& axes, double eps) {
  const Tensor deviation = x - mean(x, axes, true);
  return deviation / sqrt(mean(deviation * deviation, axes, true) + eps);
}

Shape last_axes(int count) {
  Shape axes;
  for (int i = 1; i <= count; ++i) axes.push_back(-i);
  return axes;
}

}  // namespace

Tensor composed_batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  Shape axes{0};
  for (int axis = 2; axis < x.rank(); ++axis) axes.push_back(axis);
  return affine(normalise(x, axes, eps), weight.defined() ? per_channel(weight, x) : weight,
                bias.defined() ? per_channel(bias, x) : bias);
}

Tensor composed_batch_norm_eval(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                const Tensor& mean, const Tensor& invstd) {
  const Tensor normalised =
      (x - per_channel(mean.to(x.dtype()), x)) * per_channel(invstd.to(x.dtype()), x);
  return affine(normalised, weight.defined() ? per_channel(weight, x) : weight,
                bias.defined() ? per_channel(bias, x) : bias);
}

Tensor composed_layer_norm(const Tensor& x, int axes, const Tensor& weight, const Tensor& bias,
                           double eps) {
  return affine(normalise(x, last_axes(axes), eps), weight, bias);
}

Tensor composed_rms_norm(const Tensor& x, int axes, const Tensor& weight, double eps) {
  const Tensor scale = sqrt(mean(x * x, last_axes(axes), true) + eps);
  return affine(x / scale, weight, {});
}

Tensor composed_group_norm(const Tensor& x, int64_t groups, const Tensor& weight,
                           const Tensor& bias, double eps) {
  int64_t size = x.size(1) / groups;
  for (int axis = 2; axis < x.rank(); ++axis) size *= x.size(axis);
  const Tensor grouped = x.reshape({x.size(0), groups, size});
  return affine(normalise(grouped, {2}, eps).reshape(x.shape()),
                weight.defined() ? per_channel(weight, x) : weight,
                bias.defined() ? per_channel(bias, x) : bias);
}

}  // namespace wick
