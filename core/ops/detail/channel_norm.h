#pragma once

#include "wick/core/apply.h"
#include "wick/core/memory/detail/workspace.h"
#include "wick/core/ops/detail/composed_gradient.h"
#include "wick/core/ops/detail/dense.h"
#include "wick/core/ops/detail/norm_views.h"

// What batch and group norm share: they are one kernel, where batch norm has no groups.
namespace wick {

/// x as the kernel takes it. Batch norm: dense, with any order of the axes. Group norm: each image
/// in one piece, row-major or channels-last.
inline Tensor channel_norm_input(const Tensor& x, int64_t groups) {
  if (groups == 0) return dense(x);
  return x.rank() == 4 && x.is_contiguous(MemoryFormat::kChannelsLast) ? x : x.contiguous();
}

/// Error unless there are channels, that groups divide (0: batch norm), and numbers of the right
/// shapes.
inline void check_channels(const char* op, const Tensor& x, int64_t groups, const Tensor& weight,
                           const Tensor& bias, const Tensor& mean, const Tensor& invstd) {
  WICK_CHECK(x.rank() >= 2, op, ": needs [N, C, ...]: got shape ", x.shape());
  const int64_t channels = x.size(1);
  WICK_CHECK(groups == 0 || (groups > 0 && channels % groups == 0), op,
             ": groups must divide the channels: got ", groups, " groups for ", channels,
             " channels");
  check_parameter(op, "weight", {channels}, weight);
  check_parameter(op, "bias", {channels}, bias);
  const Shape statistic = groups == 0 ? Shape{channels} : Shape{x.size(0), groups};
  check_parameter(op, "mean", statistic, mean);
  check_parameter(op, "invstd", statistic, invstd);
}

/// Room for which elements of the kernel's x a ReLU let pass.
inline Tensor new_relu_mask(const Tensor& x, int64_t groups) {
  const ChannelLayout s = channel_layout(x.view_for_kernel(), groups);
  return empty({s.images * s.rows(), relu_mask_bytes(x.dtype(), s.row_size())}, kUint8, x.device());
}

/// Error unless a mask is undefined or one of new_relu_mask().
inline void check_relu_mask(const char* op, const Tensor& x, int64_t groups, const Tensor& mask) {
  if (!mask.defined()) return;
  const ChannelLayout s = channel_layout(x.view_for_kernel(), groups);
  const Shape shape{s.images * s.rows(), relu_mask_bytes(x.dtype(), s.row_size())};
  WICK_CHECK(mask.dtype() == kUint8 && mask.shape() == shape && mask.is_contiguous(), op,
             ": the mask is wrong: got ", mask.dtype(), " ", mask.shape(),
             ", expected row-major uint8 ", shape);
}

/// `dy` where the ReLU of `mask`, over elements laid out as `x`, let pass; a gradient may be taken.
inline Tensor through_relu(const Tensor& dy, const Tensor& mask, const Tensor& x) {
  const Tensor pass = empty_like(x.detach());
  WICK_DISPATCH(dy.device(), relu_mask(mask.view_for_kernel(), pass.view_for_kernel()));
  return dy * pass;
}

/// dx, dresidual, dweight and dbias, those that are wanted.
template <bool kGroups>
struct ChannelNormBackward {
  static constexpr OpInfo info{.name = kGroups ? "group_norm_backward" : "batch_norm_backward",
                               .differentiable = false,
                               .is_gradient = true};
  int64_t groups;
  bool training, want_x, want_residual, want_parameters;
  static constexpr auto fields =
      std::tuple{field("groups", &ChannelNormBackward::groups),
                 field("training", &ChannelNormBackward::training),
                 field("want_x", &ChannelNormBackward::want_x),
                 field("want_residual", &ChannelNormBackward::want_residual),
                 field("want_parameters", &ChannelNormBackward::want_parameters)};

  std::array<Tensor, 4> forward(Saved&, const Tensor& dy, const Tensor& x, const Tensor& weight,
                                const Tensor& mean, const Tensor& invstd,
                                const Tensor& mask) const {
    check_channels(info.name, x, groups, weight, {}, mean, invstd);
    check_like(info.name, "dy", x, dy);
    const Shape statistic = groups == 0 ? Shape{x.size(1)} : Shape{x.size(0), groups};
    check_statistic(info.name, "mean", statistic, mean);
    check_statistic(info.name, "invstd", statistic, invstd);
    WICK_CHECK((groups > 0) == kGroups, info.name, ": wrong number of groups: got ", groups);
    const Tensor in = channel_norm_input(x, groups), scale = as_parameter(x, weight);
    check_relu_mask(info.name, in, groups, mask);
    const Tensor gradient = laid_out_like(in, dy);
    std::array<Tensor, 4> out;
    if (want_x || want_residual) out[0] = empty_like(in);
    if (want_residual) out[1] = empty_like(in);
    if (want_parameters) {
      out[2] = empty({x.size(1)}, accumulator_dtype(x.dtype()), x.device());
      out[3] = empty_like(out[2]);
    }
    ChannelNorm n;
    n.x = view_of(in);
    n.dy = view_of(gradient);
    n.weight = view_of(scale);
    n.mean = view_of(mean);
    n.invstd = view_of(invstd);
    n.mask = view_of(mask);
    n.dx = view_of(out[0]);
    n.dresidual = view_of(out[1]);
    n.dweight = view_of(out[2]);
    n.dbias = view_of(out[3]);
    AllocatorWorkspace workspace(x.device());
    n.workspace = &workspace;
    n.groups = groups;
    n.training = training;
    WICK_DISPATCH(x.device(), channel_norm_backward(n));
    return out;
  }
};

/// The forward pass of `n`, completed by these tensors; weight and bias may be undefined.
inline void run_channel_norm(ChannelNorm& n, const Tensor& x, const Tensor& weight,
                             const Tensor& bias, const Tensor& mean, const Tensor& invstd,
                             const Tensor& y) {
  const Tensor scale = as_parameter(x, weight), shift = as_parameter(x, bias);
  n.x = view_of(x);
  n.weight = view_of(scale);
  n.bias = view_of(shift);
  n.y = view_of(y);
  n.mean = view_of(mean);
  n.invstd = view_of(invstd);
  AllocatorWorkspace workspace(x.device());
  n.workspace = &workspace;
  WICK_DISPATCH(x.device(), channel_norm_forward(n));
}

/// The gradients of an op whose first inputs are x, residual, weight and bias, and which saved x,
/// weight, bias, mean, invstd and the ReLU's mask. `composed(inputs)` is the op, but for the
/// residual and the ReLU, of others that can be differentiated twice.
template <bool kGroups, class Composed>
Gradients channel_norm_gradients(const Saved& saved, const Tensor& dy, int64_t groups,
                                 bool training, bool relu, const Composed& composed) {
  if (dy.numel() == 0) return gradients_of_nothing(saved);
  const size_t inputs = static_cast<size_t>(saved.num_inputs());
  if (grad_enabled()) {
    const Tensor passed =
        relu ? through_relu(dy, saved[5], channel_norm_input(saved[0].detach(), groups)) : dy;
    Gradients grads =
        composed_gradients(saved, {saved[0], {}, saved[1], saved[2]}, passed, composed);
    grads.resize(inputs);
    if (saved.needs(1)) grads[1] = passed;
    return grads;
  }
  const ChannelNormBackward<kGroups> op{groups, training, saved.needs(0), relu && saved.needs(1),
                                        saved.needs(2) || saved.needs(3)};
  const auto found = apply(op, dy, saved[0], saved[1], saved[3], saved[4], saved[5]);
  Gradients grads(inputs);
  grads[0] = found[0];
  if (saved.needs(1)) grads[1] = relu ? found[1] : dy;
  if (saved.needs(2)) grads[2] = found[2].to(saved.input(2).dtype);
  if (saved.needs(3)) grads[3] = found[3].to(saved.input(3).dtype);
  return grads;
}

}  // namespace wick
