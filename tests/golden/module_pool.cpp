// Poolings, padding and resizing.
#include "wick/tests/golden/module.h"

namespace wick::golden {
namespace {

using X = const Tensor&;
using S = const Shape&;

template <class M>
std::vector<ModuleSpelling> max_pool_layers() {
  const auto make = +[](S kernel, S stride, S padding, S dilation, bool ceil) {
    return M(kernel, {stride, padding, dilation, ceil});
  };
  const std::string before = "kernel_size stride=null padding=0 dilation=1 !return_indices=";
  return {layer(make, (before + "false ceil_mode=false").c_str()),
          layer(
              make, (before + "true ceil_mode=false").c_str(),
              +[](M& m, X x) { return m.forward_with_indices(x); }, "input")};
}

template <class M>
ModuleSpelling avg_pool_layer(const char* signature) {
  return layer(
      +[](S kernel, S stride, S padding, bool ceil, bool count,
          const std::optional<int64_t>& divisor) {
        return M(kernel, {stride, padding, ceil, count, divisor});
      },
      signature);
}
const char* const kAvgPool =
    "kernel_size stride=null padding=0 ceil_mode=false count_include_pad=true "
    "divisor_override=null";

template <class M>
ModuleSpelling lp_pool_layer() {
  return layer(
      +[](double norm, S kernel, S stride, bool ceil) {
        return M(norm, kernel, {stride, ceil});
      },
      "norm_type kernel_size stride=null ceil_mode=false");
}

template <class M>
ModuleSpelling adaptive_avg_pool_layer() {
  return layer(
      +[](S size) { return M(size); }, "output_size");
}

template <class M>
std::vector<ModuleSpelling> adaptive_max_pool_layers() {
  const auto make = +[](S size) { return M(size); };
  return {layer(make, "output_size !return_indices=false"),
          layer(
              make, "output_size !return_indices=true",
              +[](M& m, X x) { return m.forward_with_indices(x); }, "input")};
}

template <class M>
ModuleSpelling max_unpool_layer() {
  return layer(
      +[](S kernel, S stride, S padding) {
        return M(kernel, {stride, padding});
      },
      "kernel_size stride=null padding=0",
      +[](M& m, X x, X indices, S size) { return m(x, indices, size); },
      "input indices output_size=null");
}

const ModuleTable module_poolings({
    {"MaxPool1d", max_pool_layers<nn::MaxPool1d>()},
    {"MaxPool2d", max_pool_layers<nn::MaxPool2d>()},
    {"MaxPool3d", max_pool_layers<nn::MaxPool3d>()},
    {"AvgPool1d", {avg_pool_layer<nn::AvgPool1d>(kAvgPool)}},
    {"AvgPool2d", {avg_pool_layer<nn::AvgPool2d>(kAvgPool)}},
    {"AvgPool3d", {avg_pool_layer<nn::AvgPool3d>(kAvgPool)}},
    {"LPPool1d", {lp_pool_layer<nn::LPPool1d>()}},
    {"LPPool2d", {lp_pool_layer<nn::LPPool2d>()}},
    {"LPPool3d", {lp_pool_layer<nn::LPPool3d>()}},
    {"AdaptiveAvgPool1d", {adaptive_avg_pool_layer<nn::AdaptiveAvgPool1d>()}},
    {"AdaptiveAvgPool2d", {adaptive_avg_pool_layer<nn::AdaptiveAvgPool2d>()}},
    {"AdaptiveAvgPool3d", {adaptive_avg_pool_layer<nn::AdaptiveAvgPool3d>()}},
    {"AdaptiveMaxPool1d", adaptive_max_pool_layers<nn::AdaptiveMaxPool1d>()},
    {"AdaptiveMaxPool2d", adaptive_max_pool_layers<nn::AdaptiveMaxPool2d>()},
    {"AdaptiveMaxPool3d", adaptive_max_pool_layers<nn::AdaptiveMaxPool3d>()},
    {"MaxUnpool1d", {max_unpool_layer<nn::MaxUnpool1d>()}},
    {"MaxUnpool2d", {max_unpool_layer<nn::MaxUnpool2d>()}},
    {"MaxUnpool3d", {max_unpool_layer<nn::MaxUnpool3d>()}},
});

template <class M>
std::vector<ModuleSpelling> pad_layer() {
  return {layer(
      +[](S padding) { return M(padding); }, "padding")};
}
template <class M>
std::vector<ModuleSpelling> constant_pad_layer() {
  return {layer(
      +[](S padding, double value) { return M(padding, value); }, "padding value")};
}

using Factors = std::optional<std::vector<double>>;

nn::Upsample upsampled(S size, const Factors& factors, Interpolation mode, bool align,
                       bool recompute) {
  return nn::Upsample({size, factors.value_or(std::vector<double>()), mode, align, recompute});
}

const ModuleTable module_paddings({
    {"ConstantPad1d", constant_pad_layer<nn::ConstantPad1d>()},
    {"ConstantPad2d", constant_pad_layer<nn::ConstantPad2d>()},
    {"ConstantPad3d", constant_pad_layer<nn::ConstantPad3d>()},
    {"ZeroPad1d", pad_layer<nn::ZeroPad1d>()},
    {"ZeroPad2d", pad_layer<nn::ZeroPad2d>()},
    {"ZeroPad3d", pad_layer<nn::ZeroPad3d>()},
    {"ReflectionPad1d", pad_layer<nn::ReflectionPad1d>()},
    {"ReflectionPad2d", pad_layer<nn::ReflectionPad2d>()},
    {"ReflectionPad3d", pad_layer<nn::ReflectionPad3d>()},
    {"ReplicationPad1d", pad_layer<nn::ReplicationPad1d>()},
    {"ReplicationPad2d", pad_layer<nn::ReplicationPad2d>()},
    {"ReplicationPad3d", pad_layer<nn::ReplicationPad3d>()},
    {"CircularPad1d", pad_layer<nn::CircularPad1d>()},
    {"CircularPad2d", pad_layer<nn::CircularPad2d>()},
    {"CircularPad3d", pad_layer<nn::CircularPad3d>()},
    {"Upsample",
     {layer(upsampled,
            "size=null scale_factor=null mode=\"nearest\" align_corners=null "
            "recompute_scale_factor=null"),
      layer(
          +[](S size, double factor, Interpolation mode, bool align, bool recompute) {
            return upsampled(size, std::vector<double>{factor}, mode, align, recompute);
          },
          "size=null scale_factor=null mode=\"nearest\" align_corners=null "
          "recompute_scale_factor=null")}},
});

}  // namespace
}  // namespace wick::golden
