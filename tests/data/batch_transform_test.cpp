#include "wick/data/batch_transform.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "wick/core/ops/crop_images.h"
#include "wick/data/image_dataset.h"
#include "wick/data/image_ops.h"
#include "wick/data/prefetcher.h"
#include "wick/tests/data/data_testing.h"
#include "wick/tests/harness/devices.h"

namespace wick::data {
namespace {

// Images of random bytes: [n, 3, height, width], channels-last.
Tensor random_images(int64_t n, int64_t height, int64_t width) {
  Tensor images = empty({n, 3, height, width}, kUint8, kCpu, MemoryFormat::kChannelsLast);
  PhiloxStream random(11, 0);
  for (int64_t i = 0; i < images.numel(); ++i) {
    images.data<uint8_t>()[i] = static_cast<uint8_t>(random.next());
  }
  return images;
}

const Normalize kNormalize({0.4f, 0.5f, 0.6f}, {0.2f, 0.25f, 0.3f});
const BatchTransformOptions kOptions{.size = {8, 6},
                                     .padding = 2,
                                     .horizontal_flip = 0.5,
                                     .vertical_flip = 0.3,
                                     .erasing = {.p = 0.5, .value = {1, 2, 3}},
                                     .seed = 4};

TEST(BatchTransform, DoesWhatTheTransformsOfImagesDo) {
  const BatchTransform transform(kNormalize, kOptions);
  const Tensor images = random_images(40, 9, 7);
  const std::vector<int32_t> places = transform.placements(40, {9, 7}, 2, 5).to_vector<int32_t>();
  for (const Device device : wick::testing::devices()) {
    const Tensor result = transform.apply(images.to(device), 2, 5).cpu();
    ASSERT_EQ(result.shape(), (Shape{40, 3, 8, 6}));
    const float* got = result.permute({0, 2, 3, 1}).data<float>();
    for (int64_t i = 0; i < 40; ++i) {
      const int32_t* place = places.data() + i * kCropImagesNumbers;
      const uint8_t* pixels = images.data<uint8_t>() + i * 9 * 7 * 3;
      const Image image{9, 7, 3, Bytes(pixels, pixels + 9 * 7 * 3)};
      Image cut;
      crop(image, place[0], place[1], {8, 6}, cut);
      if (place[2] & 1) flip_horizontally(cut);
      if (place[2] & 2) flip_vertically(cut);
      erase(cut, place[3], place[4], {place[5], place[6]}, {1, 2, 3});
      std::vector<float> expected(cut.pixels.size());
      kNormalize.apply(cut, expected.data());
      for (size_t j = 0; j < expected.size(); ++j) ASSERT_NEAR(*got++, expected[j], 2e-6f);
    }
  }
}

TEST(BatchTransform, DrawsFollowFromSeedEpochAndBatch) {
  const auto draw = [](uint64_t seed, int64_t epoch, int64_t batch) {
    BatchTransformOptions options = kOptions;
    options.seed = seed;
    return BatchTransform(kNormalize, options)
        .placements(32, {9, 7}, epoch, batch)
        .to_vector<int32_t>();
  };
  std::set<std::vector<int32_t>> seen;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      for (int64_t batch = 0; batch < 3; ++batch) {
        seen.insert(draw(seed, epoch, batch));
        EXPECT_EQ(draw(seed, epoch, batch), draw(seed, epoch, batch));
      }
    }
  }
  EXPECT_EQ(seen.size(), 27u);
}

TEST(BatchTransform, PartsOfABatchDrawTogetherWhatItDraws) {
  BatchTransformOptions options = kOptions;
  const auto draw = [&](int64_t count) {
    return BatchTransform(kNormalize, options).placements(count, {9, 7}, 1, 2).to_vector<int32_t>();
  };
  const std::vector<int32_t> whole = draw(12);
  std::vector<int32_t> parts;
  for (options.part = 0; options.part < 3; ++options.part) {
    const std::vector<int32_t> own = draw(4);
    parts.insert(parts.end(), own.begin(), own.end());
  }
  EXPECT_EQ(parts, whole);
}

TEST(BatchTransform, ChancesAndPlacesAreEven) {
  const BatchTransform transform(kNormalize, kOptions);
  constexpr int64_t kCount = 5000;
  const auto numbers = transform.placements(kCount, {9, 7}, 0, 0).to_vector<int32_t>();
  double across = 0, down = 0, erased = 0;
  std::vector<int> tops(6), lefts(6);  // from -2 on
  for (int64_t i = 0; i < kCount; ++i) {
    const int32_t* place = numbers.data() + i * kCropImagesNumbers;
    ++tops.at(static_cast<size_t>(place[0] + 2));
    ++lefts.at(static_cast<size_t>(place[1] + 2));
    across += place[2] & 1;
    down += place[2] >> 1;
    erased += place[5] > 0 && place[6] > 0;
    EXPECT_LE(place[3] + place[5], 8);
    EXPECT_LE(place[4] + place[6], 6);
  }
  // Five standard deviations.
  EXPECT_NEAR(across / kCount, 0.5, 0.036);
  EXPECT_NEAR(down / kCount, 0.3, 0.033);
  EXPECT_GT(erased / kCount, 0.3);  // some are too wide, or of no pixels
  EXPECT_LT(erased / kCount, 0.536);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(tops[i], kCount / 6.0, 5 * std::sqrt(kCount / 6.0));
    EXPECT_NEAR(lefts[i], kCount / 6.0, 5 * std::sqrt(kCount / 6.0));
  }
}

TEST(BatchTransform, PreparesBatchesThatArePrefetched) {
  const BatchTransform transform(kNormalize, kOptions);
  auto set = std::make_shared<ImageSet>();
  set->height = 9, set->width = 7, set->channels = 3;
  const Tensor pixels = random_images(10, 9, 7);
  set->pixels.assign(pixels.data<uint8_t>(), pixels.data<uint8_t>() + pixels.numel());
  set->labels.resize(10);
  set->class_names = {"a"};
  const auto dataset = std::make_shared<ImageDataset>(set, Transforms(), std::nullopt);
  const DataLoaderOptions options{.batch_size = 4, .shuffle = true, .seed = 1};
  for (const Device device : wick::testing::devices()) {
    DataLoader loader(dataset, options);
    const auto prepare = [&](Batch batch, int64_t epoch, int64_t number) {
      batch.fields[0] = transform.apply(batch[0], epoch, number);
      return batch;
    };
    Prefetcher ahead(DataLoader(dataset, options), device, {.prepare = prepare});
    loader.seek(1, 1);
    ahead.seek(1, 1);
    for (const int64_t number : {1, 2}) {
      const Tensor expected = transform.apply((*loader.next())[0], 1, number);
      EXPECT_EQ((*ahead.next())[0].cpu().to_vector<float>(), expected.to_vector<float>());
    }
  }
}

TEST(BatchTransform, TakesTheMiddleToTestWith) {
  BatchTransformOptions options = kOptions;
  options.random = false;
  options.padding = 0;
  const Tensor images = random_images(2, 12, 10);
  const Tensor result = BatchTransform(kNormalize, options).apply(images, 0, 0);
  const double expected =
      (static_cast<double>(images.select(0, 1).select(0, 2).select(0, 2).select(0, 2).item()) /
           255 -
       0.6) /
      0.3;
  EXPECT_NEAR(result.select(0, 1).select(0, 2).select(0, 0).select(0, 0).item(), expected, 1e-5);
  const Tensor whole =
      BatchTransform(kNormalize, {.random = false, .dtype = kBFloat16}).apply(images, 0, 0);
  EXPECT_EQ(whole.shape(), images.shape());
  EXPECT_EQ(whole.dtype(), kBFloat16);
}

TEST(BatchTransform, WrongArgumentsAreErrors) {
  const auto make = [](const BatchTransformOptions& options) {
    return BatchTransform(kNormalize, options);
  };
  expect_error([&] { make({.padding = -1}); }, {"batch transform", "padding", "-1"});
  expect_error([&] { make({.vertical_flip = 2}); }, {"batch transform", "flip", "got 2"});
  expect_error([&] { make({.erasing = {.p = 3}}); }, {"erasing", "got 3"});
  expect_error([&] { make({.erasing = {.value = {1, 2}}}); }, {"got 2 values", "3 channels"});
  expect_error([&] { make({.erasing = {.random = true}}); }, {"not random"});
  expect_error([&] { make({.dtype = kUint8}); }, {"floating", "uint8"});
  expect_error(
      [&] {
        make({.size = {9, 9}}).apply(random_images(1, 8, 8), 0, 0);
      },
      {"too small", "got 8 x 8", "at least 9 x 9"});
  expect_error(
      [&] {
        make({}).apply(zeros({1, 1, 4, 4}, kUint8), 0, 0);
      },
      {"batch transform", "[1, 1, 4, 4]", "uint8 [N, 3, H, W]"});
}

}  // namespace
}  // namespace wick::data
