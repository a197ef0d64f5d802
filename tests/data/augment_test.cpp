#include "wick/data/augment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "wick/data/image_ops.h"
#include "wick/tests/data/data_testing.h"
#include "wick/tests/data/torchvision_cases.h"

namespace wick::data {
namespace {

Image reference_image(const ReferenceCase& reference) {
  Image image{reference.height, reference.width, 3, {}};
  const std::string digits = reference.pixels;
  for (size_t i = 0; i < digits.size(); i += 2) {
    image.pixels.push_back(static_cast<uint8_t>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  }
  return image;
}

// `image` four times across and down.
Image tiled(const Image& image) {
  Image all{4 * image.height, 4 * image.width, image.channels, {}};
  for (int64_t y = 0; y < all.height; ++y) {
    const auto row = image.pixels.begin() + y % image.height * image.width * image.channels;
    for (int i = 0; i < 4; ++i) {
      all.pixels.insert(all.pixels.end(), row, row + image.width * image.channels);
    }
  }
  return all;
}

// In the order of AugmentOp.
constexpr const char* kOpNames[] = {
    "Identity", "ShearX",   "ShearY",    "TranslateX", "TranslateY", "Rotate",       "Brightness",
    "Color",    "Contrast", "Sharpness", "Posterize",  "Solarize",   "AutoContrast", "Equalize"};

// Does to `image` what the case does.
void apply_case(const ReferenceCase& reference, Image& image) {
  static const std::map<std::string, void (*)(Image&, double)> kFunctions = {
      {"brightness", adjust_brightness},
      {"contrast", adjust_contrast},
      {"saturation", adjust_saturation},
      {"sharpness", adjust_sharpness},
      {"hue", adjust_hue},
      {"grayscale", [](Image& x, double) { to_grayscale(x); }},
      {"rotate_bilinear",
       [](Image& x, double degrees) { rotate(x, degrees, AffineSampling::kBilinear); }},
      {"autocontrast of brightness",
       [](Image& x, double factor) {
         adjust_brightness(x, factor);
         autocontrast(x);
       }},
      {"equalize of 4 x 4 tiles",
       [](Image& x, double) {
         Image all = tiled(x);
         equalize(all);
         crop(all, 0, 0, {x.height, x.width}, x);
       }},
  };
  const auto found = kFunctions.find(reference.name);
  if (found != kFunctions.end()) return found->second(image, reference.parameter);
  if (reference.name == std::string("resize")) {
    PhiloxStream random(0, 0);
    return Resize(ImageSize{reference.height, reference.width}).apply(image, random);
  }
  const auto* op = std::find(std::begin(kOpNames), std::end(kOpNames), std::string(reference.name));
  ASSERT_NE(op, std::end(kOpNames)) << reference.name;
  apply_augment_op(image, static_cast<AugmentOp>(op - kOpNames), reference.parameter);
}

TEST(Augment, GivesWhatTorchvisionGives) {
  int same_bytes = 0, bytes = 0;
  for (const ReferenceCase& reference : kReferenceCases) {
    Image image = reference_image(kReferenceImage);
    apply_case(reference, image);
    const Image expected = reference_image(reference);
    ASSERT_EQ(image.height, expected.height) << reference.name;
    ASSERT_EQ(image.pixels.size(), expected.pixels.size()) << reference.name;
    int largest = 0;
    for (size_t i = 0; i < image.pixels.size(); ++i) {
      const int difference = std::abs(image.pixels[i] - expected.pixels[i]);
      largest = std::max(largest, difference);
      if (reference.name == std::string("resize")) continue;  // there with floats, here as Pillow
      same_bytes += difference == 0;
      ++bytes;
    }
    EXPECT_LE(largest, 1) << reference.name << " " << reference.parameter;
  }
  EXPECT_GT(same_bytes, 0.998 * bytes);
}

TEST(Augment, MagnitudesAreTorchvisions) {
  const ImageSize size{kReferenceImage.height, kReferenceImage.width};
  ASSERT_EQ(std::size(kReferenceMagnitudes), static_cast<size_t>(kAugmentOps));
  for (int op = 0; op < kAugmentOps; ++op) {
    constexpr int kLevels[] = {3, 9, 22};
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(augment_magnitude(static_cast<AugmentOp>(op), kLevels[i], 31, size),
                  kReferenceMagnitudes[op][i], 1e-6 * std::abs(kReferenceMagnitudes[op][i]))
          << kOpNames[op];
    }
  }
}

TEST(Augment, GreyImagesKeepTheirColour) {
  Image grey{2, 3, 1, {1, 50, 100, 150, 200, 250}};
  const Bytes before = grey.pixels;
  adjust_saturation(grey, 0.2);
  adjust_hue(grey, 0.3);
  to_grayscale(grey);
  EXPECT_EQ(grey.pixels, before);
  adjust_contrast(grey, 0);  // the mean is 125.17
  EXPECT_EQ(grey.pixels, Bytes(6, 125));
  adjust_brightness(grey, 2);
  EXPECT_EQ(grey.pixels, Bytes(6, 250));
}

TEST(Augment, AffineFillsWhatComesIn) {
  Image image{2, 3, 1, {1, 2, 3, 4, 5, 6}};
  affine(image, {.x_0 = 1, .y_0 = -1}, AffineSampling::kNearest, 9);
  EXPECT_EQ(image.pixels, (Bytes{9, 9, 9, 2, 3, 9}));
  image.pixels = {1, 2, 3, 4, 5, 6};
  affine(image, {.x_0 = 0.5}, AffineSampling::kBilinear, 10);
  EXPECT_EQ(image.pixels, (Bytes{2, 3, 7, 5, 6, 8}));
  Image square{2, 2, 1, {1, 2, 3, 4}};
  rotate(square, 90);
  EXPECT_EQ(square.pixels, (Bytes{2, 4, 1, 3}));
}

// The share of 1000 seeds for which `transform` changes the image.
double share_of_changes(const Transform& transform, const Image& image) {
  int changes = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    Image changed = image;
    PhiloxStream random(seed, 0);
    transform.apply(changed, random);
    changes += changed.pixels != image.pixels;
  }
  return changes / 1000.0;
}

TEST(Augment, ChancesAreKept) {
  const Image image = reference_image(kReferenceImage);
  // Five standard deviations of a share of 1000.
  EXPECT_NEAR(share_of_changes(RandomGrayscale(0.3), image), 0.3, 0.073);
  EXPECT_NEAR(share_of_changes(RandomVerticalFlip(), image), 0.5, 0.08);
  EXPECT_NEAR(share_of_changes(RandomErasing({.p = 0.7, .scale = {0.1, 0.3}}), image), 0.7, 0.073);
  EXPECT_EQ(share_of_changes(RandomErasing({.p = 0}), image), 0);
}

TEST(Augment, JitterDrawsItsFactorsEvenlyAndApart) {
  // Of one grey pixel of 100, brightness f makes 100 f.
  const Image pixel{1, 1, 1, {100}};
  double sum = 0, squares = 0;
  int lowest = 255, highest = 0;
  constexpr int kDraws = 4000;
  for (uint64_t seed = 0; seed < kDraws; ++seed) {
    Image image = pixel;
    PhiloxStream random(seed, 0);
    ColorJitter({.brightness = 0.5}).apply(image, random);
    const double value = image.pixels[0];
    sum += value, squares += value * value;
    lowest = std::min<int>(lowest, image.pixels[0]);
    highest = std::max<int>(highest, image.pixels[0]);
  }
  EXPECT_GE(lowest, 50);
  EXPECT_LE(lowest, 51);
  EXPECT_GE(highest, 148);
  EXPECT_LE(highest, 150);
  const double mean = sum / kDraws, deviation = std::sqrt(squares / kDraws - mean * mean);
  EXPECT_NEAR(mean, 99.5, 2.5);  // rounded down; five standard errors
  EXPECT_NEAR(deviation, 100 / std::sqrt(12.0), 1.5);
  // A range around another centre, and one that reaches below 0.
  Image image = pixel;
  PhiloxStream random(1, 0);
  ColorJitter({.brightness = {2, 2}}).apply(image, random);
  EXPECT_EQ(image.pixels[0], 200);
  for (uint64_t seed = 0; seed < 100; ++seed) {
    PhiloxStream stream(seed, 0);
    ColorJitter({.brightness = 3, .contrast = 3, .saturation = 3, .hue = 0.5}).apply(image, stream);
  }
}

TEST(Augment, JitterPermutesItsOrder) {
  // Brightness by 2 and contrast to grey: cut off at 255 before the mean is taken, or after.
  std::map<Bytes, int> seen;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    Image image{1, 2, 1, {50, 200}};
    PhiloxStream random(seed, 0);
    ColorJitter({.brightness = {2, 2}, .contrast = {0, 0}}).apply(image, random);
    ++seen[image.pixels];
  }
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_NEAR((seen[{177, 177}]), 500, 80);
  EXPECT_NEAR((seen[{250, 250}]), 500, 80);
}

// Where a black image is white after `transform`: first and one past the last row and column.
struct Rectangle {
  int64_t top = 1000, left = 1000, bottom = 0, right = 0, pixels = 0;
};
Rectangle erased(const Transform& transform, int64_t side, uint64_t seed) {
  Image image{side, side, 1, Bytes(static_cast<size_t>(side * side))};
  PhiloxStream random(seed, 0);
  transform.apply(image, random);
  Rectangle r;
  for (int64_t i = 0; i < side * side; ++i) {
    if (image.pixels[static_cast<size_t>(i)] == 0) continue;
    r.top = std::min(r.top, i / side);
    r.bottom = std::max(r.bottom, i / side + 1);
    r.left = std::min(r.left, i % side);
    r.right = std::max(r.right, i % side + 1);
    ++r.pixels;
  }
  return r;
}

TEST(Augment, ErasedRectanglesAreOfTheSharesAndRatiosAsked) {
  const RandomErasing transform({.p = 1, .scale = {0.1, 0.2}, .ratio = {0.5, 2}, .value = {255}});
  std::set<int64_t> tops, lefts;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Rectangle r = erased(transform, 40, seed);
    const auto height = static_cast<double>(r.bottom - r.top);
    const auto width = static_cast<double>(r.right - r.left);
    EXPECT_EQ(r.pixels, (r.bottom - r.top) * (r.right - r.left));
    EXPECT_GE((height + 0.5) * (width + 0.5), 160);
    EXPECT_LE((height - 0.5) * (width - 0.5), 320);
    EXPECT_LE((height - 0.5) / (width + 0.5), 2);
    EXPECT_GE((height + 0.5) / (width - 0.5), 0.5);
    tops.insert(r.top);
    lefts.insert(r.left);
  }
  EXPECT_GE(tops.size(), 20u);
  EXPECT_GE(lefts.size(), 20u);
}

TEST(Augment, ErasesWithColoursOrNoise) {
  Image image{9, 9, 3, Bytes(9 * 9 * 3)};
  PhiloxStream random(3, 0);
  RandomErasing({.p = 1, .scale = {0.5, 0.5}, .ratio = {1, 1}, .value = {10, 20, 30}})
      .apply(image, random);
  const auto count = [&](uint8_t value) {
    return std::count(image.pixels.begin(), image.pixels.end(), value);
  };
  EXPECT_EQ(count(10), 36);
  EXPECT_EQ(count(20), 36);
  EXPECT_EQ(count(30), 36);
  Image large{100, 100, 3, Bytes(100 * 100 * 3)};
  RandomErasing({.p = 1, .scale = {0.5, 0.5}, .ratio = {1, 1}, .random = true})
      .apply(large, random);
  std::set<uint8_t> values(large.pixels.begin(), large.pixels.end());
  EXPECT_EQ(values.size(), 256u);
}

TEST(Augment, CutoutReachesOverTheBorder) {
  std::set<int64_t> areas;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const Rectangle r = erased(Cutout(4, 1, 255), 8, seed);
    EXPECT_EQ(r.pixels, (r.bottom - r.top) * (r.right - r.left));
    areas.insert(r.pixels);
  }
  EXPECT_EQ(*areas.begin(), 4);
  EXPECT_EQ(*areas.rbegin(), 16);
}

TEST(Augment, RandAugmentDrawsEveryOperationAsOften) {
  // What each operation makes of the image, by sign.
  const Image image = tiled(reference_image(kReferenceImage));
  std::map<Bytes, std::vector<int>> results;
  for (int op = 0; op < kAugmentOps; ++op) {
    for (const int sign : {1, -1}) {
      Image changed = image;
      const auto which = static_cast<AugmentOp>(op);
      if (sign < 0 && !augment_is_signed(which)) continue;
      const double magnitude = augment_magnitude(which, 9, 31, {image.height, image.width});
      apply_augment_op(changed, which, sign * magnitude);
      results[changed.pixels].push_back(2 * op + (sign < 0));
    }
  }
  std::map<Bytes, int> seen;
  constexpr int kDraws = 2800;
  for (uint64_t seed = 0; seed < kDraws; ++seed) {
    Image changed = image;
    PhiloxStream random(seed, 0);
    RandAugment({.num_ops = 1}).apply(changed, random);
    ++seen[changed.pixels];
  }
  EXPECT_EQ(seen.size(), results.size());
  for (const auto& [pixels, codes] : results) {
    double expected = 0;
    for (const int code : codes) {
      expected += kDraws / 14.0 / (augment_is_signed(static_cast<AugmentOp>(code / 2)) ? 2 : 1);
    }
    EXPECT_NEAR(seen[pixels], expected, 5 * std::sqrt(expected)) << codes[0];
  }
}

TEST(Augment, WrongArgumentsAreErrors) {
  expect_error([] { ColorJitter({.brightness = -1}); }, {"color jitter", "brightness", "-1"});
  expect_error([] { ColorJitter({.hue = 0.6}); }, {"color jitter", "hue", "0.6"});
  expect_error([] { ColorJitter({.contrast = {2, 1}}); }, {"contrast", "2 to 1"});
  expect_error([] { RandomGrayscale(2); }, {"random grayscale", "got 2"});
  expect_error([] { RandomErasing({.scale = {0.5, 0.1}}); }, {"random erasing", "scale"});
  expect_error([] { RandomErasing({.ratio = {0, 1}}); }, {"random erasing", "ratio"});
  expect_error([] { RandomErasing({.value = {}}); }, {"random erasing", "no value"});
  expect_error([] { Cutout(0); }, {"cutout", "length"});
  expect_error([] { RandAugment({.magnitude = 31}); }, {"randaugment", "got 31 of 31"});
  expect_error([] { RandAugment({.num_ops = -1}); }, {"randaugment", "num_ops"});
  Image image{1, 1, 2, {1, 2}};
  expect_error([&] { adjust_contrast(image, 1); }, {"adjust contrast", "got 2", "1 or 3"});
  expect_error([&] { affine(image, {}); }, {"affine", "got 2"});
  expect_error([&] { affine(image, {.x_x = 1e9}); }, {"affine"});
  expect_error([&] { erase(image, 0, 0, {1, 1}, {1, 2, 3}); }, {"erase", "got 3"});
  expect_error([&] { erase(image, 0, 1, {1, 1}, {1}); }, {"erase", "outside"});
  expect_error([&] { posterize(image, 9); }, {"posterize", "got 9"});
}

}  // namespace
}  // namespace wick::data
