#include "wick/core/apply.h"
#include "wick/core/memory/workspace.h"
#include "wick/core/ops/composed_gradient.h"
#include "wick/core/ops/dense.h"
#include "wick/core/ops/norm.h"
#include "wick/core/ops/norm_composed.h"
#include "wick/core/ops/norm_views.h"
#include "wick/kernels/norm.h"

namespace wick {

namespace {

// x as the kernel takes it: each image in one piece, row-major or channels-last.
Tensor images(const Tensor& x) {
  return x.rank() == 4 && x.is_contiguous(MemoryFormat::kChannelsLast) ? x : x.contiguous();
}

// dx, dweight and dbias, those that are wanted.
struct GroupNormBackward {
  static constexpr OpInfo info{
      .name = "group_norm_backward", .differentiable = false, .is_gradient = true};
  int64_t groups;
  bool want_x, want_parameters;
  static constexpr auto fields = std::tuple{
      field("groups", &GroupNormBackward::groups), field("want_x", &GroupNormBackward::want_x),
      field("want_parameters", &GroupNormBackward::want_parameters)};

  std::array<Tensor, 3> forward(Saved&, const Tensor& dy, const Tensor& x, const Tensor& weight,
                                const Tensor& mean, const Tensor& invstd) const {
    const Tensor in = images(x), gradient = laid_out_like(in, dy), scale = as_parameter(x, weight);
    std::array<Tensor, 3> out;
    if (want_x) out[0] = empty_like(in);
    if (want_parameters) {
      out[1] = empty({x.size(1)}, accumulator_dtype(x.dtype()), x.device());
      out[2] = empty_like(out[1]);
    }
    ChannelNorm n;
    n.x = view_of(in);
    n.dy = view_of(gradient);
    n.weight = view_of(scale);
    n.mean = view_of(mean);
    n.invstd = view_of(invstd);
    n.dx = view_of(out[0]);
    n.dweight = view_of(out[1]);
    n.dbias = view_of(out[2]);
    AllocatorWorkspace workspace(x.device());
    n.workspace = &workspace;
    n.groups = groups;
    WICK_DISPATCH(x.device(), group_norm_backward(n));
    return out;
  }
};

struct GroupNorm {
  static constexpr OpInfo info{.name = "group_norm", .autocast = {.cuda = Autocast::kToFloat32}};
  int64_t groups;
  double eps;
  static constexpr auto fields =
      std::tuple{field("groups", &GroupNorm::groups), field("eps", &GroupNorm::eps)};

  Tensor forward(Saved& saved, const Tensor& x, const Tensor& weight, const Tensor& bias) const {
    const Tensor in = images(x), scale = as_parameter(x, weight), shift = as_parameter(x, bias);
    Tensor y = empty_like(in);
    const Tensor mean = empty({x.size(0), groups}, kFloat64, x.device());
    const Tensor invstd = empty_like(mean);
    if (x.numel() > 0) {
      ChannelNorm n;
      n.x = view_of(in);
      n.weight = view_of(scale);
      n.bias = view_of(shift);
      n.y = view_of(y);
      n.mean = view_of(mean);
      n.invstd = view_of(invstd);
      AllocatorWorkspace workspace(x.device());
      n.workspace = &workspace;
      n.groups = groups;
      n.eps = eps;
      WICK_DISPATCH(x.device(), group_norm_forward(n));
    }
    saved.save(x, weight, bias, mean, invstd);
    return y;
  }

  Gradients backward(const Saved& saved, const Tensor& dy) const {
    if (dy.numel() == 0) return gradients_of_nothing(saved);
    if (grad_enabled()) {
      return composed_gradients(saved, {saved[0], saved[1], saved[2]}, dy,
                                [&](const std::vector<Tensor>& in) {
                                  return composed_group_norm(in[0], groups, in[1], in[2], eps);
                                });
    }
    const bool parameters = saved.needs(1) || saved.needs(2);
    const auto found = apply(GroupNormBackward{groups, saved.needs(0), parameters}, dy, saved[0],
                             saved[1], saved[3], saved[4]);
    Gradients grads(3);
    grads[0] = found[0];
    if (saved.needs(1)) grads[1] = found[1].to(saved.input(1).dtype);
    if (saved.needs(2)) grads[2] = found[2].to(saved.input(2).dtype);
    return grads;
  }
};

}  // namespace

Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias,
                  double eps) {
  WICK_CHECK(is_floating(x.dtype()), "group_norm: needs a floating dtype: got ",
             to_string(x.dtype()));
  WICK_CHECK(x.rank() >= 2, "group_norm: needs [N, C, ...]: got shape ", x.shape());
  WICK_CHECK(groups > 0 && x.size(1) % groups == 0,
             "group_norm: groups must divide the channels: got ", groups, " groups for ", x.size(1),
             " channels");
  check_parameter("group_norm", "weight", {x.size(1)}, weight);
  check_parameter("group_norm", "bias", {x.size(1)}, bias);
  return apply(GroupNorm{groups, eps}, x, weight, bias);
}

}  // namespace wick
