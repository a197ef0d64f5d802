#include "wick/data/batch_mix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/loss.h"
#include "wick/tests/data/data_testing.h"
#include "wick/tests/harness/devices.h"

namespace wick::data {
namespace {

// Images of which each holds its own number plus 0.1 times the channel.
Tensor numbered_images(int64_t n, int64_t channels, int64_t height, int64_t width) {
  Tensor images = empty({n, channels, height, width}, kFloat32, kCpu, MemoryFormat::kChannelsLast);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t c = 0; c < channels; ++c) {
      images.select(0, i).select(0, c).fill_(static_cast<double>(i) + 0.1 * static_cast<double>(c));
    }
  }
  return images;
}

TEST(BatchMix, BetaHasItsMeanAndVariance) {
  for (const double alpha : {0.001, 0.2, 1.0, 5.0}) {
    double sum = 0, squares = 0;
    constexpr int kDraws = 20000;
    for (uint64_t i = 0; i < kDraws; ++i) {
      PhiloxStream random(7, i);
      const double x = draw_beta(random, alpha);
      ASSERT_TRUE(x >= 0 && x <= 1);
      sum += x, squares += (x - 0.5) * (x - 0.5);
    }
    EXPECT_NEAR(sum / kDraws, 0.5, 0.02) << alpha;
    EXPECT_NEAR(squares / kDraws, 1 / (4 * (2 * alpha + 1)), 0.006) << alpha;
  }
}

TEST(BatchMix, DrawsFollowFromSeedEpochAndBatch) {
  const BatchMix mix(10, {.mixup = 0.4, .cutmix = 1, .seed = 5});
  std::set<double> shares;
  int cuts = 0;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    for (int64_t batch = 0; batch < 50; ++batch) {
      const BatchMixDraw draw = mix.draw(epoch, batch, {1000, 1000});
      EXPECT_EQ(draw.share, mix.draw(epoch, batch, {1000, 1000}).share);
      shares.insert(draw.share);
      cuts += draw.cut;
    }
  }
  EXPECT_GT(shares.size(), 970u);  // of boxes and shares that lie close, some agree by chance
  EXPECT_NEAR(cuts, 500, 80);
  EXPECT_NE(mix.draw(0, 1, {32, 32}).share, mix.draw(1, 0, {32, 32}).share);
  EXPECT_NE(BatchMix(10, {.mixup = 1, .seed = 1}).draw(0, 0, {32, 32}).share,
            BatchMix(10, {.mixup = 1, .seed = 2}).draw(0, 0, {32, 32}).share);
}

TEST(BatchMix, MixupAddsShares) {
  for (const Device device : wick::testing::devices()) {
    const BatchMix mix(4, {.mixup = 1, .seed = 3});
    const Tensor images = numbered_images(3, 2, 2, 5).to(device);
    const Tensor labels = tensor<int64_t>({2, 0, 3}).to(device);
    const double share = mix.draw(4, 9, {2, 5}).share;
    const BatchMix::Mixed mixed = mix.mix(images, labels, 4, 9);
    const Tensor cpu = mixed.images.cpu(), targets = mixed.targets.cpu();
    for (int64_t i = 0; i < 3; ++i) {
      const int64_t other = (i + 2) % 3;
      const double expected =
          share * static_cast<double>(i) + (1 - share) * static_cast<double>(other) + 0.1;
      EXPECT_NEAR(cpu.select(0, i).select(0, 1).select(0, 1).select(0, 4).item(), expected, 1e-6);
    }
    EXPECT_EQ(targets.shape(), (Shape{3, 4}));
    EXPECT_NEAR(targets.select(0, 0).select(0, 2).item(), share, 1e-6);
    EXPECT_NEAR(targets.select(0, 0).select(0, 3).item(), 1 - share, 1e-6);
    EXPECT_NEAR(targets.sum().item(), 3, 1e-5);
    EXPECT_EQ(images.cpu().select(0, 1).select(0, 0).mean().item(), 1);  // as it was
  }
}

TEST(BatchMix, CutmixPastesARectangle) {
  const BatchMix mix(4, {.cutmix = 1, .seed = 3});
  const Tensor images = numbered_images(3, 1, 6, 8);
  const Tensor labels = tensor<int64_t>({0, 1, 2});
  for (int64_t batch = 0; batch < 200; ++batch) {
    const BatchMixDraw draw = mix.draw(0, batch, {6, 8});
    ASSERT_TRUE(draw.cut);
    const BatchMix::Mixed mixed = mix.mix(images, labels, 0, batch);
    const std::vector<float> pixels = mixed.images.select(0, 1).contiguous().to_vector<float>();
    int64_t pasted = 0;
    for (int64_t i = 0; i < 48; ++i) {
      const int64_t y = i / 8 - draw.top, x = i % 8 - draw.left;
      const bool inside = y >= 0 && y < draw.size.height && x >= 0 && x < draw.size.width;
      ASSERT_EQ(pixels[static_cast<size_t>(i)], inside ? 0.0f : 1.0f);
      pasted += inside;
    }
    EXPECT_NEAR(draw.share, 1 - static_cast<double>(pasted) / 48, 1e-9);
    EXPECT_NEAR(mixed.targets.select(0, 1).select(0, 0).item(), 1 - draw.share, 1e-6);
    EXPECT_NEAR(mixed.targets.select(0, 1).select(0, 1).item(), draw.share, 1e-6);
  }
  // Squares of side s, s^2 even in [0, 1], around any point: of each side, s - s^2 / 4 is inside on
  // average, so that 1 - (1/2 - 1/5 + 1/48) is left.
  double shares = 0;
  for (int64_t batch = 0; batch < 2000; ++batch) shares += mix.draw(1, batch, {1000, 1000}).share;
  EXPECT_NEAR(shares / 2000, 0.679, 0.033);
}

TEST(BatchMix, CrossEntropyTakesItsTargets) {
  const BatchMix mix(3, {.mixup = 1, .seed = 8});
  const Tensor labels = tensor<int64_t>({2, 0});
  const double share = mix.draw(0, 0, {1, 1}).share;
  const Tensor targets = mix.mix(numbered_images(2, 1, 1, 1), labels, 0, 0).targets;
  const Tensor logits = tensor<float>({0.3f, -1.0f, 2.0f, 0.1f, 0.7f, -0.4f}, Shape{2, 3});
  const double expected = share * cross_entropy(logits, labels).item() +
                          (1 - share) * cross_entropy(logits, tensor<int64_t>({0, 2})).item();
  EXPECT_NEAR(cross_entropy(logits, targets).item(), expected, 1e-6);
}

TEST(BatchMix, OffLeavesImagesAlone) {
  const BatchMix mix(3, {});
  EXPECT_FALSE(mix.enabled());
  const Tensor images = numbered_images(2, 1, 2, 2);
  const BatchMix::Mixed mixed = mix.mix(images, tensor<int64_t>({1, 1}), 0, 0);
  EXPECT_EQ(mixed.images.to_vector<float>(), images.to_vector<float>());
  EXPECT_EQ(mixed.targets.to_vector<float>(), (std::vector<float>{0, 1, 0, 0, 1, 0}));
}

TEST(BatchMix, WrongArgumentsAreErrors) {
  expect_error([] { BatchMix(3, {.mixup = -1}); }, {"mixup", "alpha", "-1"});
  expect_error([] { BatchMix(3, {.cutmix = 1e9}); }, {"cutmix", "alpha"});
  expect_error([] { BatchMix(0, {.cutmix = 1}); }, {"classes", "got 0"});
  const BatchMix mix(3, {.mixup = 1});
  const Tensor labels = tensor<int64_t>({1, 1});
  expect_error([&] { mix.mix(zeros({2, 3}), labels, 0, 0); }, {"batch mix", "[2, 3]"});
  expect_error([&] { mix.mix(zeros({3, 1, 2, 2}), labels, 0, 0); }, {"labels", "[2]", "int64 [3]"});
}

}  // namespace
}  // namespace wick::data
