// Functions of torch.nn.functional that make_layers_cases.py calls: by PyTorch's names, with its
// arguments.
#include <map>

#include "wick/core/ops/conv.h"
#include "wick/core/ops/einsum.h"
#include "wick/core/ops/embedding_bag.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/interpolate.h"
#include "wick/core/ops/loss.h"
#include "wick/core/ops/norm.h"
#include "wick/core/ops/pool.h"
#include "wick/core/ops/view.h"
#include "wick/tests/golden/golden.h"

namespace wick::golden {
namespace {

Tensors interpolated_by_name(const Inputs& in, Args& a) {
  const std::map<std::string, Interpolation> modes = {
      {"nearest", Interpolation::kNearest},
      {"nearest-exact", Interpolation::kNearestExact},
      {"linear", Interpolation::kLinear},
      {"bilinear", Interpolation::kBilinear},
      {"trilinear", Interpolation::kTrilinear},
      {"bicubic", Interpolation::kBicubic},
      {"area", Interpolation::kArea}};
  const Interpolation mode = modes.at(a.text("mode"));
  const bool align = a.flag("align_corners", false), antialias = a.flag("antialias", false);
  if (a.has("size")) return {interpolate(in[0], a.shape("size"), mode, align, antialias)};
  const std::vector<double> factors = a.is_list("scale_factor")
                                          ? a.numbers("scale_factor", {})
                                          : std::vector<double>{a.number("scale_factor")};
  return {interpolate_by(in[0], factors, mode, align, a.flag("recompute_scale_factor", false),
                         antialias)};
}

using MaxPool = Tensor (*)(const Tensor&, const Shape&, const Shape&, const Shape&, const Shape&,
                           bool);
using MaxPoolIndices = Sorted (*)(const Tensor&, const Shape&, const Shape&, const Shape&,
                                  const Shape&, bool);

OpFunction max_pools(MaxPool pool, MaxPoolIndices with_indices) {
  return [=](const Inputs& in, Args& a) -> Tensors {
    const Shape kernel = a.shape("kernel_size"), stride = a.shape("stride", Shape{});
    const Shape padding = a.shape("padding", 0), dilation = a.shape("dilation", 1);
    const bool ceil = a.flag("ceil_mode", false);
    if (!a.flag("return_indices", false)) {
      return {pool(in[0], kernel, stride, padding, dilation, ceil)};
    }
    const Sorted result = with_indices(in[0], kernel, stride, padding, dilation, ceil);
    return {result.values, result.indices};
  };
}

OpFunction adaptive_max_pools(Tensor (*pool)(const Tensor&, const Shape&),
                              Sorted (*with_indices)(const Tensor&, const Shape&)) {
  return [=](const Inputs& in, Args& a) -> Tensors {
    const Shape size = a.shape("output_size");
    if (!a.flag("return_indices", false)) return {pool(in[0], size)};
    const Sorted result = with_indices(in[0], size);
    return {result.values, result.indices};
  };
}

OpFunction adaptive_avg_pools(Tensor (*pool)(const Tensor&, const Shape&)) {
  return
      [=](const Inputs& in, Args& a) -> Tensors { return {pool(in[0], a.shape("output_size"))}; };
}

Tensors avg_pools_1d(const Inputs& in, Args& a) {
  return {avg_pool1d(in[0], a.shape("kernel_size"), a.shape("stride", Shape{}),
                     a.shape("padding", 0), a.flag("ceil_mode", false),
                     a.flag("count_include_pad", true))};
}

using AvgPool = Tensor (*)(const Tensor&, const Shape&, const Shape&, const Shape&, bool, bool,
                           std::optional<int64_t>);

OpFunction avg_pools(AvgPool pool) {
  return [=](const Inputs& in, Args& a) -> Tensors {
    std::optional<int64_t> divisor;
    if (a.has("divisor_override")) divisor = a.integer("divisor_override");
    return {pool(in[0], a.shape("kernel_size"), a.shape("stride", Shape{}), a.shape("padding", 0),
                 a.flag("ceil_mode", false), a.flag("count_include_pad", true), divisor)};
  };
}

OpFunction lp_pools(Tensor (*pool)(const Tensor&, double, const Shape&, const Shape&, bool)) {
  return [=](const Inputs& in, Args& a) -> Tensors {
    return {pool(in[0], a.number("norm_type"), a.shape("kernel_size"), a.shape("stride", Shape{}),
                 a.flag("ceil_mode", false))};
  };
}

OpFunction max_unpools(Tensor (*unpool)(const Tensor&, const Tensor&, const Shape&, const Shape&,
                                        const Shape&, const Shape&)) {
  return [=](const Inputs& in, Args& a) -> Tensors {
    return {unpool(in[0], in[1], a.shape("kernel_size"), {}, 0, a.shape("output_size", Shape{}))};
  };
}

Tensors convolved_by_name(const Inputs& in, Args& a) {
  const Tensor &x = in[0], &w = in[1], b = in.optional(2);
  const Shape stride = a.shape("stride", 1), dilation = a.shape("dilation", 1);
  const int64_t groups = a.integer("groups", 1);
  if (!a.is_text("padding")) {
    return {conv3d(x, w, b, stride, a.shape("padding", 0), dilation, groups)};
  }
  WICK_CHECK(a.text("padding") == "same", "argument 'padding': unknown: got ", a.text("padding"));
  constexpr ConvPadding kSame = ConvPadding::kSame;
  if (w.rank() == 3) return {conv1d(x, w, b, stride[0], kSame, dilation[0], groups)};
  if (w.rank() == 4) return {conv2d(x, w, b, stride, kSame, dilation, groups)};
  return {conv3d(x, w, b, stride, kSame, dilation, groups)};
}

Tensors transposed_by_name(const Inputs& in, Args& a) {
  const Shape stride = a.shape("stride", 1), padding = a.shape("padding", 0);
  const Shape extra = a.shape("output_padding", 0), dilation = a.shape("dilation", 1);
  const int64_t groups = a.integer("groups", 1);
  const Tensor &x = in[0], &w = in[1], b = in.optional(2);
  if (w.rank() == 5) {
    return {conv_transpose3d(x, w, b, stride, padding, extra, groups, dilation)};
  }
  return {conv_transpose1d(x, w, b, stride[0], padding[0], extra[0], groups, dilation[0])};
}

Tensors ctc(const Inputs& in, Args& a) {
  const std::map<std::string, LossReduction> reductions = {
      {"none", LossReduction::kNone}, {"mean", LossReduction::kMean}, {"sum", LossReduction::kSum}};
  const CtcOptions options{a.integer("blank", 0), reductions.at(a.text("reduction", "mean")),
                           a.flag("zero_infinity", false)};
  return {
      ctc_loss(in[0], in[1], a.integers("input_lengths"), a.integers("target_lengths"), options)};
}

Tensors bags(const Inputs& in, Args& a) {
  const std::map<std::string, BagMode> modes = {
      {"sum", BagMode::kSum}, {"mean", BagMode::kMean}, {"max", BagMode::kMax}};
  EmbeddingBagOptions options;
  options.mode = modes.at(a.text("mode"));
  options.offsets = in.optional(2);
  options.include_last_offset = a.flag("include_last_offset", false);
  if (a.has("padding_idx")) options.padding_idx = a.integer("padding_idx");
  return {embedding_bag(in[1], in[0], options)};
}

Tensors looked_up(const Inputs& in, Args& a) {
  const Tensor rows = embedding(in[1], in[0]);
  if (!a.flag("scale_grad_by_freq", false)) return {rows};
  return {scale_grad_by_freq(rows, in[0], in[1].size(0))};
}

const Family layers_family(
    "layers",
    op_runner({{"interpolate", interpolated_by_name},
               {"max_pool1d", max_pools(max_pool1d, max_pool1d_with_indices)},
               {"max_pool2d", max_pools(max_pool2d, max_pool2d_with_indices)},
               {"max_pool3d", max_pools(max_pool3d, max_pool3d_with_indices)},
               {"adaptive_max_pool1d",
                adaptive_max_pools(adaptive_max_pool1d, adaptive_max_pool1d_with_indices)},
               {"adaptive_max_pool2d",
                adaptive_max_pools(adaptive_max_pool2d, adaptive_max_pool2d_with_indices)},
               {"adaptive_max_pool3d",
                adaptive_max_pools(adaptive_max_pool3d, adaptive_max_pool3d_with_indices)},
               {"avg_pool1d", avg_pools_1d},
               {"avg_pool2d", avg_pools(avg_pool2d)},
               {"avg_pool3d", avg_pools(avg_pool3d)},
               {"adaptive_avg_pool1d", adaptive_avg_pools(adaptive_avg_pool1d)},
               {"adaptive_avg_pool2d", adaptive_avg_pools(adaptive_avg_pool2d)},
               {"adaptive_avg_pool3d", adaptive_avg_pools(adaptive_avg_pool3d)},
               {"lp_pool1d", lp_pools(lp_pool1d)},
               {"lp_pool2d", lp_pools(lp_pool2d)},
               {"lp_pool3d", lp_pools(lp_pool3d)},
               {"max_unpool1d", max_unpools(max_unpool1d)},
               {"max_unpool2d", max_unpools(max_unpool2d)},
               {"max_unpool3d", max_unpools(max_unpool3d)},
               {"ctc_loss", ctc},
               {"embedding_bag", bags},
               {"embedding", looked_up},
               {"local_response_norm",
                [](const Inputs& in, Args& a) -> Tensors {
                  return {local_response_norm(in[0], a.integer("size"), a.number("alpha", 1e-4),
                                              a.number("beta", 0.75), a.number("k", 1))};
                }},
               {"bilinear",
                [](const Inputs& in, Args&) -> Tensors {
                  return {bilinear(in[0], in[1], in[2], in.optional(3))};
                }},
               {"channel_shuffle",
                [](const Inputs& in, Args& a) -> Tensors {
                  return {channel_shuffle(in[0], a.integer("groups"))};
                }},
               {"conv1d", convolved_by_name},
               {"conv2d", convolved_by_name},
               {"conv3d", convolved_by_name},
               {"conv_transpose1d", transposed_by_name},
               {"conv_transpose3d", transposed_by_name}}));

}  // namespace
}  // namespace wick::golden
