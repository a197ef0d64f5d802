// Activations and other modules without weights.
#include "wick/tests/golden/module.h"

namespace wick::golden {
namespace {

template <class M>
M made_plain() {
  return M();
}
template <class M>
ModuleSpelling plain() {
  return layer(made_plain<M>, "");
}
template <class M>
ModuleSpelling plain_or_inplace() {
  return layer(made_plain<M>, "!inplace=false");
}
template <class M>
ModuleSpelling of_number(const char* signature) {
  return layer(
      +[](double value) { return M(value); }, signature);
}
template <class M>
ModuleSpelling of_integer(const char* signature) {
  return layer(
      +[](int64_t value) { return M(value); }, signature);
}

const ModuleTable module_activations({
    {"ReLU", {plain_or_inplace<nn::ReLU>()}},
    {"ReLU6", {plain_or_inplace<nn::ReLU6>()}},
    {"GELU",
     {layer(
         +[](GeluApproximation a) { return nn::GELU(a); }, "approximate=\"none\"")}},
    {"SiLU", {plain_or_inplace<nn::SiLU>()}},
    {"Hardswish", {plain_or_inplace<nn::Hardswish>()}},
    {"Hardsigmoid", {plain_or_inplace<nn::Hardsigmoid>()}},
    {"Mish", {plain_or_inplace<nn::Mish>()}},
    {"Softsign", {plain<nn::Softsign>()}},
    {"Sigmoid", {plain<nn::Sigmoid>()}},
    {"Tanh", {plain<nn::Tanh>()}},
    {"Softplus",
     {layer(
         +[](double beta, double threshold) { return nn::Softplus(beta, threshold); },
         "beta=1.0 threshold=20.0")}},
    {"LeakyReLU", {of_number<nn::LeakyReLU>("negative_slope=0.01 !inplace=false")}},
    {"ELU", {of_number<nn::ELU>("alpha=1.0 !inplace=false")}},
    {"PReLU",
     {layer(
         +[](int64_t count, double init) { return nn::PReLU(count, init); },
         "num_parameters=1 init=0.25")}},
    {"GLU", {of_integer<nn::GLU>("dim=-1")}},
    {"Softmax", {of_integer<nn::Softmax>("dim")}},
    {"LogSoftmax", {of_integer<nn::LogSoftmax>("dim")}},
    {"Softmin", {of_integer<nn::Softmin>("dim")}},
    {"Softmax2d", {plain<nn::Softmax2d>()}},
    {"SELU", {plain_or_inplace<nn::SELU>()}},
    {"LogSigmoid", {plain<nn::LogSigmoid>()}},
    {"Tanhshrink", {plain<nn::Tanhshrink>()}},
    {"CELU", {of_number<nn::CELU>("alpha=1.0 !inplace=false")}},
    {"Hardtanh",
     {layer(
         +[](double low, double high) { return nn::Hardtanh(low, high); },
         "min_val=-1.0 max_val=1.0 !inplace=false")}},
    {"Hardshrink", {of_number<nn::Hardshrink>("lambd=0.5")}},
    {"Softshrink", {of_number<nn::Softshrink>("lambd=0.5")}},
    {"Threshold",
     {layer(
         +[](double bound, double value) { return nn::Threshold(bound, value); },
         "threshold value !inplace=false")}},
    {"RReLU",
     {layer(
         +[](double low, double high) { return nn::RReLU(low, high); },
         "lower=0.125 upper=0.3333333333333333 !inplace=false")}},
    {"Dropout", {of_number<nn::Dropout>("p=0.5 !inplace=false")}},
    {"Dropout1d", {of_number<nn::Dropout1d>("p=0.5 !inplace=false")}},
    {"Dropout2d", {of_number<nn::Dropout2d>("p=0.5 !inplace=false")}},
    {"Dropout3d", {of_number<nn::Dropout3d>("p=0.5 !inplace=false")}},
    {"AlphaDropout", {of_number<nn::AlphaDropout>("p=0.5 !inplace=false")}},
    {"FeatureAlphaDropout", {of_number<nn::FeatureAlphaDropout>("p=0.5 !inplace=false")}},
});

using S = const Shape&;

const ModuleTable module_shapes({
    {"Unfold",
     {layer(
         +[](S kernel, S dilation, S padding, S stride) {
           return nn::Unfold(kernel, {dilation, padding, stride});
         },
         "kernel_size dilation=1 padding=0 stride=1")}},
    {"Fold",
     {layer(
         +[](S size, S kernel, S dilation, S padding, S stride) {
           return nn::Fold(size, kernel, {dilation, padding, stride});
         },
         "output_size kernel_size dilation=1 padding=0 stride=1")}},
    {"Identity", {plain<nn::Identity>()}},
    {"Flatten",
     {layer(
         +[](int64_t first, int64_t last) { return nn::Flatten(first, last); },
         "start_dim=1 end_dim=-1")}},
    {"Unflatten",
     {layer(
         +[](int64_t axis, const Shape& sizes) { return nn::Unflatten(axis, sizes); },
         "dim unflattened_size")}},
    {"ChannelShuffle", {of_integer<nn::ChannelShuffle>("groups")}},
    {"PixelShuffle", {of_integer<nn::PixelShuffle>("upscale_factor")}},
    {"PixelUnshuffle", {of_integer<nn::PixelUnshuffle>("downscale_factor")}},
});

}  // namespace
}  // namespace wick::golden
