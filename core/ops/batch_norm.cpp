#include "wick/core/ops/detail/channel_norm.h"
#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/detail/norm_composed.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/norm.h"
#include "wick/core/recompute_region.h"

namespace wick {

namespace {

// The result of a batch norm, from its inputs, and the mean and invstd that forward found.
// Residual, weight and bias may be undefined. With `masks`, the ReLU's mask is a second result.
struct BatchNormRecompute {
  static constexpr OpInfo info{
      .name = "batch_norm_recompute", .differentiable = false, .is_gradient = true};
  bool relu, masks;
  static constexpr auto fields = std::tuple{field("relu", &BatchNormRecompute::relu),
                                            field("masks", &BatchNormRecompute::masks)};

  std::array<Tensor, 2> forward(Saved&, const Tensor& x, const Tensor& residual,
                                const Tensor& weight, const Tensor& bias, const Tensor& mean,
                                const Tensor& invstd) const {
    check_channels(info.name, x, 0, weight, bias, mean, invstd);
    check_residual(info.name, x, residual);
    check_statistic(info.name, "mean", {x.size(1)}, mean);
    check_statistic(info.name, "invstd", {x.size(1)}, invstd);
    const Tensor in = dense(x), y = empty_like(in);
    const Tensor added = residual.defined() ? laid_out_like(in, residual) : residual;
    const Tensor mask = masks ? new_relu_mask(in, 0) : Tensor();
    ChannelNorm n;
    n.residual = view_of(added);
    n.mask = view_of(mask);
    n.has_statistics = true;
    n.relu = relu;
    run_channel_norm(n, in, weight, bias, mean, invstd, y);
    return {y, mask};
  }
};

// Inputs: x, residual, weight, bias, running_mean, running_var; all but x may be undefined, in eval
// all but x and the last two.
template <bool kTraining>
struct BatchNorm {
  static constexpr OpInfo info{.name = kTraining ? "batch_norm" : "batch_norm_eval",
                               .mutates = kTraining ? 1u << 4 | 1u << 5 : 0};
  double momentum, eps;
  bool relu;
  static constexpr auto fields =
      std::tuple{field("momentum", &BatchNorm::momentum), field("eps", &BatchNorm::eps),
                 field("relu", &BatchNorm::relu)};

  Tensor forward(Saved& saved, const Tensor& x, const Tensor& residual, const Tensor& weight,
                 const Tensor& bias, const Tensor& running_mean, const Tensor& running_var) const {
    check_channels(info.name, x, 0, weight, bias, running_mean, running_var);
    check_residual(info.name, x, residual);
    WICK_CHECK(
        running_mean.defined() == running_var.defined() && (kTraining || running_mean.defined()),
        info.name, ": running_mean or running_var is missing: expected both",
        kTraining ? ", or neither" : "");
    const Tensor in = dense(x);
    const Tensor added = residual.defined() ? laid_out_like(in, residual) : residual;
    const Tensor y = empty_like(in);
    const Tensor mean = empty({x.size(1)}, kFloat64, x.device()), invstd = empty_like(mean);
    if (x.numel() > 0) {
      const Tensor mask = relu && saved.recording() ? new_relu_mask(in, 0) : Tensor();
      ChannelNorm n;
      n.residual = view_of(added);
      n.running_mean = view_of(running_mean);
      n.running_var = view_of(running_var);
      n.mask = view_of(mask);
      n.momentum = momentum;
      n.eps = eps;
      n.training = kTraining;
      n.relu = relu;
      run_channel_norm(n, in, weight, bias, mean, invstd, y);
      saved.save(x, weight, bias, mean, invstd, mask);
    }
    return y;
  }

  // From what backward keeps anyway; a residual would have to be kept for it. Graphs recompute with
  // a residual, too (core/graph/recompute.cpp).
  bool can_recompute(const Saved& saved) const { return !saved.empty() && !saved.input(1).defined; }
  Tensor recompute(const Saved& saved) const {
    return apply(BatchNormRecompute{relu, false}, saved[0], Tensor(), saved[1], saved[2], saved[3],
                 saved[4])[0];
  }

  Gradients backward(const Saved& saved, const Tensor& dy) const {
    return channel_norm_gradients<false>(
        saved, dy, 0, kTraining, relu, [&](const std::vector<Tensor>& in) {
          return kTraining ? composed_batch_norm(in[0], in[2], in[3], eps)
                           : composed_batch_norm_eval(in[0], in[2], in[3], saved[3], saved[4]);
        });
  }
};

Tensor run(const char* op, const Tensor& x, const Tensor& residual, const Tensor& weight,
           const Tensor& bias, const Tensor& running_mean, const Tensor& running_var,
           const BatchNormOptions& options, bool relu) {
  WICK_CHECK(is_floating(x.dtype(op)), op, ": needs a floating dtype: got ", to_string(x.dtype()));
  WICK_CHECK(options.eps >= 0, op, ": eps: got ", options.eps, ", expected 0 or more");
  WICK_CHECK(x.rank() >= 2, op, ": needs [N, C] or [N, C, ...]: got shape ", x.shape());
  check_parameter(op, "weight", {x.size(1)}, weight);
  check_parameter(op, "bias", {x.size(1)}, bias);
  check_parameter(op, "running_mean", {x.size(1)}, running_mean);
  check_parameter(op, "running_var", {x.size(1)}, running_var);
  WICK_CHECK(running_mean.defined() == running_var.defined(), op,
             ": needs both running_mean and running_var, or neither");
  check_residual(op, x, residual);
  if (!options.training && running_mean.defined()) {
    return apply(BatchNorm<false>{options.momentum, options.eps, relu}, x, residual, weight, bias,
                 running_mean, running_var);
  }
  WICK_CHECK(
      x.size(1) == 0 || x.numel() / x.size(1) != 1, op,
      ": needs more than one value per channel in training: got shape ", x.shape(),
      ", expected a larger batch: a loader's drop_last leaves out a last one of 1, and eval() "
      "needs no batch");
  const BatchNorm<true> normalization{options.momentum, options.eps, relu};
  if (is_recomputing()) return apply(normalization, x, residual, weight, bias, Tensor(), Tensor());
  return apply(normalization, x, residual, weight, bias, running_mean, running_var);
}

}  // namespace

Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormOptions& options) {
  return run("batch_norm", x, {}, weight, bias, running_mean, running_var, options, false);
}

Tensor batch_norm_relu(const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor& running_mean, const Tensor& running_var,
                       const BatchNormOptions& options) {
  return run("batch_norm_relu", x, {}, weight, bias, running_mean, running_var, options, true);
}

Tensor batch_norm_add_relu(const Tensor& x, const Tensor& residual, const Tensor& weight,
                           const Tensor& bias, const Tensor& running_mean,
                           const Tensor& running_var, const BatchNormOptions& options) {
  check_defined("batch_norm_add_relu", residual);
  return run("batch_norm_add_relu", x, residual, weight, bias, running_mean, running_var, options,
             true);
}

}  // namespace wick
