#pragma once

#include <functional>
#include <optional>

#include "wick/core/ops/norm.h"
#include "wick/nn/module.h"

namespace wick::nn {

/// Options of batch normalisation, named as those of torch.nn.BatchNorm2d. `momentum` is the share
/// of the newest batch in the running statistics; without one these are the means over all batches.
/// `affine`: with a weight, and unless `bias` is false a bias. Without `track_running_stats`
/// evaluation uses the batch's statistics too.
struct BatchNormOptions {
  double eps = 1e-5;
  std::optional<double> momentum = 0.1;
  bool affine = true;
  bool track_running_stats = true;
  bool bias = true;
};

/// Batch normalisation (Ioffe & Szegedy 2015, arXiv 1502.03167) over every axis but the second. In
/// training it uses the batch's statistics and updates the running ones:
/// running = (1 - momentum) * running + momentum * batch (unbiased variance).
class BatchNorm : public Module {
 public:
  Tensor forward(const Tensor& x) override;
  /// relu(forward(x)) in one pass.
  Tensor forward_relu(const Tensor& x);
  /// relu(forward(x) + residual) in one pass.
  Tensor forward_add_relu(const Tensor& x, const Tensor& residual);
  std::string description() const override;

  Parameter weight, bias;            // [num_features], or undefined
  Buffer running_mean, running_var;  // [num_features], or undefined
  Buffer num_batches_tracked;        // int64, rank 0
  /// The sum of a tensor over all ranks, with a gradient; dist::synchronize_batch_norms sets it. In
  /// training the statistics are then those of all ranks' batches together, else of this one.
  std::function<Tensor(const Tensor&)> sum_over_ranks;

 protected:
  BatchNorm(const char* name, int min_rank, int max_rank, int64_t num_features,
            const BatchNormOptions& options);

 private:
  /// Statistics that a call updates or uses.
  struct Running {
    Tensor mean, var;
  };
  /// Checks x, computes with what this mode asks for, and counts the batch.
  template <class Compute>
  Tensor normalize(const Tensor& x, const Compute& compute);
  /// Adds a batch's statistics, which `made` has in place of the running ones, to their means.
  void average(const Tensor& running, const Tensor& made) const;
  Tensor normalize_over_ranks(const Tensor& x, const Running& running);

  const char* name_;
  int min_rank_, max_rank_;
  int64_t num_features_;
  BatchNormOptions options_;
};

/// For x [N, C] or [N, C, L].
class BatchNorm1d final : public BatchNorm {
 public:
  explicit BatchNorm1d(int64_t num_features, const BatchNormOptions& options = {})
      : BatchNorm("BatchNorm1d", 2, 3, num_features, options) {}
};

/// For x [N, C, H, W].
class BatchNorm2d final : public BatchNorm {
 public:
  explicit BatchNorm2d(int64_t num_features, const BatchNormOptions& options = {})
      : BatchNorm("BatchNorm2d", 4, 4, num_features, options) {}
};

/// For x [N, C, D, H, W].
class BatchNorm3d final : public BatchNorm {
 public:
  explicit BatchNorm3d(int64_t num_features, const BatchNormOptions& options = {})
      : BatchNorm("BatchNorm3d", 5, 5, num_features, options) {}
};

/// Options of LayerNorm. `eps` is added to the variance.
struct LayerNormOptions {
  double eps = 1e-5;
  bool elementwise_affine = true;  // with a weight, and unless bias is false a bias
  bool bias = true;
};

/// Normalises over the last axes, `normalized_shape` (Ba et al. 2016, arXiv 1607.06450).
class LayerNorm : public Module {
 public:
  explicit LayerNorm(const Shape& normalized_shape, const LayerNormOptions& options = {});
  explicit LayerNorm(std::initializer_list<int64_t> normalized_shape,
                     const LayerNormOptions& options = {})
      : LayerNorm(Shape(normalized_shape), options) {}
  Tensor forward(const Tensor& x) override;
  /// x + residual and forward of that, in one pass.
  SumAndNorm forward_add(const Tensor& x, const Tensor& residual);
  std::string description() const override;

  Parameter weight, bias;  // [normalized_shape...], or undefined

 private:
  Shape normalized_shape_;
  double eps_;
};

/// Options of RMSNorm. `eps` is by default as in rms_norm. `elementwise_affine`: with a weight.
struct RMSNormOptions {
  std::optional<double> eps = {};
  bool elementwise_affine = true;
};

/// x / sqrt(mean(x^2) + eps) * weight over the last axes (Zhang & Sennrich 2019, arXiv 1910.07467).
class RMSNorm : public Module {
 public:
  RMSNorm(const Shape& normalized_shape, const RMSNormOptions& options);
  RMSNorm(std::initializer_list<int64_t> normalized_shape, const RMSNormOptions& options)
      : RMSNorm(Shape(normalized_shape), options) {}
  explicit RMSNorm(const Shape& normalized_shape, std::optional<double> eps = {})
      : RMSNorm(normalized_shape, RMSNormOptions{.eps = eps}) {}
  explicit RMSNorm(std::initializer_list<int64_t> normalized_shape, std::optional<double> eps = {})
      : RMSNorm(Shape(normalized_shape), eps) {}
  Tensor forward(const Tensor& x) override;
  /// x + residual and forward of that, in one pass.
  SumAndNorm forward_add(const Tensor& x, const Tensor& residual);
  std::string description() const override;

  Parameter weight;  // [normalized_shape...], or undefined

 private:
  Shape normalized_shape_;
  std::optional<double> eps_;
};

/// Options of GroupNorm. `eps` is added to the variance. `affine`: with a weight, and unless `bias`
/// is false a bias.
struct GroupNormOptions {
  double eps = 1e-5;
  bool affine = true;
  bool bias = true;
};

/// Normalises groups of channels of x [N, C, ...] (Wu & He 2018, arXiv 1803.08494).
class GroupNorm : public Module {
 public:
  GroupNorm(int64_t num_groups, int64_t num_channels, const GroupNormOptions& options);
  GroupNorm(int64_t num_groups, int64_t num_channels, double eps = 1e-5)
      : GroupNorm(num_groups, num_channels, GroupNormOptions{.eps = eps}) {}
  Tensor forward(const Tensor& x) override;
  /// relu(forward(x)) in one pass.
  Tensor forward_relu(const Tensor& x);
  /// relu(forward(x) + residual) in one pass.
  Tensor forward_add_relu(const Tensor& x, const Tensor& residual);
  std::string description() const override;

  Parameter weight, bias;  // [num_channels], or undefined

 private:
  int64_t num_groups_, num_channels_;
  double eps_;
};

/// Options of instance normalisation. `eps` is added to the variance. `affine`: with a weight for
/// each channel, and unless `bias` is false a bias. `momentum` is the share of the newest batch in
/// the running statistics, which `track_running_stats` keeps.
struct InstanceNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;
  bool affine = false;
  bool track_running_stats = false;
  bool bias = true;
};

/// Normalises each channel of each sample by its own mean and variance (Ulyanov et al. 2016, arXiv
/// 1607.08022). Evaluation uses the running statistics, if they are tracked: the means over the
/// samples of their mean and unbiased variance. Else it does as training. Without N in x there is
/// none in the result. Error for samples of one position, unless running statistics are used.
class InstanceNorm : public Module {
 public:
  Tensor forward(const Tensor& x) override;
  std::string description() const override;

  Parameter weight, bias;            // [num_features], or undefined
  Buffer running_mean, running_var;  // [num_features], or undefined
  Buffer num_batches_tracked;        // int64, rank 0, and 0 as in PyTorch; or undefined

 protected:
  InstanceNorm(const char* name, int rank, int64_t num_features,
               const InstanceNormOptions& options);

 private:
  void update_running_statistics(const Tensor& x);

  const char* name_;
  int rank_;
  int64_t num_features_;
  InstanceNormOptions options_;
};

/// For x [N, C, L] or [C, L].
class InstanceNorm1d final : public InstanceNorm {
 public:
  explicit InstanceNorm1d(int64_t num_features, const InstanceNormOptions& options = {})
      : InstanceNorm("InstanceNorm1d", 3, num_features, options) {}
};

/// For x [N, C, H, W] or [C, H, W].
class InstanceNorm2d final : public InstanceNorm {
 public:
  explicit InstanceNorm2d(int64_t num_features, const InstanceNormOptions& options = {})
      : InstanceNorm("InstanceNorm2d", 4, num_features, options) {}
};

/// For x [N, C, D, H, W] or [C, D, H, W].
class InstanceNorm3d final : public InstanceNorm {
 public:
  explicit InstanceNorm3d(int64_t num_features, const InstanceNormOptions& options = {})
      : InstanceNorm("InstanceNorm3d", 5, num_features, options) {}
};

/// Options of LocalResponseNorm: x is divided by (k + alpha / size * sum of x^2)^beta.
struct LocalResponseNormOptions {
  double alpha = 1e-4, beta = 0.75, k = 1;
};

/// local_response_norm over `size` neighbouring channels of x [N, C, ...].
class LocalResponseNorm : public Module {
 public:
  explicit LocalResponseNorm(int64_t size, const LocalResponseNormOptions& options = {})
      : size_(size), options_(options) {}
  Tensor forward(const Tensor& x) override {
    return local_response_norm(x, size_, options_.alpha, options_.beta, options_.k);
  }

 private:
  int64_t size_;
  LocalResponseNormOptions options_;
};

}  // namespace wick::nn
