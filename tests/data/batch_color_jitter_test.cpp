#include "wick/data/batch_color_jitter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "wick/core/ops/elementwise.h"
#include "wick/data/image_ops.h"
#include "wick/tests/data/data_testing.h"
#include "wick/tests/harness/devices.h"

namespace wick::data {
namespace {

// Random colours, and grey, black and white among them: [n, channels, 5, 6], channels-last.
Tensor random_images(int64_t n, int64_t channels) {
  Tensor images = empty({n, channels, 5, 6}, kUint8, kCpu, MemoryFormat::kChannelsLast);
  PhiloxStream random(11, 0);
  uint8_t* pixel = images.data<uint8_t>();
  for (int64_t i = 0; i < n * 5 * 6; ++i, pixel += channels) {
    const uint8_t grey = i % 7 == 0 ? 0 : i % 7 == 1 ? 255 : 100;
    for (int64_t c = 0; c < channels; ++c) {
      pixel[c] = i % 7 < 3 ? grey : static_cast<uint8_t>(random.next());
    }
  }
  return images;
}

void expect_as_images(const ColorJitterOptions& options, int64_t channels, double tolerance) {
  constexpr int64_t kImages = 12;
  constexpr void (*kAdjust[])(Image&, double) = {adjust_brightness, adjust_contrast,
                                                 adjust_saturation, adjust_hue};
  const BatchColorJitter jitter(options, 3);
  const std::array<JitterRange, 4> ranges = jitter_ranges(options);
  const Tensor images = random_images(kImages, channels);
  const BatchColorJitter::Draw draw = jitter.draw(kImages, 1, 2);
  for (const Device device : wick::testing::devices()) {
    const Tensor unit = images.to(device).to(kFloat32) / 255.0;
    const Tensor got = jitter.apply(unit, 1, 2).cpu().permute({0, 2, 3, 1}).contiguous();
    const float* value = got.data<float>();
    for (int64_t i = 0; i < kImages; ++i) {
      const uint8_t* pixels = images.data<uint8_t>() + i * 30 * channels;
      Image image{5, 6, channels, Bytes(pixels, pixels + 30 * channels)};
      for (const size_t f : draw.order) {
        const float factor = draw.factors.data<float>()[static_cast<int64_t>(f) * kImages + i];
        if (ranges[f].changes) kAdjust[f](image, static_cast<double>(factor));
      }
      for (const uint8_t byte : image.pixels) {
        ASSERT_NEAR(255.0 * static_cast<double>(*value++), byte, tolerance);
      }
    }
  }
}

TEST(BatchColorJitter, DoesWhatColorJitterDoes) {
  // Bytes are rounded down after each step, and the next may double the difference.
  for (const int64_t channels : {1, 3}) {
    expect_as_images({.brightness = 0.5}, channels, 1.01);
    expect_as_images({.contrast = 0.5}, channels, 1.6);
    expect_as_images({.saturation = 0.5}, channels, 1.6);
    expect_as_images({.hue = 0.5}, channels, 1.01);
    expect_as_images({.brightness = 0.3, .contrast = 0.3, .saturation = 0.3}, channels, 6);
  }
}

TEST(BatchColorJitter, DrawsFollowFromSeedEpochAndBatch) {
  const ColorJitterOptions options{.brightness = 0.5, .hue = 0.1};
  std::set<float> seen;
  std::set<std::array<size_t, 4>> orders;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    const BatchColorJitter jitter(options, seed);
    for (int64_t epoch = 0; epoch < 4; ++epoch) {
      for (int64_t batch = 0; batch < 10; ++batch) {
        const BatchColorJitter::Draw draw = jitter.draw(2, epoch, batch);
        EXPECT_EQ(draw.factors.to_vector<float>(),
                  jitter.draw(2, epoch, batch).factors.to_vector<float>());
        for (const int64_t i : {0, 1}) {
          seen.insert(draw.factors.data<float>()[i]);
          EXPECT_GE(draw.factors.data<float>()[i], 0.5f);
          EXPECT_LE(draw.factors.data<float>()[i], 1.5f);
        }
        orders.insert(draw.order);
      }
    }
  }
  EXPECT_EQ(seen.size(), 240u);
  EXPECT_EQ(orders.size(), 24u);
}

TEST(BatchColorJitter, PartsOfABatchDrawTogetherWhatItDraws) {
  const ColorJitterOptions options{.brightness = 0.5, .hue = 0.2};
  const auto whole = BatchColorJitter(options, 3).draw(6, 1, 2);
  for (int64_t part = 0; part < 3; ++part) {
    const auto own = BatchColorJitter(options, 3, part).draw(2, 1, 2);
    EXPECT_EQ(own.order, whole.order);
    EXPECT_EQ(own.factors.to_vector<float>(),
              whole.factors.narrow(1, 2 * part, 2).to_vector<float>());
  }
}

TEST(BatchColorJitter, WrongArgumentsAreErrors) {
  expect_error([] { BatchColorJitter({.hue = 2}); }, {"color jitter", "hue"});
  expect_error(
      [] {
        BatchColorJitter({}).apply(zeros({1, 3, 2, 2}, kUint8), 0, 0);
      },
      {"batch color jitter", "uint8", "1 or 3"});
  expect_error([] { BatchColorJitter({}).apply(zeros({1, 2, 2, 2}), 0, 0); }, {"[1, 2, 2, 2]"});
}

}  // namespace
}  // namespace wick::data
