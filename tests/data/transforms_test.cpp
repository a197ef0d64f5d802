#include "wick/data/transforms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "wick/data/image_dataset.h"
#include "wick/tests/data/data_testing.h"

namespace wick::data {
namespace {

// Pixel (y, x) is 10 y + x + 1, in every channel plus 100 times its number.
Image numbered(int64_t height, int64_t width, int64_t channels = 1) {
  Image image{height, width, channels, {}};
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < channels; ++c) {
        image.pixels.push_back(static_cast<uint8_t>(10 * y + x + 1 + 100 * c));
      }
    }
  }
  return image;
}

Bytes apply(const Transform& transform, Image image, uint64_t seed) {
  const ImageSize expected = transform.output_size({image.height, image.width});
  PhiloxStream random(seed, 0);
  transform.apply(image, random);
  EXPECT_EQ((ImageSize{image.height, image.width}), expected);
  EXPECT_EQ(image.pixels.size(), static_cast<size_t>(image.height * image.width * image.channels));
  return image.pixels;
}

std::string text(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

TEST(Transforms, CropTakesWindowsAndPutsBlackAround) {
  Image out;
  crop(numbered(3, 4), 1, 2, {2, 2}, out);
  EXPECT_EQ(out.pixels, (Bytes{13, 14, 23, 24}));
  crop(numbered(2, 2), -1, -1, {4, 4}, out);
  EXPECT_EQ(out.pixels, (Bytes{0, 0, 0, 0, 0, 1, 2, 0, 0, 11, 12, 0, 0, 0, 0, 0}));
  crop(numbered(2, 2, 2), 1, 1, {2, 2}, out);
  EXPECT_EQ(out.pixels, (Bytes{12, 112, 0, 0, 0, 0, 0, 0}));
  crop(numbered(2, 2), 5, -7, {1, 3}, out);
  EXPECT_EQ(out.pixels, (Bytes{0, 0, 0}));
}

TEST(Transforms, RandomCropReachesEveryPlace) {
  std::set<std::string> seen;
  const RandomCrop transform({2, 2}, 1);
  for (uint64_t seed = 0; seed < 400; ++seed)
    seen.insert(text(apply(transform, numbered(2, 3), seed)));
  EXPECT_EQ(seen.size(), 3u * 4u);
  EXPECT_TRUE(seen.count(text({0, 0, 0, 1})));
  EXPECT_TRUE(seen.count(text({13, 0, 0, 0})));
  expect_error(
      [] {
        apply(RandomCrop({5, 4}, 1), numbered(2, 3), 0);
      },
      {"too small", "got 2 x 3", "at least 3 x 2"});
}

TEST(Transforms, CropContinuesImagesByTheirBorder) {
  Image out;
  crop(numbered(2, 3), -1, -2, {3, 6}, out, {.mode = PadMode::kReplicate});
  EXPECT_EQ(out.pixels, (Bytes{1, 1, 1, 2, 3, 3, 1, 1, 1, 2, 3, 3, 11, 11, 11, 12, 13, 13}));
  crop(numbered(2, 3), -1, -2, {3, 6}, out, {.mode = PadMode::kReflect});
  EXPECT_EQ(out.pixels, (Bytes{13, 12, 11, 12, 13, 12, 3, 2, 1, 2, 3, 2, 13, 12, 11, 12, 13, 12}));
  crop(numbered(2, 3), -1, -2, {3, 6}, out, {.mode = PadMode::kCircular});
  EXPECT_EQ(out.pixels, (Bytes{12, 13, 11, 12, 13, 11, 2, 3, 1, 2, 3, 1, 12, 13, 11, 12, 13, 11}));
  crop(numbered(1, 2), 0, -5, {2, 12}, out, {.mode = PadMode::kReflect});  // there and back again
  EXPECT_EQ(text(out.pixels), text({2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1,    //
                                    2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1}));
  crop(numbered(1, 1, 2), -1, 0, {2, 2}, out, {.fill = 7});
  EXPECT_EQ(out.pixels, (Bytes{7, 7, 7, 7, 1, 101, 7, 7}));
}

TEST(Transforms, RandomCropPadsWhereItMust) {
  std::set<std::string> seen;
  const RandomCrop transform({1, 4}, {.pad_if_needed = true, .border = {.fill = 9}});
  for (uint64_t seed = 0; seed < 200; ++seed)
    seen.insert(text(apply(transform, numbered(1, 2), seed)));
  EXPECT_EQ(seen,
            (std::set<std::string>{text({9, 9, 1, 2}), text({9, 1, 2, 9}), text({1, 2, 9, 9})}));
  EXPECT_EQ(
      apply(RandomCrop({3, 3}, {.pad_if_needed = true, .border = {.mode = PadMode::kReplicate}}),
            numbered(1, 1), 0),
      Bytes(9, 1));
}

TEST(Transforms, FlipsSwapRowsOrColumns) {
  EXPECT_EQ(apply(RandomVerticalFlip(1), numbered(3, 2), 0), (Bytes{21, 22, 11, 12, 1, 2}));
  EXPECT_EQ(apply(RandomHorizontalFlip(1), numbered(2, 2, 3), 0),
            (Bytes{2, 102, 202, 1, 101, 201, 12, 112, 212, 11, 111, 211}));
  for (int64_t width = 1; width < 20; ++width) {
    for (int64_t channels = 1; channels <= 4; ++channels) {
      const Image image = numbered(3, width, channels);
      const Bytes flipped = apply(RandomHorizontalFlip(1), image, 0);
      for (int64_t i = 0; i < 3 * width * channels; ++i) {
        const int64_t x = i / channels % width, other = i + (width - 1 - 2 * x) * channels;
        ASSERT_EQ(flipped[static_cast<size_t>(i)], image.pixels[static_cast<size_t>(other)]);
      }
    }
  }
}

TEST(Transforms, FlipSwapsSidesHalfTheTime) {
  const Image image = numbered(2, 3, 2);
  const Bytes flipped = {3, 103, 2, 102, 1, 101, 13, 113, 12, 112, 11, 111};
  int flips = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const Bytes result = apply(RandomHorizontalFlip(), image, seed);
    EXPECT_TRUE(result == flipped || result == image.pixels);
    flips += result == flipped;
  }
  EXPECT_NEAR(flips, 200, 40);
  EXPECT_EQ(apply(RandomHorizontalFlip(1.0), image, 1), flipped);
  EXPECT_EQ(apply(RandomHorizontalFlip(0.0), image, 1), image.pixels);
}

TEST(Transforms, CenterCropCutsAndPads) {
  EXPECT_EQ(apply(CenterCrop({1, 2}), numbered(3, 4), 0), (Bytes{12, 13}));
  EXPECT_EQ(apply(CenterCrop({3, 3}), numbered(1, 1), 0), (Bytes{0, 0, 0, 0, 1, 0, 0, 0, 0}));
}

// Made by Pillow 9.4.0: Image.resize((width, height), BILINEAR) of pixels (37 y + 91 x) % 256.
TEST(Transforms, ResizeIsPillowsToTheBit) {
  Image image{5, 7, 1, {}};
  for (int y = 0; y < 5; ++y) {
    for (int x = 0; x < 7; ++x)
      image.pixels.push_back(static_cast<uint8_t>((37 * y + 91 * x) % 256));
  }
  Image out;
  resize(image, 0, 0, {5, 7}, {3, 4}, out);
  EXPECT_EQ(out.pixels, (Bytes{64, 134, 117, 124, 112, 88, 135, 97, 167, 116, 106, 124}));
  resize(image, 0, 0, {5, 7}, {6, 9}, out);
  EXPECT_EQ(out.pixels, (Bytes{0,   61,  131, 145, 17,  88,  159, 144, 34,  28,  89,  159, 173, 45,
                               116, 187, 172, 62,  59,  120, 124, 88,  76,  147, 134, 103, 93,  89,
                               150, 107, 35,  106, 177, 105, 62,  123, 120, 181, 138, 66,  137, 159,
                               108, 93,  154, 148, 209, 166, 94,  165, 37,  51,  121, 182}));
  resize(image, 1, 2, {3, 4}, {2, 2}, out);
  EXPECT_EQ(out.pixels, (Bytes{111, 144, 88, 121}));
  resize(image, 0, 0, {5, 7}, {5, 7}, out);
  EXPECT_EQ(out.pixels, image.pixels);
  expect_error([&] { resize(image, 3, 0, {3, 7}, {2, 2}, out); }, {"outside the image"});
}

// Pillow's algorithm, a pixel at a time.
Bytes resized_slowly(const Image& image, ImageSize size) {
  const auto along = [](const std::vector<int>& line, int64_t length) {
    const double scale = static_cast<double>(line.size()) / static_cast<double>(length);
    const double support = std::max(scale, 1.0);
    std::vector<int> result;
    for (int64_t i = 0; i < length; ++i) {
      const double center = (static_cast<double>(i) + 0.5) * scale;
      const auto first = static_cast<size_t>(std::max(0.0, center - support + 0.5));
      const auto last = std::min(line.size(), static_cast<size_t>(center + support + 0.5));
      std::vector<double> weights;
      double total = 0;
      for (size_t j = first; j < last; ++j) {
        const double far = (static_cast<double>(j) - center + 0.5) * (1.0 / support);
        weights.push_back(std::max(0.0, 1 - std::abs(far)));
        total += weights.back();
      }
      int64_t sum = 1 << 21;
      for (size_t j = first; j < last; ++j) {
        sum += line[j] * static_cast<int64_t>(weights[j - first] / total * (1 << 22) + 0.5);
      }
      result.push_back(static_cast<int>(std::clamp<int64_t>(sum >> 22, 0, 255)));
    }
    return result;
  };
  const int64_t channels = image.channels;
  Bytes result(static_cast<size_t>(size.height * size.width * channels));
  for (int64_t c = 0; c < channels; ++c) {
    std::vector<std::vector<int>> rows;
    for (int64_t y = 0; y < image.height; ++y) {
      std::vector<int> line;
      for (int64_t x = 0; x < image.width; ++x) {
        line.push_back(image.pixels[static_cast<size_t>((y * image.width + x) * channels + c)]);
      }
      rows.push_back(along(line, size.width));
    }
    for (size_t x = 0; x < static_cast<size_t>(size.width); ++x) {
      std::vector<int> line;
      for (const std::vector<int>& row : rows) line.push_back(row[x]);
      const std::vector<int> column = along(line, size.height);
      for (size_t y = 0; y < column.size(); ++y) {
        const size_t pixel = y * static_cast<size_t>(size.width) + x;
        result[pixel * static_cast<size_t>(channels) + static_cast<size_t>(c)] =
            static_cast<uint8_t>(column[y]);
      }
    }
  }
  return result;
}

TEST(Transforms, ResizeComputesSeveralPixelsAtOnce) {
  PhiloxStream random(5, 0);
  for (int64_t channels = 1; channels <= 4; ++channels) {
    for (int trial = 0; trial < 12; ++trial) {
      Image image{random.between(1, 40), random.between(1, 40), channels, {}};
      for (int64_t i = 0; i < image.height * image.width * channels; ++i) {
        image.pixels.push_back(static_cast<uint8_t>(random.below(4) == 0 ? 255 : random.next()));
      }
      const ImageSize size{random.between(1, 40), random.between(1, 40)};
      Image out;
      resize(image, 0, 0, {image.height, image.width}, size, out);
      ASSERT_EQ(out.pixels, resized_slowly(image, size))
          << image.height << " x " << image.width << " x " << channels << " to " << size.height
          << " x " << size.width;
    }
  }
}

TEST(Transforms, ResizeToASizeOrWithinAMost) {
  EXPECT_EQ(Resize(ImageSize{3, 9}).output_size({375, 500}), (ImageSize{3, 9}));
  EXPECT_EQ(Resize(ImageSize{3, 9}).output_size({}), (ImageSize{3, 9}));
  EXPECT_EQ(apply(Resize(ImageSize{1, 4}), numbered(2, 2), 0).size(), 4u);
  EXPECT_EQ(Resize(256, 300).output_size({375, 500}), (ImageSize{225, 300}));
  EXPECT_EQ(Resize(256, 400).output_size({375, 500}), (ImageSize{256, 341}));
  EXPECT_EQ(Resize(10, 20).output_size({1000, 1}), (ImageSize{20, 1}));
}

TEST(Transforms, ResizeKeepsTheRatioOfTheSides) {
  EXPECT_EQ(Resize(256).output_size({375, 500}), (ImageSize{256, 341}));
  EXPECT_EQ(Resize(256).output_size({500, 375}), (ImageSize{341, 256}));
  EXPECT_EQ(Resize(256).output_size({0, 0}), (ImageSize{0, 0}));
  EXPECT_EQ(apply(Resize(4), numbered(2, 3), 0).size(), 4u * 6u);
  Image thin = numbered(1, 200);
  PhiloxStream random(0, 0);
  expect_error([&] { Resize(60000).apply(thin, random); }, {"resize", "too large"});
}

TEST(Transforms, RandomResizedCropStaysInItsRanges) {
  // A ramp across: the mean of the result tells where the window was, its slope how wide.
  Image ramp{200, 200, 1, {}};
  for (int i = 0; i < 200 * 200; ++i) ramp.pixels.push_back(static_cast<uint8_t>(i % 200));
  std::set<std::string> seen;
  const RandomResizedCrop transform({8, 8});
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Bytes result = apply(transform, ramp, seed);
    const double width = (result[7] - result[0]) / 7.0 * 8;
    EXPECT_GT(width, 200 * std::sqrt(0.08 * 0.75) - 6);
    EXPECT_LE(width, 200.5);
    seen.insert(text(result));
  }
  EXPECT_GT(seen.size(), 150u);
  // No window of an allowed ratio can be as large as asked: the largest in the middle is used.
  const Bytes strip = apply(RandomResizedCrop({1, 2}, {1.0, 1.0}), ramp, 0);
  EXPECT_EQ(strip.size(), 2u);
  Image flat = numbered(1, 30);
  EXPECT_EQ(apply(RandomResizedCrop({1, 1}, {1.0, 1.0}), flat, 3), (Bytes{15}));
}

TEST(Transforms, NormalizeMapsBytesPerChannel) {
  const Normalize normalize({0.5f, 0.0f}, {0.25f, 2.0f});
  float out[4];
  normalize.apply(Image{1, 2, 2, {0, 255, 255, 51}}, out);
  EXPECT_FLOAT_EQ(out[0], -2.0f);
  EXPECT_FLOAT_EQ(out[1], 0.5f);
  EXPECT_FLOAT_EQ(out[2], 2.0f);
  EXPECT_FLOAT_EQ(out[3], 0.1f);
  expect_error([&] { normalize.apply(numbered(1, 1), out); }, {"channels", "got 1", "expected 2"});
  Normalize::to_unit(3).apply(Image{1, 1, 3, {0, 51, 255}}, out);
  EXPECT_FLOAT_EQ(out[0], 0.0f);
  EXPECT_FLOAT_EQ(out[1], 0.2f);
  EXPECT_FLOAT_EQ(out[2], 1.0f);
}

TEST(Transforms, NormalizeByASetGivesMeanZeroAndVarianceOne) {
  ImageSet set;
  set.height = 1, set.width = 2, set.channels = 2;
  set.pixels = {0, 10, 100, 10, 200, 10, 100, 10};
  set.labels = {0, 0};
  const Normalize normalize = normalize_by(set);
  EXPECT_FLOAT_EQ(normalize.mean()[0], 100.0f / 255);
  EXPECT_FLOAT_EQ(normalize.std()[0], std::sqrt(5000.0f) / 255);
  EXPECT_FLOAT_EQ(normalize.mean()[1], 10.0f / 255);
  EXPECT_FLOAT_EQ(normalize.std()[1], 1.0f / 255);  // a constant channel is not blown up
}

TEST(Transforms, WrongArgumentsAreErrors) {
  expect_error([] { RandomCrop({0, 4}); }, {"random crop", "0 x 4"});
  expect_error([] { RandomCrop({4, 4}, -1); }, {"padding", "-1"});
  expect_error([] { RandomHorizontalFlip(1.5); }, {"chance", "1.5"});
  expect_error([] { RandomResizedCrop({4, 4}, {0.5, 0.1}); }, {"scale"});
  expect_error([] { RandomResizedCrop({4, 4}, {0.1, 0.5}, {0.0, 1.0}); }, {"ratio"});
  expect_error([] { RandomVerticalFlip(-1); }, {"vertical flip", "chance", "-1"});
  expect_error([] { Resize(0); }, {"resize", "0 x 0"});
  expect_error([] { Resize(ImageSize{4, 0}); }, {"resize", "4 x 0"});
  expect_error([] { Resize(256, 256); }, {"resize", "max_size", "got 256"});
  expect_error([] { CenterCrop({1, -1}); }, {"center crop"});
  expect_error([] { Normalize({0.5f}, {0.0f}); }, {"standard deviation", "got 0"});
  expect_error([] { Normalize({0.5f}, {}); }, {"1 means and 0"});
}

}  // namespace
}  // namespace wick::data
