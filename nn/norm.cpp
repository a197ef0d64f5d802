#include "wick/nn/norm.h"

#include "wick/core/autograd.h"
#include "wick/core/ops/activation.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/norm.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/recompute_region.h"

namespace wick::nn {

BatchNorm::BatchNorm(const char* name, int min_rank, int max_rank, int64_t num_features,
                     const BatchNormOptions& options)
    : name_(name),
      min_rank_(min_rank),
      max_rank_(max_rank),
      num_features_(num_features),
      options_(options) {
  WICK_CHECK(num_features >= 1, name, ": features must be 1 or more: got ", num_features);
  weight = add_parameter("weight", options.affine ? ones({num_features}) : Tensor());
  const bool biased = options.affine && options.bias;
  bias = add_parameter("bias", biased ? zeros({num_features}) : Tensor());
  const bool track = options.track_running_stats;
  running_mean = add_buffer("running_mean", track ? zeros({num_features}) : Tensor());
  running_var = add_buffer("running_var", track ? ones({num_features}) : Tensor());
  num_batches_tracked = add_buffer("num_batches_tracked", track ? zeros({}, kInt64) : Tensor());
}

void BatchNorm::average(const Tensor& running, const Tensor& made) const {
  running.add_((made - running) / (num_batches_tracked + 1).to(running.dtype()));
}

template <class Compute>
Tensor BatchNorm::normalize(const Tensor& x, const Compute& compute) {
  WICK_CHECK(x.rank(name_) >= min_rank_ && x.rank() <= max_rank_, name_,
             ": wrong number of axes: got shape ", x.shape(), ", expected ", min_rank_,
             min_rank_ == max_rank_ ? "" : concat(" or ", max_rank_));
  const bool tracks = running_mean.defined();
  // A mean over all batches: the kernel gives the newest batch's, and its share is on the device.
  const bool averages = is_training() && tracks && !options_.momentum;
  Running running{running_mean, running_var};
  if (averages) running = {running_mean.detach().clone(), running_var.detach().clone()};
  const bool training = is_training() || !tracks;
  const Tensor y = compute(
      wick::BatchNormOptions{training, options_.momentum.value_or(1), options_.eps}, running);
  if (is_training() && tracks && !is_recomputing()) {
    const NoGrad no_grad;
    if (averages) {
      average(running_mean, running.mean);
      average(running_var, running.var);
    }
    num_batches_tracked.add_(1);
  }
  return y;
}

// Two rounds among the ranks, for the mean and for the variance about it: the sum of squares alone
// would lose the digits that the mean has. Sums are in float64, so that however a batch is cut
// among ranks its images are normalised to the same bits.
Tensor BatchNorm::normalize_over_ranks(const Tensor& x, const Running& running) {
  Shape axes, per_channel = {num_features_};
  for (int a = 0; a < x.rank(); ++a) {
    if (a != 1) axes.push_back(a);
    if (a > 1) per_channel.push_back(1);
  }
  const Tensor wide = x.dtype() == kFloat64 ? x : x.to(kFloat32);
  const auto count = static_cast<double>(x.numel() / num_features_);
  const Tensor sums = sum_over_ranks(
      cat({sum(wide, axes, false, kFloat64), full({1}, count, kFloat64, x.device())}));
  const Tensor total = sums.narrow(0, num_features_, 1).detach();
  const Tensor mean = (sums.narrow(0, 0, num_features_) / total).to(wide.dtype());
  const Tensor centered = wide - mean.reshape(per_channel);
  const Tensor variance = sum_over_ranks(sum(centered.square(), axes, false, kFloat64)) / total;
  const Tensor invstd = (variance + options_.eps).rsqrt().to(wide.dtype());
  Tensor y = centered * invstd.reshape(per_channel);
  if (weight.defined()) y = y * weight.reshape(per_channel);
  if (bias.defined()) y = y + bias.reshape(per_channel);
  if (running.mean.defined() && !is_recomputing()) {
    const NoGrad no_grad;
    const double share = options_.momentum.value_or(1);
    const Tensor unbiased = (variance * total / (total - 1)).to(running.var.dtype());
    running.mean.mul_(1 - share).add_(mean.to(running.mean.dtype()), share);
    running.var.mul_(1 - share).add_(unbiased, share);
  }
  return y.to(x.dtype());
}

Tensor BatchNorm::forward(const Tensor& x) {
  return normalize(x, [&](const auto& options, const Running& running) {
    if (options.training && sum_over_ranks) return normalize_over_ranks(x, running);
    return batch_norm(x, weight, bias, running.mean, running.var, options);
  });
}

Tensor BatchNorm::forward_relu(const Tensor& x) {
  ForwardScope scope(*this);
  return scope.made(normalize(x, [&](const auto& options, const Running& running) {
    if (options.training && sum_over_ranks) return relu(normalize_over_ranks(x, running));
    return batch_norm_relu(x, weight, bias, running.mean, running.var, options);
  }));
}

Tensor BatchNorm::forward_add_relu(const Tensor& x, const Tensor& residual) {
  ForwardScope scope(*this);
  return scope.made(normalize(x, [&](const auto& options, const Running& running) {
    if (options.training && sum_over_ranks)
      return relu(normalize_over_ranks(x, running) + residual);
    return batch_norm_add_relu(x, residual, weight, bias, running.mean, running.var, options);
  }));
}

std::string BatchNorm::description() const { return concat(name_, "(", num_features_, ")"); }

LayerNorm::LayerNorm(const Shape& normalized_shape, const LayerNormOptions& options)
    : normalized_shape_(normalized_shape), eps_(options.eps) {
  const bool affine = options.elementwise_affine;
  weight = add_parameter("weight", affine ? ones(normalized_shape) : Tensor());
  bias = add_parameter("bias", affine && options.bias ? zeros(normalized_shape) : Tensor());
}

Tensor LayerNorm::forward(const Tensor& x) {
  return layer_norm(x, normalized_shape_, weight, bias, eps_);
}

SumAndNorm LayerNorm::forward_add(const Tensor& x, const Tensor& residual) {
  ForwardScope scope(*this);
  SumAndNorm both = add_layer_norm(x, residual, normalized_shape_, weight, bias, eps_);
  both.y = scope.made(std::move(both.y));
  return both;
}

std::string LayerNorm::description() const { return concat("LayerNorm(", normalized_shape_, ")"); }

RMSNorm::RMSNorm(const Shape& normalized_shape, const RMSNormOptions& options)
    : normalized_shape_(normalized_shape), eps_(options.eps) {
  weight = add_parameter("weight", options.elementwise_affine ? ones(normalized_shape) : Tensor());
}

Tensor RMSNorm::forward(const Tensor& x) { return rms_norm(x, normalized_shape_, weight, eps_); }

SumAndNorm RMSNorm::forward_add(const Tensor& x, const Tensor& residual) {
  ForwardScope scope(*this);
  SumAndNorm both = add_rms_norm(x, residual, normalized_shape_, weight, eps_);
  both.y = scope.made(std::move(both.y));
  return both;
}

std::string RMSNorm::description() const { return concat("RMSNorm(", normalized_shape_, ")"); }

GroupNorm::GroupNorm(int64_t num_groups, int64_t num_channels, const GroupNormOptions& options)
    : num_groups_(num_groups), num_channels_(num_channels), eps_(options.eps) {
  WICK_CHECK(num_groups >= 1 && num_channels % num_groups == 0,
             "GroupNorm: groups must divide the channels: got ", num_groups, " for ", num_channels);
  weight = add_parameter("weight", options.affine ? ones({num_channels}) : Tensor());
  const bool biased = options.affine && options.bias;
  bias = add_parameter("bias", biased ? zeros({num_channels}) : Tensor());
}

Tensor GroupNorm::forward(const Tensor& x) {
  return group_norm(x, num_groups_, weight, bias, eps_);
}

Tensor GroupNorm::forward_relu(const Tensor& x) {
  ForwardScope scope(*this);
  return scope.made(group_norm_relu(x, num_groups_, weight, bias, eps_));
}

Tensor GroupNorm::forward_add_relu(const Tensor& x, const Tensor& residual) {
  ForwardScope scope(*this);
  return scope.made(group_norm_add_relu(x, residual, num_groups_, weight, bias, eps_));
}

std::string GroupNorm::description() const {
  return concat("GroupNorm(", num_groups_, ", ", num_channels_, ")");
}

InstanceNorm::InstanceNorm(const char* name, int rank, int64_t num_features,
                           const InstanceNormOptions& options)
    : name_(name), rank_(rank), num_features_(num_features), options_(options) {
  WICK_CHECK(num_features >= 1, name, ": features must be 1 or more: got ", num_features);
  weight = add_parameter("weight", options.affine ? ones({num_features}) : Tensor());
  const bool biased = options.affine && options.bias;
  bias = add_parameter("bias", biased ? zeros({num_features}) : Tensor());
  const bool track = options.track_running_stats;
  running_mean = add_buffer("running_mean", track ? zeros({num_features}) : Tensor());
  running_var = add_buffer("running_var", track ? ones({num_features}) : Tensor());
  num_batches_tracked = add_buffer("num_batches_tracked", track ? zeros({}, kInt64) : Tensor());
}

void InstanceNorm::update_running_statistics(const Tensor& x) {
  const NoGrad no_grad;
  const Dtype dtype = x.dtype() == kFloat64 ? kFloat64 : kFloat32;
  const Tensor samples = x.detach().to(dtype).flatten(2);
  const double share = options_.momentum;
  running_mean.mul_(1 - share).add_(samples.mean({0, 2}), share);
  running_var.mul_(1 - share).add_(samples.var({2}).mean({0}), share);
}

Tensor InstanceNorm::forward(const Tensor& x) {
  const int rank = x.rank(name_);
  WICK_CHECK((rank == rank_ || rank == rank_ - 1) && x.size(1 + rank - rank_) == num_features_,
             name_, ": wrong shape: got ", x.shape(), ", expected ", rank_, " axes, or ", rank_ - 1,
             " without N, and ", num_features_, " channels");
  if (rank == rank_ - 1) return forward(x.unsqueeze(0)).squeeze(0);
  if (!is_training() && running_mean.defined()) {
    return batch_norm(x, weight, bias, running_mean, running_var,
                      {.training = false, .eps = options_.eps});
  }
  WICK_CHECK(x.numel() != x.size(0) * num_features_, name_,
             ": a channel of a sample has one value, whose variance is 0: got shape ", x.shape());
  if (running_mean.defined() && !is_recomputing()) update_running_statistics(x);
  return group_norm(x, num_features_, weight, bias, options_.eps);
}

std::string InstanceNorm::description() const { return concat(name_, "(", num_features_, ")"); }

}  // namespace wick::nn
