// Layers of networks: convolutions, pooling, normalisation, attention, images.
#include "wick/core/autograd.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/norm.h"
#include "wick/core/ops/pool.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/special.h"
#include "wick/core/ops/unfold.h"
#include "wick/tests/golden/opinfo.h"

namespace wick::golden {
namespace {

using Sizes = const Shape&;
using X = const Tensor&;

constexpr const char* kConv = "input weight bias=null stride=1 padding=0 dilation=1 groups=1";
constexpr const char* kTransposed =
    "input weight bias=null stride=1 padding=0 output_padding=0 groups=1 dilation=1";

int64_t one(Sizes s) {
  WICK_CHECK(s.rank() == 1, "expected one number, got ", s);
  return s[0];
}

const Opinfo convolutions({
    {"nn.functional.conv1d",
     {call(
          +[](X x, X w, X b, Sizes stride, Sizes padding, Sizes dilation, int64_t groups) {
            return conv1d(x, w, b, one(stride), one(padding), one(dilation), groups);
          },
          kConv),
      call(
          +[](X x, X w, X b, Sizes stride, ConvPadding padding, Sizes dilation, int64_t groups) {
            return conv1d(x, w, b, one(stride), padding, one(dilation), groups);
          },
          kConv)}},
    {"nn.functional.conv2d",
     {call<Tensor(X, X, X, Sizes, Sizes, Sizes, int64_t)>(conv2d, kConv),
      call<Tensor(X, X, X, Sizes, ConvPadding, Sizes, int64_t)>(conv2d, kConv)}},
    {"nn.functional.conv3d",
     {call<Tensor(X, X, X, Sizes, Sizes, Sizes, int64_t)>(conv3d, kConv),
      call<Tensor(X, X, X, Sizes, ConvPadding, Sizes, int64_t)>(conv3d, kConv)}},
    {"nn.functional.conv_transpose1d",
     {call(
         +[](X x, X w, X b, Sizes stride, Sizes padding, Sizes extra, int64_t groups,
             Sizes dilation) {
           return conv_transpose1d(x, w, b, one(stride), one(padding), one(extra), groups,
                                   one(dilation));
         },
         kTransposed)}},
    {"nn.functional.conv_transpose2d", {call(conv_transpose2d, kTransposed)}},
    {"nn.functional.conv_transpose3d", {call(conv_transpose3d, kTransposed)}},
    {"nn.functional.unfold",
     {call(
         +[](X x, Sizes kernel, Sizes dilation, Sizes padding, Sizes stride) {
           return unfold(x, kernel, {dilation, padding, stride});
         },
         "input kernel_size dilation=1 padding=0 stride=1")}},
    {"nn.functional.fold",
     {call(
         +[](X x, Sizes size, Sizes kernel, Sizes dilation, Sizes padding, Sizes stride) {
           return fold(x, size, kernel, {dilation, padding, stride});
         },
         "input output_size kernel_size dilation=1 padding=0 stride=1")}},
});

using MaxPoolOp = Tensor(X, Sizes, Sizes, Sizes, Sizes, bool);
using MaxPoolIndicesOp = Sorted(X, Sizes, Sizes, Sizes, Sizes, bool);
using AvgPoolOp = Tensor(X, Sizes, Sizes, Sizes, bool, bool, std::optional<int64_t>);
using Unpool = Tensor(X, X, Sizes, Sizes, Sizes, Sizes);

std::vector<Spelling> max_pool_spellings(MaxPoolOp* pool, MaxPoolIndicesOp* with_indices) {
  return {call(pool,
               "input kernel_size stride=null padding=0 dilation=1 ceil_mode=false "
               "!return_indices=false"),
          call(with_indices,
               "input kernel_size stride=null padding=0 dilation=1 ceil_mode=false "
               "!return_indices=true")};
}

// Sizes, of which null keeps that of x.
Shape output_size(const Argument& a, X x, int axes) {
  if (!a.value->is_array()) return read<Shape>(a);
  Shape sizes;
  for (const nlohmann::json& size : *a.value) {
    const int axis = x.rank() - axes + sizes.rank();
    sizes.push_back(size.is_null() ? x.shape()[axis] : a.entry(size).integer());
  }
  return sizes;
}

template <int kAxes>
Spelling adaptive_pool(Tensor (*pool)(X, Sizes)) {
  return {"input output_size !return_indices=false", [pool](const std::vector<Argument>& a) {
            const Tensor x = read<Tensor>(a[0]);
            return results(pool(x, output_size(a[1], x, kAxes)));
          }};
}

template <int kAxes>
std::vector<Spelling> adaptive_max_pools(Tensor (*pool)(X, Sizes),
                                         Sorted (*with_indices)(X, Sizes)) {
  return {
      adaptive_pool<kAxes>(pool),
      {"input output_size !return_indices=true", [with_indices](const std::vector<Argument>& a) {
         const Tensor x = read<Tensor>(a[0]);
         return results(with_indices(x, output_size(a[1], x, kAxes)));
       }}};
}

// The gradient of max pooling for an upstream gradient of ones.
Tensor max_pool_gradient(X x, Sizes kernel, Sizes stride, Sizes padding, Sizes dilation,
                         bool ceil_mode) {
  const Tensor leaf = x.detach().requires_grad_();
  const Tensor y = max_pool2d(leaf, kernel, stride, padding, dilation, ceil_mode);
  return grad({y}, {leaf}, {ones_like(y)})[0];
}

Spelling avg_pool_spellings(AvgPoolOp* pool) {
  return call(pool,
              "input kernel_size stride=null padding=0 ceil_mode=false count_include_pad=true "
              "divisor_override=null");
}

std::vector<Spelling> unpools(Unpool* unpool) {
  return {call(unpool, "input indices kernel_size stride=null padding=0 output_size=null")};
}

const Opinfo pools({
    {"nn.functional.max_pool1d", max_pool_spellings(max_pool1d, max_pool1d_with_indices)},
    {"nn.functional.max_pool2d", max_pool_spellings(max_pool2d, max_pool2d_with_indices)},
    {"nn.functional.max_pool3d", max_pool_spellings(max_pool3d, max_pool3d_with_indices)},
    {"nn.functional.adaptive_max_pool1d",
     adaptive_max_pools<1>(adaptive_max_pool1d, adaptive_max_pool1d_with_indices)},
    {"nn.functional.adaptive_max_pool2d",
     adaptive_max_pools<2>(adaptive_max_pool2d, adaptive_max_pool2d_with_indices)},
    {"nn.functional.adaptive_max_pool3d",
     adaptive_max_pools<3>(adaptive_max_pool3d, adaptive_max_pool3d_with_indices)},
    {"nn.functional.adaptive_avg_pool1d", {adaptive_pool<1>(adaptive_avg_pool1d)}},
    {"nn.functional.adaptive_avg_pool2d", {adaptive_pool<2>(adaptive_avg_pool2d)}},
    {"nn.functional.adaptive_avg_pool3d", {adaptive_pool<3>(adaptive_avg_pool3d)}},
    {"nn.functional.avg_pool1d",
     {call(avg_pool1d,
           "input kernel_size stride=null padding=0 ceil_mode=false count_include_pad=true")}},
    {"nn.functional.avg_pool2d", {avg_pool_spellings(avg_pool2d)}},
    {"nn.functional.avg_pool3d", {avg_pool_spellings(avg_pool3d)}},
    {"nn.functional.max_unpool1d", unpools(max_unpool1d)},
    {"nn.functional.max_unpool2d", unpools(max_unpool2d)},
    {"nn.functional.max_unpool3d", unpools(max_unpool3d)},
});

const Opinfo pool_gradients({
    {"max_pool2d_with_indices_backward",
     {call(max_pool_gradient,
           "input kernel_size stride=null padding=0 dilation=1 ceil_mode=false "
           "!return_indices=false"),
      call(max_pool_gradient,
           "input kernel_size stride=null padding=0 dilation=1 ceil_mode=false "
           "!return_indices=true")}},
});

const Opinfo normalised({
    {"nn.functional.batch_norm",
     {call(
         +[](X x, X mean, X variance, X weight, X bias, bool training, double momentum,
             double eps) {
           return batch_norm(x, weight, bias, mean, variance, {training, momentum, eps});
         },
         "input running_mean running_var weight=null bias=null training=false momentum=0.1 "
         "eps=1e-5")}},
    {"nn.functional.group_norm",
     {call<Tensor(X, int64_t, X, X, double)>(group_norm,
                                             "input num_groups weight=null bias=null eps=1e-5")}},
    {"nn.functional.layer_norm",
     {call(layer_norm, "input normalized_shape weight=null bias=null eps=1e-5")}},
    {"nn.functional.rms_norm", {call(rms_norm, "input normalized_shape weight=null eps=null")}},
    {"nn.functional.local_response_norm",
     {call(local_response_norm, "input size alpha=1e-4 beta=0.75 k=1.0")}},
    {"nn.functional.normalize",
     {call(
         +[](X x, double p, int64_t axis, double eps) {
           return x / clamp_min(norm(x, p, {axis}, true), eps);
         },
         "input p=2.0 dim=1 eps=1e-12")}},
});

Tensor embedded(X index, X weight, const std::optional<int64_t>& padding_idx,
                const std::optional<double>& max_norm, double norm_type, bool by_frequency,
                bool sparse) {
  if (max_norm) embedding_renorm_(weight.detach(), index, *max_norm, norm_type);
  const Tensor rows = embedding(weight, index, padding_idx, sparse);
  return by_frequency ? scale_grad_by_freq(rows, index, weight.size(0)) : rows;
}

const Opinfo embedded_spellings({
    {"nn.functional.embedding",
     {call(
         +[](X weight, X index, const std::optional<int64_t>& padding_idx,
             const std::optional<double>& max_norm, double norm_type, bool by_frequency,
             bool sparse) {
           return embedded(index, weight, padding_idx, max_norm, norm_type, by_frequency, sparse);
         },
         "weight input padding_idx=null max_norm=null norm_type=2.0 scale_grad_by_freq=false "
         "sparse=false")}},
    {"nn.functional.embedding_bag",
     {call(
         +[](X weight, X index, X offsets, BagMode mode, X per_sample_weights,
             bool include_last_offset, const std::optional<int64_t>& padding_idx) {
           return embedding_bag(
               weight, index,
               {mode, offsets, per_sample_weights, include_last_offset, padding_idx});
         },
         "weight input offsets=null !max_norm=null !norm_type=2.0 !scale_grad_by_freq=false "
         "mode=\"mean\" !sparse=false per_sample_weights=null include_last_offset=false "
         "padding_idx=null")}},
});

Tensor resized(X x, const std::optional<Shape>& size, const Argument& scale, Interpolation mode,
               bool align, bool recompute, bool antialias) {
  if (size) return interpolate(x, *size, mode, align, antialias);
  const auto factors =
      scale.is_number() ? std::vector<double>{scale.number()} : read<std::vector<double>>(scale);
  return interpolate_by(x, factors, mode, align, recompute, antialias);
}

const Opinfo images({
    {"nn.functional.interpolate",
     {call(resized,
           "input size=null scale_factor=null mode=\"nearest\" align_corners=null "
           "recompute_scale_factor=null antialias=false")}},
    {"nn.functional.grid_sample",
     {call(grid_sample, "input grid mode=\"bilinear\" padding_mode=\"zeros\" align_corners=null")}},
    {"grid_sampler_2d",
     {call(
         +[](X x, X grid, int64_t mode, int64_t padding, bool align) {
           if (mode > 1) throw Missing("no bicubic mode");
           return grid_sample(x, grid, static_cast<GridMode>(mode),
                              static_cast<GridPadding>(padding), align);
         },
         "input grid interpolation_mode padding_mode align_corners")}},
    {"nn.functional.upsample_nearest",
     {call(
         +[](X x, const std::optional<Shape>& size, const Argument& scale) {
           return resized(x, size, scale, Interpolation::kNearest, false, false, false);
         },
         "input size=null scale_factor=null")}},
    {"nn.functional.upsample_bilinear",
     {call(
         +[](X x, const std::optional<Shape>& size, const Argument& scale) {
           return resized(x, size, scale, Interpolation::kBilinear, true, false, false);
         },
         "input size=null scale_factor=null")}},
    {"nn.functional.affine_grid", {call(affine_grid, "theta size align_corners=null")}},
});

}  // namespace
}  // namespace wick::golden
