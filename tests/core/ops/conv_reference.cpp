#include "wick/tests/core/ops/conv_reference.h"

namespace wick::testing {

namespace {

size_t offset(const Shape& shape, int64_t a, int64_t b, int64_t c, int64_t d) {
  return static_cast<size_t>(((a * shape[1] + b) * shape[2] + c) * shape[3] + d);
}

HostArray all_zero(const Shape& shape) {
  return {shape, std::vector<double>(static_cast<size_t>(shape.numel()))};
}

int64_t result_size(const Shape& x, const Shape& weight, const ConvSetting& s, int axis) {
  const int64_t reach = s.dilation[axis] * (weight[axis + 2] - 1) + 1;
  return (x[axis + 2] + 2 * s.padding[axis] - reach) / s.stride[axis] + 1;
}

// Calls `visit(x index, weight index, y index)` for every product of the convolution.
template <class Visit>
void for_each_product(const Shape& x, const Shape& w, const Shape& y, const ConvSetting& set,
                      const Visit& visit) {
  const int64_t per_group = w[0] / set.groups;
  for (int64_t n = 0; n < y[0]; ++n) {
    for (int64_t k = 0; k < y[1]; ++k) {
      for (int64_t p = 0; p < y[2]; ++p) {
        for (int64_t q = 0; q < y[3]; ++q) {
          for (int64_t c = 0; c < w[1]; ++c) {
            for (int64_t r = 0; r < w[2]; ++r) {
              for (int64_t s = 0; s < w[3]; ++s) {
                const int64_t i = p * set.stride[0] - set.padding[0] + r * set.dilation[0];
                const int64_t j = q * set.stride[1] - set.padding[1] + s * set.dilation[1];
                if (i < 0 || i >= x[2] || j < 0 || j >= x[3]) continue;
                visit(offset(x, n, k / per_group * w[1] + c, i, j), offset(w, k, c, r, s),
                      offset(y, n, k, p, q));
              }
            }
          }
        }
      }
    }
  }
}

void add_bias(HostArray& y, const HostArray* bias) {
  if (bias == nullptr) return;
  const int64_t image = y.shape[2] * y.shape[3];
  for (size_t i = 0; i < y.values.size(); ++i) {
    y.values[i] += bias->values[i / static_cast<size_t>(image) % bias->values.size()];
  }
}

}  // namespace

HostArray conv2d_reference(const HostArray& x, const HostArray& weight, const HostArray* bias,
                           const ConvSetting& setting) {
  HostArray y =
      all_zero({x.shape[0], weight.shape[0], result_size(x.shape, weight.shape, setting, 0),
                result_size(x.shape, weight.shape, setting, 1)});
  for_each_product(x.shape, weight.shape, y.shape, setting, [&](size_t i, size_t j, size_t k) {
    y.values[k] += x.values[i] * weight.values[j];
  });
  add_bias(y, bias);
  return y;
}

ConvGradients conv2d_gradient_reference(const HostArray& x, const HostArray& weight,
                                        const HostArray& dy, const ConvSetting& setting) {
  ConvGradients result{all_zero(x.shape), all_zero(weight.shape)};
  for_each_product(x.shape, weight.shape, dy.shape, setting, [&](size_t i, size_t j, size_t k) {
    result.dx.values[i] += dy.values[k] * weight.values[j];
    result.dweight.values[j] += dy.values[k] * x.values[i];
  });
  return result;
}

HostArray conv_transpose2d_reference(const HostArray& x, const HostArray& weight,
                                     const HostArray* bias, const ConvSetting& setting,
                                     const Shape& output_padding) {
  Shape shape{x.shape[0], weight.shape[1] * setting.groups};
  for (const int axis : {0, 1}) {
    shape.push_back((x.shape[axis + 2] - 1) * setting.stride[axis] - 2 * setting.padding[axis] +
                    setting.dilation[axis] * (weight.shape[axis + 2] - 1) + output_padding[axis] +
                    1);
  }
  HostArray y = all_zero(shape);
  for_each_product(shape, weight.shape, x.shape, setting, [&](size_t i, size_t j, size_t k) {
    y.values[i] += x.values[k] * weight.values[j];
  });
  add_bias(y, bias);
  return y;
}

}  // namespace wick::testing
