#include <gtest/gtest.h>

#include <cmath>

#include "wick/core/core.h"
#include "wick/nn/nn.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/host_array.h"

// Layers that stand for one function give what it gives.

namespace wick::testing {
namespace {

using namespace nn;

void same(const Tensor& got, const Tensor& want) {
  EXPECT_TRUE(bit_equal(got.detach(), want.detach())) << got << want;
}

TEST(MoreLayers, Activations) {
  const Tensor x = randn({4, 6, 5});
  same(SELU()(x), selu(x));
  same(CELU(0.5)(x), celu(x, 0.5));
  same(LogSigmoid()(x), logsigmoid(x));
  same(Tanhshrink()(x), tanhshrink(x));
  same(Hardtanh(-0.5, 0.7)(x), hardtanh(x, -0.5, 0.7));
  same(Hardshrink(0.3)(x), hardshrink(x, 0.3));
  same(Softshrink(0.3)(x), softshrink(x, 0.3));
  same(Threshold(0.1, 20)(x), threshold(x, 0.1, 20));
  same(Softmin(1)(x), softmax(-x, 1));
  same(Softplus(0.5, 0.3)(x), softplus(x, 0.5, 0.3));
  same(Softmax2d()(x), softmax(x, 0));
  RReLU slopes(0.1, 0.3);
  Generator first(3), second(3);
  same(RReLU(0.1, 0.3, &first)(x), rrelu(x, 0.1, 0.3, true, &second));
  same(slopes.eval()(x), rrelu(x, 0.1, 0.3));
}

TEST(MoreLayers, Shapes) {
  const Tensor x = randn({2, 6, 4, 5});
  same(Unflatten(1, {2, -1})(x), x.reshape({2, 2, 3, 4, 5}));
  same(ChannelShuffle(2)(x), channel_shuffle(x, 2));
  same(channel_shuffle(arange(6).reshape({1, 6, 1}), 2).reshape({6}),
       tensor<int64_t>({0, 3, 1, 4, 2, 5}));
  const UnfoldOptions windows{.dilation = {2}, .padding = {1}, .stride = {1, 2}};
  same(Unfold({2, 3}, windows)(x), unfold(x, {2, 3}, windows));
  const Tensor columns = unfold(x, {2, 3}, windows);
  same(Fold({4, 5}, {2, 3}, windows)(columns), fold(columns, {4, 5}, {2, 3}, windows));
  EXPECT_EQ(error_of([&] { channel_shuffle(x, 4); }),
            "channel_shuffle: groups do not divide the channels: got shape [2, 6, 4, 5], groups 4, "
            "expected [N, C, ...]");
}

TEST(MoreLayers, NormsOfVolumes) {
  const Tensor x = randn({2, 3, 4, 2, 5});
  BatchNorm3d batch(3);
  same(batch(x), batch_norm(x, ones({3}), zeros({3}), {}, {}, {}));
  EXPECT_EQ(batch.state_dict().size(), 5u);
  same(InstanceNorm3d(3)(x), group_norm(x, 3));
  same(LocalResponseNorm(3, {.alpha = 0.1, .beta = 0.5, .k = 2})(x),
       local_response_norm(x, 3, 0.1, 0.5, 2));
  const Tensor images = randn({2, 4, 3, 5});
  GroupNorm unscaled(2, 4, {.eps = 0.1, .affine = false}), unbiased(2, 4, {.bias = false});
  same(unscaled(images), group_norm(images, 2, {}, {}, 0.1));
  same(unbiased(images), group_norm(images, 2, ones({4})));
  EXPECT_TRUE(unscaled.state_dict().empty());
  EXPECT_EQ(unscaled.description(), "GroupNorm(2, 4)");
  EXPECT_EQ(unbiased.state_dict().size(), 1u);
  RMSNorm plain({3, 5}, {.eps = 0.1, .elementwise_affine = false});
  same(plain(images), rms_norm(images, {3, 5}, {}, 0.1));
  EXPECT_TRUE(plain.state_dict().empty());
  EXPECT_EQ(InstanceNorm2d(4, {.affine = true, .bias = false}).state_dict().size(), 1u);
  EXPECT_EQ(error_of([&] { batch(x[0]); }),
            "BatchNorm3d: wrong number of axes: got shape [3, 4, 2, 5], expected 5");
}

TEST(MoreLayers, TransposedConvolutionsOfASize) {
  const Tensor x = randn({2, 3, 4, 5});
  ConvTranspose2d layer(3, 2, 3, {.stride = {2, 3}, .padding = 1});
  for (const int64_t extra : {0, 1}) {
    const Tensor y = layer(x, {7 + extra, 13 + extra});
    same(y, conv_transpose2d(x, layer.weight, layer.bias, {2, 3}, 1, {extra, extra}));
    EXPECT_EQ(y.shape(), (Shape{2, 2, 7 + extra, 13 + extra}));
  }
  EXPECT_EQ(error_of([&] {
              layer(x, {9, 13});
            }),
            "ConvTranspose2d: output_size: got 9 for axis 0, expected 7 to 8");
  EXPECT_EQ(error_of([&] { layer(x, {8}); }),
            "ConvTranspose2d: output_size has the wrong number of axes: got [8], expected 2");
}

TEST(MoreLayers, TransformersDecodeWhatTheyEncode) {
  const TransformerLayerOptions layer{.dim_feedforward = 16, .dropout = 0};
  Transformer net(8, 2, {.num_encoder_layers = 1, .num_decoder_layers = 2, .layer = layer});
  TransformerEncoder encoder(8, 2, 1, layer, true);
  TransformerDecoder decoder(8, 2, 2, layer, true);
  TensorMap of_encoder, of_decoder;
  for (const auto& [name, tensor] : net.state_dict()) {
    (name.starts_with("encoder.") ? of_encoder : of_decoder)[name.substr(8)] = tensor;
  }
  encoder.load_state_dict(of_encoder);
  decoder.load_state_dict(of_decoder);
  const Tensor src = randn({5, 2, 8}), tgt = randn({4, 2, 8});
  const Tensor padding = tensor<int64_t>({0, 0, 0, 0, 0, 1, 0, 0, 0, 0}, Shape{2, 5}).to(kBool);
  const Tensor y = net.forward(
      src, tgt,
      {.src_key_padding_mask = padding, .memory_key_padding_mask = padding, .tgt_is_causal = true});
  const Tensor memory = encoder.forward(src, {}, padding);
  const Tensor expected =
      decoder.forward(tgt, memory, {.memory_key_padding_mask = padding, .tgt_is_causal = true});
  EXPECT_TRUE(bit_equal(y.detach(), expected.detach()));
  // Matrices start within the bound of xavier_uniform_.
  const Tensor hidden = of_encoder.at("layers.0.linear1.weight");
  EXPECT_LE(hidden.abs().max().item(), 0.5);
  EXPECT_GT(hidden.abs().max().item(), 0.4);  // the default's bound is 0.354
}

TEST(MoreLayers, LossesAndDistances) {
  const Tensor x = randn({4, 6}), y = randn({4, 6}), z = randn({4, 6}), p = rand({4, 6});
  const Tensor signs = where(gt(randn({4}), 0), ones({4}), -ones({4}));
  const Tensor each = where(gt(y, 0), ones({4, 6}), -ones({4, 6}));
  same(PairwiseDistance(1, 1e-3, true)(x, y), pairwise_distance(x, y, 1, 1e-3, true));
  same(CosineSimilarity()(x, y), cosine_similarity(x, y, 1, 1e-8));
  same(PoissonNLLLoss(false, true)(p, p * 3), poisson_nll_loss(p, p * 3, false, true));
  same(GaussianNLLLoss(true)(x, y, p), gaussian_nll_loss(x, y, p, true));
  same(MarginRankingLoss(0.5)(x, y, each), margin_ranking_loss(x, y, each, 0.5));
  same(HingeEmbeddingLoss(0.5)(x, each), hinge_embedding_loss(x, each, 0.5));
  same(CosineEmbeddingLoss(0.2)(x, y, signs), cosine_embedding_loss(x, y, signs, 0.2));
  same(TripletMarginLoss(0.5, 1, 1e-5, true)(x, y, z),
       triplet_margin_loss(x, y, z, 0.5, 1, 1e-5, true));
  same(SoftMarginLoss()(x, each), soft_margin_loss(x, each));
  MultiLabelSoftMarginLoss weighted(rand({6}), LossReduction::kSum);
  same(weighted(x, p),
       multilabel_soft_margin_loss(x, p, weighted.state_dict().at("weight"), LossReduction::kSum));
  const Tensor classes = tensor<int64_t>({0, 3, 5, 2});
  same(MultiMarginLoss(2, 0.5)(x, classes), multi_margin_loss(x, classes, 2, 0.5));
  const Tensor labels = tensor<int64_t>({0, 1, -1, 0, 2, -1}, Shape{2, 3});
  same(MultiLabelMarginLoss()(x.narrow(0, 0, 2).narrow(1, 0, 3), labels),
       multilabel_margin_loss(x.narrow(0, 0, 2).narrow(1, 0, 3), labels));
}

TEST(MoreLayers, Ctc) {
  const Tensor x = log_softmax(randn({9, 2, 5}), 2);
  const Tensor targets = tensor<int64_t>({1, 2, 2, 3}, Shape{2, 2});
  const std::vector<int64_t> steps{9, 7}, labels{2, 1};
  CTCLoss loss({.reduction = LossReduction::kSum});
  const Tensor want = ctc_loss(x, targets, steps, labels, {.reduction = LossReduction::kSum});
  same(loss(x, targets, steps, labels), want);
  same(loss(x, targets, tensor(steps), tensor(labels)), want);
}

TEST(MoreLayers, Bilinear) {
  nn::Bilinear layer(3, 4, 5), plain(3, 4, 5, {.bias = false});
  const Tensor x = randn({2, 7, 3}), y = randn({2, 7, 4});
  EXPECT_TRUE(allclose(plain(x, y), einsum("abi,oij,abj->abo", {x, plain.weight, y}), 1e-4, 1e-5));
  EXPECT_TRUE(allclose(layer(x, y), bilinear(x, y, layer.weight) + layer.bias, 1e-4, 1e-5));
  EXPECT_EQ(layer.state_dict().at("weight").shape(), (Shape{5, 3, 4}));
  EXPECT_LT(layer.weight.detach().abs().amax().item(), 1 / std::sqrt(3.0));
  EXPECT_EQ(error_of([&] { layer(x, x); }),
            "bilinear: shapes do not fit: got x1 [2, 7, 3], x2 [2, 7, 3], weight [5, 3, 4], "
            "expected [..., I], [..., J] and [O, I, J]");
}

TEST(MoreLayers, DropoutsOfChannels) {
  manual_seed(2);
  const Tensor signal = ones({8, 16, 3}), volume = ones({8, 16, 2, 3, 2});
  for (const Tensor& y : {Dropout1d(0.5)(signal).flatten(2), Dropout3d(0.5)(volume).flatten(2)}) {
    EXPECT_TRUE(equal(y.amax({2}), y.amin({2})));  // a channel stays or goes
    EXPECT_EQ(y.amax().item(), 2);
    EXPECT_EQ(y.amin().item(), 0);
  }
  EXPECT_EQ(Dropout1d(0.5)(signal[0]).shape(), (Shape{16, 3}));
  same(Dropout3d(0.5).eval()(volume), volume);
  EXPECT_EQ(error_of([&] { Dropout1d(0.5)(volume); }),
            "dropout1d: x needs 3 axes or 2: got shape [8, 16, 2, 3, 2]");
  EXPECT_EQ(error_of([] { Dropout3d(-1); }), "Dropout3d: p: got -1, expected a value in [0, 1]");
}

TEST(MoreLayers, AlphaDropoutKeepsMeanAndVariance) {
  manual_seed(3);
  const Tensor x = randn({1000, 200});
  const Tensor y = AlphaDropout(0.3)(x);
  EXPECT_NEAR(y.mean().item(), 0, 0.02);
  EXPECT_NEAR(y.var().item(), 1, 0.02);
  // Elements that were kept are x, scaled and moved.
  const double least = -1.7580993408473766, scale = 1 / std::sqrt(0.7 * (1 + 0.3 * least * least));
  const Tensor kept = isclose(y, (x - 0.3 * least) * scale, 1e-4, 1e-5);
  EXPECT_NEAR(kept.to(kFloat32).mean().item(), 0.7, 0.01);
  EXPECT_TRUE(allclose(where(kept, full({}, (least - 0.3 * least) * scale), y),
                       full({1000, 200}, (least - 0.3 * least) * scale)));
  const Tensor channels = FeatureAlphaDropout(0.5)(ones({8, 16, 4}));
  EXPECT_TRUE(equal(channels.amax({2}), channels.amin({2})));
  EXPECT_NE(channels.amax().item(), channels.amin().item());
  same(AlphaDropout(0.3).eval()(x), x);
  same(AlphaDropout(1)(x), x * 0);
  const Tensor leaf = randn({100}).set_requires_grad();
  alpha_dropout(leaf, 0.5).sum().backward();
  EXPECT_GT(leaf.grad().amax().item(), 0);
  EXPECT_EQ(leaf.grad().amin().item(), 0);
}

TEST(MoreLayers, LocalResponseNormIsOfItsNeighbours) {
  const Tensor x = randn({2, 5, 3});
  const Tensor got = local_response_norm(x, 4, 0.4, 0.5, 2);
  for (int64_t c = 0; c < 5; ++c) {
    const int64_t begin = std::max(c - 2, int64_t{0}), end = std::min(c + 2, int64_t{5});
    const Tensor sum = x.narrow(1, begin, end - begin).square().sum({1});
    EXPECT_TRUE(allclose(got.select(1, c), x.select(1, c) / (sum * 0.1 + 2).sqrt(), 1e-5, 1e-6));
  }
}

TEST(MoreLayers, EmbeddingsWithOptions) {
  const Tensor indices = tensor<int64_t>({0, 2, 2, 2}, Shape{2, 2});
  nn::Embedding table(4, 3, {.max_norm = 0.5, .norm_type = 1, .scale_grad_by_freq = true});
  const Tensor before = table.weight.detach().clone();
  const Tensor y = table(indices);
  EXPECT_LT(y.detach().abs().sum({-1}).amax().item(), 0.5 + 1e-5);
  same(y[1][0], table.weight[2]);
  same(table.weight.detach()[1], before[1]);
  y.sum().backward();
  EXPECT_TRUE(allclose(table.weight.grad().select(1, 0), tensor<float>({1, 0, 1, 0})));
  EmbeddingBag bag(4, 3, {.mode = BagMode::kSum, .padding_idx = 1, .max_norm = 2});
  EXPECT_EQ(bag.description(), "EmbeddingBag(4, 3, mode=sum)");
  same(bag.weight.detach()[1], zeros({3}));
  const Tensor weights = rand({4});
  const wick::EmbeddingBagOptions options{BagMode::kSum, tensor<int64_t>({0, 1}), weights, false,
                                          1};
  const Tensor got = bag(indices.reshape({4}), options.offsets, weights);
  same(got, embedding_bag(bag.weight, indices.reshape({4}), options));
  EXPECT_LT(bag.weight.detach().norm(2, {1})[2].item(), 2 + 1e-5);
  EXPECT_EQ(bag(indices).shape(), (Shape{2, 3}));
  EmbeddingBag by_frequency(4, 3, {.mode = BagMode::kSum, .scale_grad_by_freq = true});
  by_frequency(indices).sum().backward();
  EXPECT_TRUE(allclose(by_frequency.weight.grad().select(1, 0), tensor<float>({1, 0, 1, 0})));
  EmbeddingBag largest(4, 3, {.mode = BagMode::kMax, .scale_grad_by_freq = true});
  EXPECT_EQ(error_of([&] { largest(indices); }),
            "embedding_bag: scale_grad_by_freq is for sums and means: got mode max");
}

}  // namespace
}  // namespace wick::testing
