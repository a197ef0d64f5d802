#include "wick/nn/init.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "wick/core/autograd.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/reduce.h"

namespace wick::nn::init {

Fans fans(const Tensor& weight) {
  WICK_CHECK(weight.rank() >= 2, "init: fans need a weight of 2 axes or more: got shape ",
             weight.shape());
  int64_t receptive = 1;
  for (int i = 2; i < weight.rank(); ++i) receptive *= weight.shape()[i];
  return {weight.shape()[1] * receptive, weight.shape()[0] * receptive};
}

void uniform_(const Tensor& tensor, double low, double high, Generator* generator) {
  const NoGrad no_grad;
  tensor.uniform_(low, high, generator);
}

void normal_(const Tensor& tensor, double mean, double stddev, Generator* generator) {
  const NoGrad no_grad;
  tensor.normal_(mean, stddev, generator);
}

void constant_(const Tensor& tensor, double value) {
  const NoGrad no_grad;
  tensor.fill_(value);
}

namespace {
// How probable it is that a standard normal number is greater.
double tail(double z) { return std::erfc(z / std::numbers::sqrt2) / 2; }

// Normal numbers within [low, high] by the inverse of their distribution, found by bisection: for
// bounds so narrow, or so far out, that drawing again would take long.
void invert_(const Tensor& tensor, double mean, double stddev, double low, double high,
             Generator* generator) {
  double from = (low - mean) / stddev, to = (high - mean) / stddev;
  const bool mirrored = from + to < 0;  // where tails are small they are precise
  if (mirrored) from = std::exchange(to, -from) * -1;
  from = std::clamp(from, -40.0, 40.0);
  to = std::clamp(to, -40.0, 40.0);
  const double most = tail(from), least = tail(to);
  std::vector<double> values = empty(tensor.shape(), kFloat64, tensor.device())
                                   .uniform_(0, 1, generator)
                                   .to_vector<double>();
  for (double& value : values) {
    const double wanted = most + value * (least - most);
    double below = from, above = to;
    for (int i = 0; i < 60; ++i) {
      const double middle = (below + above) / 2;
      (tail(middle) > wanted ? below : above) = middle;
    }
    value = mean + stddev * (mirrored ? -above : above);
  }
  tensor.copy_(as_tensor(values, tensor.shape()).to(tensor.dtype()).to(tensor.device()));
  tensor.clamp_(low, high);
}
}  // namespace

void trunc_normal_(const Tensor& tensor, double mean, double stddev, double low, double high,
                   Generator* generator) {
  WICK_CHECK(low < high && stddev > 0 && low < mean + 8 * stddev && high > mean - 8 * stddev,
             "trunc_normal_: got mean ", mean, ", stddev ", stddev, " in [", low, ", ", high, "]");
  const NoGrad no_grad;
  const double share = tail((low - mean) / stddev) - tail((high - mean) / stddev);
  if (share < 0.1) return invert_(tensor, mean, stddev, low, high, generator);
  tensor.normal_(mean, stddev, generator);
  const Tensor again = empty_like(tensor);
  for (int pass = 0; pass < 1000; ++pass) {
    const Tensor outside = logical_or(lt(tensor, low), gt(tensor, high));
    if (!any(outside).item<bool>()) return;
    again.normal_(mean, stddev, generator);
    tensor.copy_(where(outside, again, tensor));
  }
  invert_(tensor, mean, stddev, low, high,
          generator);  // the dtype may have no number within the bounds
}

namespace {
double kaiming_gain(const Tensor& weight, double slope, FanMode mode) {
  const Fans f = fans(weight);
  const auto fan = static_cast<double>(mode == FanMode::kFanIn ? f.in : f.out);
  return std::sqrt(2 / (1 + slope * slope)) / std::sqrt(fan);
}
double xavier_stddev(const Tensor& weight, double gain) {
  const Fans f = fans(weight);
  return gain * std::sqrt(2.0 / static_cast<double>(f.in + f.out));
}
}  // namespace

void kaiming_uniform_(const Tensor& weight, double negative_slope, FanMode mode,
                      Generator* generator) {
  const double bound = std::sqrt(3.0) * kaiming_gain(weight, negative_slope, mode);
  uniform_(weight, -bound, bound, generator);
}

void kaiming_normal_(const Tensor& weight, double negative_slope, FanMode mode,
                     Generator* generator) {
  normal_(weight, 0, kaiming_gain(weight, negative_slope, mode), generator);
}

void xavier_uniform_(const Tensor& weight, double gain, Generator* generator) {
  const double bound = std::sqrt(3.0) * xavier_stddev(weight, gain);
  uniform_(weight, -bound, bound, generator);
}

void xavier_normal_(const Tensor& weight, double gain, Generator* generator) {
  normal_(weight, 0, xavier_stddev(weight, gain), generator);
}

void linear_default_(const Tensor& weight, const Tensor& bias, Generator* generator) {
  if (weight.numel() == 0) return;
  const double bound = 1 / std::sqrt(static_cast<double>(fans(weight).in));
  uniform_(weight, -bound, bound, generator);
  if (bias.defined()) uniform_(bias, -bound, bound, generator);
}

}  // namespace wick::nn::init
