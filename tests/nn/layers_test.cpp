#include <gtest/gtest.h>

#include <cmath>

#include "wick/core/core.h"
#include "wick/nn/nn.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/host_array.h"

// Each layer gives what the op it stands for gives; wrong inputs and options are errors.

namespace wick::testing {
namespace {

using namespace nn;

void expect_same(const Tensor& got, const Tensor& want) {
  EXPECT_TRUE(bit_equal(got.detach(), want.detach())) << got << want;
}

TEST(Layers, Linear) {
  Linear with(3, 4), without(3, 4, {.bias = false});
  const Tensor x = randn({2, 5, 3});
  expect_same(with(x), linear(x, with.weight, with.bias));
  expect_same(without(x), linear(x, without.weight));
  expect_same(with.forward_relu(x), relu(with(x)));
  expect_same(without.forward_gelu_tanh(x), gelu(without(x), GeluApproximation::kTanh));
  EXPECT_FALSE(without.bias.defined());
  EXPECT_EQ(without.parameters().size(), 1u);
  EXPECT_EQ(without.description(), "Linear(3, 4, bias=false)");
  EXPECT_NE(error_of([&] { with(randn({2, 4})); }), "no error");
  EXPECT_EQ(error_of([] { Linear(0, 3); }), "Linear: features must be 1 or more: got 0 and 3");
}

TEST(Layers, Embedding) {
  Embedding layer(7, 3);
  const Tensor indices = tensor<int64_t>({0, 6, 2, 2}, Shape{2, 2});
  const Tensor y = layer(indices);
  EXPECT_EQ(y.shape(), (Shape{2, 2, 3}));
  expect_same(y[1][0], layer.weight[2]);
  EXPECT_NE(error_of([&] { layer(tensor<int64_t>({7})); }), "no error");
  EXPECT_EQ(error_of([] { Embedding(3, 0); }), "Embedding: sizes must be 1 or more: got 3 and 0");
}

TEST(Layers, FlattenAndIdentity) {
  const Tensor x = randn({2, 3, 4, 5});
  EXPECT_EQ(Flatten()(x).shape(), (Shape{2, 60}));
  EXPECT_EQ(Flatten(1, 2)(x).shape(), (Shape{2, 12, 5}));
  EXPECT_TRUE(Identity()(x).is_same(x));
}

TEST(Layers, Conv2d) {
  const Tensor x = randn({2, 4, 9, 8});
  Conv2d plain(4, 6, 3);
  expect_same(plain(x), conv2d(x, plain.weight, plain.bias));
  EXPECT_TRUE(plain.weight.is_contiguous(MemoryFormat::kChannelsLast));
  Conv2d all(4, 6, {3, 2},
             {.stride = {2, 1}, .padding = {1, 2}, .dilation = {2, 1}, .groups = 2, .bias = false});
  EXPECT_EQ(all.weight.shape(), (Shape{6, 2, 3, 2}));
  expect_same(all(x), conv2d(x, all.weight, {}, {2, 1}, {1, 2}, {2, 1}, 2));
  EXPECT_EQ(all.description(),
            "Conv2d(4, 6, kernel=3x2, stride=2x1, padding=1x2, dilation=2x1, groups=2)");
  EXPECT_NE(error_of([&] { plain(randn({2, 3, 9, 8})); }), "no error");
  EXPECT_NE(error_of([&] { plain(randn({4, 9})); }), "no error");
  EXPECT_EQ(error_of([] { Conv2d(4, 6, 3, {.groups = 4}); }),
            "Conv2d: groups must divide both numbers of channels: got 4 for 4 and 6");
  EXPECT_EQ(error_of([] { Conv2d(0, 6, 3); }), "Conv2d: channels must be 1 or more: got 0 and 6");
}

TEST(Layers, Conv1d) {
  const Tensor x = randn({2, 4, 19});
  Conv1d layer(4, 6, 3, {.stride = 2, .padding = 2, .dilation = 2, .groups = 2});
  expect_same(layer(x), conv1d(x, layer.weight, layer.bias, 2, 2, 2, 2));
}

TEST(Layers, ConvTranspose2d) {
  const Tensor x = randn({2, 4, 5, 6});
  ConvTranspose2d layer(4, 3, 3, {.stride = 2, .padding = 1, .output_padding = 1});
  const Tensor y = layer(x);
  EXPECT_EQ(y.shape(), (Shape{2, 3, 10, 12}));
  expect_same(y, conv_transpose2d(x, layer.weight, layer.bias, {2, 2}, {1, 1}, {1, 1}));
  ConvTranspose2d all(4, 6, {3, 2},
                      {.stride = 2, .output_padding = 1, .dilation = {2, 3}, .groups = 2});
  EXPECT_EQ(all.weight.shape(), (Shape{4, 3, 3, 2}));
  expect_same(all(x), conv_transpose2d(x, all.weight, all.bias, {2, 2}, {0, 0}, {1, 1}, 2, {2, 3}));
  EXPECT_EQ(all.description(),
            "ConvTranspose2d(4, 6, kernel=3x2, stride=2, output_padding=1, "
            "dilation=2x3, groups=2)");
  EXPECT_EQ(error_of([] { ConvTranspose2d(4, 6, 3, {.groups = 4}); }),
            "ConvTranspose2d: groups must divide both numbers of channels: got 4 for 4 and 6");
}

TEST(Layers, Pools) {
  const Tensor x = randn({2, 3, 9, 8});
  expect_same(MaxPool2d(2)(x), max_pool2d(x, {2, 2}, {2, 2}));
  expect_same(MaxPool2d(3, {.stride = {2, 1}, .padding = 1})(x),
              max_pool2d(x, {3, 3}, {2, 1}, {1, 1}));
  expect_same(AvgPool2d({3, 2}, {.padding = {1, 0}})(x), avg_pool2d(x, {3, 2}, {3, 2}, {1, 0}));
  MaxPool2d largest(3, {.stride = 2, .padding = 1, .dilation = {2, 1}, .ceil_mode = true});
  expect_same(largest(x), max_pool2d(x, {3, 3}, {2, 2}, {1, 1}, {2, 1}, true));
  EXPECT_EQ(largest.description(), "MaxPool2d(3, stride=2, padding=1, dilation=2x1, ceil_mode)");
  AvgPool2d mean({3, 2},
                 {.stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false});
  expect_same(mean(x), avg_pool2d(x, {3, 2}, {2, 2}, {1, 1}, true, false));
  EXPECT_EQ(mean.description(),
            "AvgPool2d(3x2, stride=2, padding=1, count_include_pad=false, ceil_mode)");
  expect_same(AdaptiveAvgPool2d()(x), adaptive_avg_pool2d(x, {1, 1}));
  expect_same(AdaptiveAvgPool2d({4, 3})(x), adaptive_avg_pool2d(x, {4, 3}));
}

TEST(Layers, PoolsOfOtherAxes) {
  const Tensor signal = randn({2, 3, 9}), image = randn({2, 3, 9, 8}),
               volume = randn({2, 3, 5, 4, 6});
  expect_same(MaxPool1d(3, {.stride = 2})(signal), max_pool1d(signal, 3, 2));
  expect_same(MaxPool3d({2, 1, 3}, {.padding = {1, 0, 1}})(volume),
              max_pool3d(volume, {2, 1, 3}, {}, {1, 0, 1}));
  expect_same(AvgPool1d(3, {.padding = 1})(signal), avg_pool1d(signal, 3, {}, 1));
  AvgPool3d mean(2, {.ceil_mode = true, .divisor_override = 3});
  expect_same(mean(volume), avg_pool3d(volume, 2, {}, 0, true, true, 3));
  EXPECT_EQ(mean.description(), "AvgPool3d(2, divisor_override=3, ceil_mode)");
  expect_same(LPPool2d(2, 3)(image), lp_pool2d(image, 2, 3));
  expect_same(AdaptiveAvgPool1d(4)(signal), adaptive_avg_pool1d(signal, 4));
  expect_same(AdaptiveMaxPool3d({2, 3, 2})(volume), adaptive_max_pool3d(volume, {2, 3, 2}));
  AdaptiveMaxPool2d adaptive({3, 2});
  expect_same(adaptive.forward_with_indices(image).indices,
              adaptive_max_pool2d_with_indices(image, {3, 2}).indices);
  MaxPool2d pool(3, {.stride = 2, .padding = 1});
  const Sorted found = pool.forward_with_indices(image);
  expect_same(found.values, pool(image));
  MaxUnpool2d unpool(3, {.stride = 2, .padding = 1});
  expect_same(unpool(found.values, found.indices, {9, 8}),
              max_unpool2d(found.values, found.indices, 3, 2, 1, {9, 8}));
  EXPECT_EQ(unpool(found.values, found.indices, {9, 8}).shape(), image.shape());
  EXPECT_EQ(error_of([] { AvgPool1d(2, {.divisor_override = 3}); }),
            "AvgPool1d: divisor_override is for images and volumes");
}

TEST(Layers, ConvolutionsOfOtherAxes) {
  const Tensor signal = randn({2, 4, 9}), volume = randn({2, 4, 5, 4, 6});
  Conv3d plain(4, 6, 3);
  expect_same(plain(volume), conv3d(volume, plain.weight, plain.bias));
  Conv3d all(
      4, 6, {3, 2, 1},
      {.stride = {2, 1, 1}, .padding = {1, 0, 2}, .dilation = 2, .groups = 2, .bias = false});
  EXPECT_EQ(all.weight.shape(), (Shape{6, 2, 3, 2, 1}));
  expect_same(all(volume), conv3d(volume, all.weight, {}, {2, 1, 1}, {1, 0, 2}, 2, 2));
  EXPECT_EQ(all.description(),
            "Conv3d(4, 6, kernel=3x2x1, stride=2x1x1, padding=1x0x2, dilation=2, groups=2)");
  ConvTranspose1d line(4, 6, 3, {.stride = 2, .output_padding = 1, .groups = 2});
  expect_same(line(signal), conv_transpose1d(signal, line.weight, line.bias, 2, 0, 1, 2));
  ConvTranspose3d back(4, 3, 2, {.stride = {1, 2, 1}, .padding = 1});
  expect_same(back(volume), conv_transpose3d(volume, back.weight, back.bias, {1, 2, 1}, 1));
  EXPECT_EQ(back.description(), "ConvTranspose3d(4, 3, kernel=2x2x2, stride=1x2x1, padding=1)");
}

TEST(Layers, ConvolutionsPadInEachMode) {
  const Tensor x = randn({2, 4, 6, 7});
  Conv2d same(4, 4, {2, 3}, {.padding = ConvPadding::kSame, .dilation = 3});
  expect_same(same(x), conv2d(x, same.weight, same.bias, 1, ConvPadding::kSame, 3));
  EXPECT_EQ(same.description(), "Conv2d(4, 4, kernel=2x3, padding=same, dilation=3)");
  Conv2d reflected(4, 4, 3, {.padding = {1, 2}, .padding_mode = PadMode::kReflect});
  expect_same(reflected(x),
              conv2d(pad(x, {2, 2, 1, 1}, 0, PadMode::kReflect), reflected.weight, reflected.bias));
  EXPECT_EQ(reflected.description(), "Conv2d(4, 4, kernel=3x3, padding=1x2, padding_mode=reflect)");
  Conv1d circular(4, 4, 4, {.padding = ConvPadding::kSame, .padding_mode = PadMode::kCircular});
  const Tensor signal = randn({2, 4, 9});
  expect_same(circular(signal),
              conv1d(pad(signal, {1, 2}, 0, PadMode::kCircular), circular.weight, circular.bias));
  EXPECT_EQ(error_of([] { Conv2d(4, 4, 3, {.stride = 2, .padding = ConvPadding::kSame}); }),
            "Conv2d: padding that keeps the size needs a stride of 1: got [2, 2]");
  EXPECT_EQ(error_of([] {
              Conv2d(4, 4, {3, 3, 3});
            }),
            "Conv2d: kernel_size needs 1 or 2 entries: got [3, 3, 3]");
}

TEST(Layers, PadsAndUpsampling) {
  const Tensor x = randn({2, 3, 5, 6}), volume = randn({1, 2, 3, 4, 5});
  expect_same(ZeroPad2d(2)(x), pad(x, {2, 2, 2, 2}));
  expect_same(ZeroPad2d({1, 2, 3, -1})(x), pad(x, {1, 2, 3, -1}));
  expect_same(ConstantPad1d({1, 0}, 2.5)(x), pad(x, {1, 0}, 2.5));
  expect_same(ReflectionPad2d(2)(x), pad(x, {2, 2, 2, 2}, 0, PadMode::kReflect));
  expect_same(ReplicationPad3d(1)(volume), pad(volume, {1, 1, 1, 1, 1, 1}, 0, PadMode::kReplicate));
  expect_same(CircularPad1d({2, 1})(x), pad(x, {2, 1}, 0, PadMode::kCircular));
  EXPECT_EQ(ConstantPad2d(1, 2.5).description(), "ConstantPad2d([1, 1, 1, 1], value=2.5)");
  EXPECT_EQ(error_of([] {
              ZeroPad2d({1, 2});
            }),
            "ZeroPad2d: padding needs 1 or 4 entries: got [1, 2]");
  expect_same(Upsample({.scale_factor = {2}})(x), interpolate(x, 2));
  Upsample cubic({.size = {7, 4}, .mode = Interpolation::kBicubic, .align_corners = true});
  expect_same(cubic(x), interpolate(x, {7, 4}, Interpolation::kBicubic, true));
  EXPECT_EQ(cubic.description(), "Upsample(size=7x4, align_corners)");
  Upsample factors(
      {.scale_factor = {1.5, 2}, .mode = Interpolation::kBilinear, .recompute_scale_factor = true});
  expect_same(factors(x), interpolate_by(x, {1.5, 2}, Interpolation::kBilinear, false, true));
  EXPECT_EQ(factors.description(), "Upsample(scale_factor=1.5x2)");
  EXPECT_EQ(error_of([] { Upsample({}); }), "Upsample: give either size or scale_factor");
}

TEST(Layers, Activations) {
  const Tensor x = randn({7, 9});
  expect_same(ReLU()(x), relu(x));
  expect_same(GELU()(x), gelu(x));
  expect_same(GELU(GeluApproximation::kTanh)(x), gelu(x, GeluApproximation::kTanh));
  expect_same(ReLU6()(x * 9.0), relu6(x * 9.0));
  expect_same(Hardsigmoid()(x), hardsigmoid(x));
  expect_same(Mish()(x), mish(x));
  expect_same(Softsign()(x), softsign(x));
  expect_same(GLU(0)(x.narrow(0, 0, 6)), glu(x.narrow(0, 0, 6), 0));
  PReLU slopes(9, 0.1);
  expect_same(slopes(x), prelu(x, full({9}, 0.1)));
  EXPECT_EQ(slopes.parameters().size(), 1u);
  expect_same(PReLU()(x), leaky_relu(x, 0.25));
  expect_same(SiLU()(x), silu(x));
  expect_same(Hardswish()(x), hardswish(x));
  expect_same(Sigmoid()(x), sigmoid(x));
  expect_same(Tanh()(x), tanh(x));
  expect_same(Softplus()(x), softplus(x));
  expect_same(LeakyReLU(0.2)(x), leaky_relu(x, 0.2));
  expect_same(ELU(0.7)(x), elu(x, 0.7));
  expect_same(nn::Softmax(0)(x), softmax(x, 0));
}

TEST(Layers, Norms) {
  const Tensor x = randn({3, 4, 6});
  nn::LayerNorm layer({4, 6}, {.eps = 1e-3});
  layer.weight.detach().uniform_(0.5, 2);
  layer.bias.detach().uniform_();
  expect_same(layer(x), layer_norm(x, {4, 6}, layer.weight, layer.bias, 1e-3));
  RMSNorm rms({6}, 1e-4);
  rms.weight.detach().uniform_(0.5, 2);
  expect_same(rms(x), rms_norm(x, {6}, rms.weight, 1e-4));
  nn::GroupNorm group(2, 4, 1e-3);
  group.weight.detach().uniform_(0.5, 2);
  group.bias.detach().uniform_();
  expect_same(group(x), group_norm(x, 2, group.weight, group.bias, 1e-3));
  expect_same(group.forward_relu(x), relu(group(x)));
  const Tensor residual = randn({3, 4, 6});
  expect_same(group.forward_add_relu(x, residual), relu(group(x) + residual));
  expect_same(layer.forward_add(x, residual).sum, x + residual);
  expect_same(layer.forward_add(x, residual).y, layer(x + residual));
  expect_same(rms.forward_add(x, residual).y, rms(x + residual));
  EXPECT_NE(error_of([&] { layer(randn({3, 6, 4})); }), "no error");
  EXPECT_EQ(error_of([] { nn::GroupNorm(3, 4); }),
            "GroupNorm: groups must divide the channels: got 3 for 4");
}

TEST(Layers, NormsWithoutBiasOrAtAll) {
  const Tensor x = randn({3, 4, 6});
  nn::LayerNorm no_bias({6}, {.bias = false});
  EXPECT_EQ(no_bias.parameters().size(), 1u);
  EXPECT_EQ(no_bias.state_dict().size(), 1u);
  expect_same(no_bias(x), layer_norm(x, {6}, no_bias.weight, {}));
  nn::LayerNorm plain({6}, {.elementwise_affine = false});
  EXPECT_TRUE(plain.parameters().empty());
  expect_same(plain(x), layer_norm(x, {6}));
}

// Against means and variances in double.
TEST(Layers, InstanceNorms) {
  InstanceNorm2d layer(3, {.eps = 1e-3, .affine = true});
  layer.weight.detach().uniform_(0.5, 2);
  layer.bias.detach().uniform_();
  const Tensor x = randn({2, 3, 4, 5});
  const std::vector<double> got = read(layer(x)).values, in = read(x).values;
  const std::vector<double> w = read(layer.weight).values, b = read(layer.bias).values;
  for (size_t first = 0; first < in.size(); first += 20) {
    double mean = 0, variance = 0;
    for (size_t i = first; i < first + 20; ++i) mean += in[i] / 20;
    for (size_t i = first; i < first + 20; ++i) variance += (in[i] - mean) * (in[i] - mean) / 20;
    const size_t c = first / 20 % 3;
    for (size_t i = first; i < first + 20; ++i) {
      EXPECT_NEAR(got[i], (in[i] - mean) / std::sqrt(variance + 1e-3) * w[c] + b[c], 1e-5);
    }
  }
  const Tensor y = randn({2, 3, 20});
  EXPECT_TRUE(InstanceNorm1d(3).parameters().empty());
  expect_same(InstanceNorm1d(3)(y), group_norm(y, 3));
  expect_same(layer.eval()(x), layer.train()(x));
  EXPECT_EQ(error_of([&] {
              layer(randn({2, 3, 1, 1}));
            }),
            "InstanceNorm2d: a channel of a sample has one value, whose variance is 0: got shape "
            "[2, 3, 1, 1]");
  EXPECT_EQ(error_of([&] { layer(y); }),
            "InstanceNorm2d: wrong shape: got [2, 3, 20], expected 4 axes, or 3 without N, and 3 "
            "channels");
}

TEST(Layers, InstanceNormsOfOneSample) {
  const Tensor x = randn({1, 3, 4, 5});
  expect_same(InstanceNorm2d(3)(x[0]), InstanceNorm2d(3)(x)[0]);
  const Tensor line = randn({1, 3, 7}), volume = randn({1, 3, 2, 3, 4});
  expect_same(InstanceNorm1d(3)(line[0]), InstanceNorm1d(3)(line)[0]);
  expect_same(InstanceNorm3d(3)(volume[0]), InstanceNorm3d(3)(volume)[0]);
}

// Figures of PyTorch 2.15.
TEST(Layers, InstanceNormsKeepRunningStatistics) {
  InstanceNorm2d layer(3, {.momentum = 0.3, .track_running_stats = true});
  EXPECT_EQ(layer.state_dict().size(), 3u);
  const Tensor x = (sin(arange(0, 24, 1, kFloat32)) * 3).reshape({2, 3, 2, 2});
  const Tensor y = layer(x);
  expect_same(y, group_norm(x, 3));
  const auto near = [](const Tensor& got, const std::vector<float>& wanted) {
    EXPECT_TRUE(allclose(got, tensor(wanted), 1e-5, 1e-6)) << got;
  };
  near(layer.running_mean, {0.3843424916267395f, -0.3587137460708618f, 0.08459940552711487f});
  near(layer.running_var, {1.5764248371124268f, 1.731372356414795f, 2.720101833343506f});
  EXPECT_EQ(layer.num_batches_tracked.item(), 0);
  layer.eval();
  near(layer(x).reshape({24}).narrow(0, 0, 4),
       {-0.30611202120780945f, 1.7044726610183716f, 1.866534948348999f, 0.031075725331902504f});
  near(layer(x[0]).reshape({12}).narrow(0, 0, 1), {-0.30611202120780945f});
  near(layer.running_mean, {0.3843424916267395f, -0.3587137460708618f, 0.08459940552711487f});
  layer(ones({2, 3, 1, 1}));  // whose own variances are 0
}

TEST(Layers, PixelShuffles) {
  const Tensor x = randn({2, 8, 3, 4});
  EXPECT_EQ(PixelShuffle(2)(x).shape(), (Shape{2, 2, 6, 8}));
  expect_same(PixelUnshuffle(2)(PixelShuffle(2)(x)), x);
  const Tensor image = randn({8, 3, 4}), videos = randn({2, 3, 8, 3, 4});
  expect_same(PixelShuffle(2)(image), PixelShuffle(2)(image.unsqueeze(0))[0]);
  expect_same(PixelUnshuffle(2)(PixelShuffle(2)(image)), image);
  expect_same(PixelShuffle(2)(videos)[1], PixelShuffle(2)(videos[1]));
  expect_same(PixelUnshuffle(2)(PixelShuffle(2)(videos)), videos);
}

TEST(Layers, EmbeddingLeavesItsPaddingAlone) {
  Embedding table(5, 3, {.padding_idx = -4});
  EXPECT_TRUE(bit_equal(table.weight.detach()[1], zeros({3})));
  EXPECT_FALSE(bit_equal(table.weight.detach()[0], zeros({3})));
  table(tensor<int64_t>({1, 2, 1})).sum().backward();
  EXPECT_TRUE(bit_equal(table.weight.grad()[1], zeros({3})));
  EXPECT_TRUE(bit_equal(table.weight.grad()[2], ones({3})));
  EXPECT_EQ(table.description(), "Embedding(5, 3, padding_idx=-4)");
  EXPECT_EQ(error_of([] { Embedding(5, 3, {.padding_idx = 5}); }),
            "Embedding: padding_idx: got 5, expected one in [-5, 4]");
}

TEST(Dropout, ZeroesAndScalesInTraining) {
  manual_seed(2);
  nn::Dropout layer(0.3);
  const int64_t n = 100000;
  const std::vector<double> y = read(layer(full({n}, 2.0, kFloat32))).values;
  int64_t zeros = 0;
  for (const double v : y) {
    if (v == 0)
      ++zeros;
    else
      ASSERT_FLOAT_EQ(static_cast<float>(v), 2 / 0.7f);
  }
  EXPECT_NEAR(static_cast<double>(zeros) / n, 0.3, 5 * std::sqrt(0.3 * 0.7 / n));
  EXPECT_FALSE(bit_equal(layer(ones({100})), layer(ones({100}))));
}

TEST(Dropout, PassesGradientsWhereItPassesValues) {
  nn::Dropout layer(0.5);
  const Tensor x = ones({1000}).set_requires_grad();
  const Tensor y = layer(x);
  y.sum().backward();
  EXPECT_TRUE(bit_equal(x.grad(), y.detach()));
}

TEST(Dropout, DoesNothingInEvaluation) {
  nn::Dropout layer(0.3);
  layer.eval();
  const Tensor x = randn({100});
  expect_same(layer(x), x);
  EXPECT_EQ(error_of([] { nn::Dropout(1.5); }), "Dropout: p: got 1.5, expected a value in [0, 1]");
  EXPECT_EQ(error_of([] { nn::Dropout(NAN); }), "Dropout: p: got nan, expected a value in [0, 1]");
}

TEST(Dropout, OfOneDropsAllAndOfZeroNothing) {
  const Tensor x = randn({50});
  expect_same(nn::Dropout(1)(x), zeros({50}));
  expect_same(nn::Dropout(0)(x), x);
}

}  // namespace
}  // namespace wick::testing
