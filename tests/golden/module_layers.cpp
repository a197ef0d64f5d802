// Linear layers, convolutions, poolings, normalisation, padding.
#include "wick/tests/golden/module.h"

namespace wick::golden {
namespace {

using X = const Tensor&;
using S = const Shape&;

template <class M>
ModuleSpelling convolution() {
  return layer(
      +[](int64_t in, int64_t out, S kernel, S stride, const nn::ConvMargin& padding, S dilation,
          int64_t groups, bool bias, PadMode mode) {
        return M(in, out, kernel, {stride, padding, dilation, groups, bias, mode});
      },
      "in_channels out_channels kernel_size stride=1 padding=0 dilation=1 groups=1 bias=true "
      "padding_mode=\"constant\"");
}

template <class M>
ModuleSpelling transposed_convolution() {
  return layer(
      +[](int64_t in, int64_t out, S kernel, S stride, S padding, S extra, int64_t groups,
          bool bias, S dilation) {
        return M(in, out, kernel, {stride, padding, extra, dilation, groups, bias});
      },
      "in_channels out_channels kernel_size stride=1 padding=0 output_padding=0 groups=1 bias=true "
      "dilation=1 !padding_mode=\"zeros\"",
      +[](M& m, X x, S size) { return m(x, size); }, "input output_size=null");
}

const ModuleTable module_linear_layers({
    {"Linear",
     {layer(
         +[](int64_t in, int64_t out, bool bias) { return nn::Linear(in, out, {.bias = bias}); },
         "in_features out_features bias=true")}},
    {"Bilinear",
     {layer(
         +[](int64_t in1, int64_t in2, int64_t out, bool bias) {
           return nn::Bilinear(in1, in2, out, {.bias = bias});
         },
         "in1_features in2_features out_features bias=true",
         +[](nn::Bilinear& m, X x1, X x2) { return m(x1, x2); }, "input1 input2")}},
    {"Conv1d", {convolution<nn::Conv1d>()}},
    {"Conv2d", {convolution<nn::Conv2d>()}},
    {"Conv3d", {convolution<nn::Conv3d>()}},
    {"ConvTranspose1d", {transposed_convolution<nn::ConvTranspose1d>()}},
    {"ConvTranspose2d", {transposed_convolution<nn::ConvTranspose2d>()}},
    {"ConvTranspose3d", {transposed_convolution<nn::ConvTranspose3d>()}},
});

const ModuleTable module_embeddings({
    {"Embedding",
     {layer(
         +[](int64_t rows, int64_t width, const std::optional<int64_t>& padding,
             const std::optional<double>& max_norm, double norm_type, bool scale, bool sparse) {
           return nn::Embedding(rows, width, {padding, max_norm, norm_type, scale, sparse});
         },
         "num_embeddings embedding_dim padding_idx=null max_norm=null norm_type=2.0 "
         "scale_grad_by_freq=false sparse=false !_weight=null !_freeze=false")}},
    {"EmbeddingBag",
     {layer(
         +[](int64_t rows, int64_t width, const std::optional<double>& max_norm, double norm_type,
             bool scale, BagMode mode, bool last, const std::optional<int64_t>& padding) {
           return nn::EmbeddingBag(rows, width, {mode, last, padding, max_norm, norm_type, scale});
         },
         "num_embeddings embedding_dim max_norm=null norm_type=2.0 scale_grad_by_freq=false "
         "mode=\"mean\" !sparse=false !_weight=null include_last_offset=false padding_idx=null",
         +[](nn::EmbeddingBag& m, X x, X offsets, X weights) { return m(x, offsets, weights); },
         "input offsets=null per_sample_weights=null")}},
});

template <class M>
ModuleSpelling batch_norm() {
  return layer(
      +[](int64_t features, double eps, const std::optional<double>& momentum, bool affine,
          bool track, bool bias) {
        return M(features, {eps, momentum, affine, track, bias});
      },
      "num_features eps=1e-5 momentum=0.1 affine=true track_running_stats=true bias=true");
}

template <class M>
ModuleSpelling instance_norm() {
  return layer(
      +[](int64_t features, double eps, double momentum, bool affine, bool track, bool bias) {
        return M(features, {eps, momentum, affine, track, bias});
      },
      "num_features eps=1e-5 momentum=0.1 affine=false track_running_stats=false bias=true");
}

const ModuleTable module_norms({
    {"BatchNorm1d", {batch_norm<nn::BatchNorm1d>()}},
    {"BatchNorm2d", {batch_norm<nn::BatchNorm2d>()}},
    {"BatchNorm3d", {batch_norm<nn::BatchNorm3d>()}},
    {"InstanceNorm1d", {instance_norm<nn::InstanceNorm1d>()}},
    {"InstanceNorm2d", {instance_norm<nn::InstanceNorm2d>()}},
    {"InstanceNorm3d", {instance_norm<nn::InstanceNorm3d>()}},
    {"LayerNorm",
     {layer(
         +[](S shape, double eps, bool affine, bool bias) {
           return nn::LayerNorm(shape, {eps, affine, bias});
         },
         "normalized_shape eps=1e-5 elementwise_affine=true bias=true")}},
    {"RMSNorm",
     {layer(
         +[](S shape, const std::optional<double>& eps, bool affine) {
           return nn::RMSNorm(shape, {eps, affine});
         },
         "normalized_shape eps=null elementwise_affine=true")}},
    {"GroupNorm",
     {layer(
         +[](int64_t groups, int64_t channels, double eps, bool affine, bool bias) {
           return nn::GroupNorm(groups, channels, {eps, affine, bias});
         },
         "num_groups num_channels eps=1e-5 affine=true bias=true")}},
    {"LocalResponseNorm",
     {layer(
         +[](int64_t size, double alpha, double beta, double k) {
           return nn::LocalResponseNorm(size, {alpha, beta, k});
         },
         "size alpha=1e-4 beta=0.75 k=1.0")}},
});

}  // namespace
}  // namespace wick::golden
