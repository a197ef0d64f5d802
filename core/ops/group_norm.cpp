#include "wick/core/apply.h"
#include "wick/core/memory/detail/workspace.h"
#include "wick/core/ops/detail/composed_gradient.h"
#include "wick/core/ops/detail/dense.h"
#include "wick/core/ops/detail/norm_composed.h"
#include "wick/core/ops/detail/norm_views.h"
#include "wick/core/ops/norm.h"
#include "wick/kernels/norm.h"

namespace wick {

namespace {

// x as the kernel takes it: each image in one piece, row-major or channels-last.
Tensor images(const Tensor& x) {
  return x.rank() == 4 && x.is_contiguous(MemoryFormat::kChannelsLast) ? x : x.contiguous();
}

int64_t rows_of(const Tensor& x) {
  const int64_t images = x.size(0), channels = x.size(1);
  const int64_t positions = x.numel() / (images * channels);
  return images * (group_norm_by_position(x.view_for_kernel()) ? positions : channels);
}

// dx, dresidual, dweight and dbias, those that are wanted.
struct GroupNormBackward {
  static constexpr OpInfo info{
      .name = "group_norm_backward", .differentiable = false, .is_gradient = true};
  int64_t groups;
  bool want_x, want_residual, want_parameters;
  static constexpr auto fields = std::tuple{
      field("groups", &GroupNormBackward::groups), field("want_x", &GroupNormBackward::want_x),
      field("want_residual", &GroupNormBackward::want_residual),
      field("want_parameters", &GroupNormBackward::want_parameters)};

  std::array<Tensor, 4> forward(Saved&, const Tensor& dy, const Tensor& x, const Tensor& weight,
                                const Tensor& mean, const Tensor& invstd,
                                const Tensor& mask) const {
    const Tensor in = images(x), gradient = laid_out_like(in, dy), scale = as_parameter(x, weight);
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
    WICK_DISPATCH(x.device(), group_norm_backward(n));
    return out;
  }
};

// Inputs: x, residual, weight, bias; all but x may be undefined.
struct GroupNorm {
  static constexpr OpInfo info{.name = "group_norm", .autocast = {.cuda = Autocast::kToFloat32}};
  int64_t groups;
  double eps;
  bool relu;
  static constexpr auto fields =
      std::tuple{field("groups", &GroupNorm::groups), field("eps", &GroupNorm::eps),
                 field("relu", &GroupNorm::relu)};

  Tensor forward(Saved& saved, const Tensor& x, const Tensor& residual, const Tensor& weight,
                 const Tensor& bias) const {
    const Tensor in = images(x), scale = as_parameter(x, weight), shift = as_parameter(x, bias);
    const Tensor added = residual.defined() ? laid_out_like(in, residual) : residual;
    Tensor y = empty_like(in);
    const Tensor mean = empty({x.size(0), groups}, kFloat64, x.device());
    const Tensor invstd = empty_like(mean);
    Tensor mask;
    if (x.numel() > 0) {
      if (relu && saved.recording()) mask = new_relu_mask(in, rows_of(in));
      ChannelNorm n;
      n.x = view_of(in);
      n.residual = view_of(added);
      n.mask = view_of(mask);
      n.relu = relu;
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
    saved.save(x, weight, bias, mean, invstd, mask);
    return y;
  }

  Gradients backward(const Saved& saved, const Tensor& dy) const {
    if (dy.numel() == 0) return gradients_of_nothing(saved);
    if (grad_enabled()) return differentiable(saved, dy);
    const bool parameters = saved.needs(2) || saved.needs(3);
    const auto found =
        apply(GroupNormBackward{groups, saved.needs(0), relu && saved.needs(1), parameters}, dy,
              saved[0], saved[1], saved[3], saved[4], saved[5]);
    Gradients grads(4);
    grads[0] = found[0];
    if (saved.needs(1)) grads[1] = relu ? found[1] : dy;
    if (saved.needs(2)) grads[2] = found[2].to(saved.input(2).dtype);
    if (saved.needs(3)) grads[3] = found[3].to(saved.input(3).dtype);
    return grads;
  }

 private:
  Gradients differentiable(const Saved& saved, const Tensor& dy) const {
    const Tensor passed = relu ? through_relu(dy, saved[5], images(saved[0].detach())) : dy;
    Gradients grads = composed_gradients(
        saved, {saved[0], {}, saved[1], saved[2]}, passed, [&](const std::vector<Tensor>& in) {
          return composed_group_norm(in[0], groups, in[2], in[3], eps);
        });
    grads.resize(4);
    if (saved.needs(1)) grads[1] = passed;
    return grads;
  }
};

Tensor run(const char* op, const Tensor& x, const Tensor& residual, int64_t groups,
           const Tensor& weight, const Tensor& bias, double eps, bool relu) {
  WICK_CHECK(is_floating(x.dtype(op)), op, ": needs a floating dtype: got ", to_string(x.dtype()));
  WICK_CHECK(x.rank() >= 2, op, ": needs [N, C, ...]: got shape ", x.shape());
  WICK_CHECK(groups > 0 && x.size(1) % groups == 0, op, ": groups must divide the channels: got ",
             groups, " groups for ", x.size(1), " channels");
  check_parameter(op, "weight", {x.size(1)}, weight);
  check_parameter(op, "bias", {x.size(1)}, bias);
  check_residual(op, x, residual);
  return apply(GroupNorm{groups, eps, relu}, x, residual, weight, bias);
}

}  // namespace

Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias,
                  double eps) {
  return run("group_norm", x, {}, groups, weight, bias, eps, false);
}

Tensor group_norm_relu(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias,
                       double eps) {
  return run("group_norm_relu", x, {}, groups, weight, bias, eps, true);
}

Tensor group_norm_add_relu(const Tensor& x, const Tensor& residual, int64_t groups,
                           const Tensor& weight, const Tensor& bias, double eps) {
  WICK_CHECK(residual.defined(), "group_norm_add_relu: needs a residual");
  return run("group_norm_add_relu", x, residual, groups, weight, bias, eps, true);
}

}  // namespace wick
