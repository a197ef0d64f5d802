#include <array>

#include "wick/core/ops/detail/channel_norm.h"
#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/detail/norm_composed.h"
#include "wick/core/ops/detail/wide.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/norm.h"
#include "wick/core/ops/pool.h"

namespace wick {

namespace {

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
    WICK_CHECK(groups > 0, info.name, ": groups: got ", groups, ", expected 1 or more");
    check_channels(info.name, x, groups, weight, bias, {}, {});
    check_residual(info.name, x, residual);
    const Tensor in = channel_norm_input(x, groups);
    const Tensor added = residual.defined() ? laid_out_like(in, residual) : residual;
    Tensor y = empty_like(in);
    const Tensor mean = empty({x.size(0), groups}, kFloat64, x.device());
    const Tensor invstd = empty_like(mean);
    Tensor mask;
    if (x.numel() > 0) {
      if (relu && saved.recording()) mask = new_relu_mask(in, groups);
      ChannelNorm n;
      n.residual = view_of(added);
      n.mask = view_of(mask);
      n.relu = relu;
      n.groups = groups;
      n.eps = eps;
      run_channel_norm(n, in, weight, bias, mean, invstd, y);
    }
    saved.save(x, weight, bias, mean, invstd, mask);
    return y;
  }

  Gradients backward(const Saved& saved, const Tensor& dy) const {
    return channel_norm_gradients<true>(
        saved, dy, groups, true, relu, [&](const std::vector<Tensor>& in) {
          return composed_group_norm(in[0], groups, in[2], in[3], eps);
        });
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
  check_defined("group_norm_add_relu", residual);
  return run("group_norm_add_relu", x, residual, groups, weight, bias, eps, true);
}

Tensor local_response_norm(const Tensor& x, int64_t size, double alpha, double beta, double k) {
  const OpInfo info{.name = "local_response_norm",
                    .autocast = {.cuda = Autocast::kToFloat32, .cpu = Autocast::kToFloat32}};
  WICK_CHECK(x.rank(info.name) >= 3 && is_floating(x.dtype()), info.name,
             ": needs [N, C, ...], floating: got ", to_string(x.dtype()), " of shape ", x.shape());
  WICK_CHECK(size >= 1, info.name, ": size: got ", size, ", expected 1 or more");
  if (x.numel() == 0) return x;
  const std::array<Tensor, 1> given{x};
  std::vector<Tensor> cast;
  return computed_wide(
      {amp::cast_inputs(info, given, cast)[0]}, [&](const std::vector<Tensor>& in) {
        const Tensor squares =
            square(in[0]).flatten(2).unsqueeze(1);  // channels as rows of an image
        const Tensor padded = pad(squares, {0, 0, size / 2, (size - 1) / 2});
        const Tensor mean = avg_pool2d(padded, {size, 1}, 1).squeeze(1).reshape(x.shape());
        return in[0] / pow(mean * alpha + k, beta);
      });
}

}  // namespace wick
