#include "wick/data/transform_registry.h"

#include <gtest/gtest.h>

#include "wick/data/augment.h"
#include "wick/data/catalog.h"
#include "wick/tests/data/data_testing.h"

namespace wick::data {
namespace {

const TransformContext kSmall{.size = {32, 32}, .preparation = {.padding = 4, .flip = true}};
const TransformContext kPhotographs{.size = {28, 28},
                                    .preparation = {.photographs = true, .flip = true}};

template <class T>
const T& as(const Transforms& transforms, size_t i) {
  return dynamic_cast<const T&>(*transforms.at(i));
}

TEST(TransformRegistry, MakesTransformsByName) {
  const Transforms all =
      make_transforms(" random_crop(4),horizontal_flip, vertical_flip( 0.25 )", kSmall);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(as<RandomCrop>(all, 0).options().padding, 4);
  EXPECT_EQ(as<RandomHorizontalFlip>(all, 1).p(), 0.5);
  EXPECT_EQ(as<RandomVerticalFlip>(all, 2).p(), 0.25);
  const Transforms jitter = make_transforms("color_jitter(0.1, 0.2)", kSmall);
  EXPECT_EQ(as<ColorJitter>(jitter, 0).options().brightness.high, 0.1);
  EXPECT_EQ(as<ColorJitter>(jitter, 0).options().saturation.high, 0.4);
  EXPECT_EQ(make_transforms("cutout(8)", kSmall).size(), 1u);
}

TEST(TransformRegistry, PoliciesFitTheImages) {
  const Transforms small = make_transforms("basic", kSmall);
  ASSERT_EQ(small.size(), 2u);
  EXPECT_EQ(as<RandomCrop>(small, 0).options().padding, 4);
  const Transforms digits = make_transforms("basic", {{28, 28}, {.padding = 2}});
  EXPECT_EQ(digits.size(), 1u);
  const Transforms photographs = make_transforms("randaugment", kPhotographs);
  ASSERT_EQ(photographs.size(), 3u);
  as<RandomResizedCrop>(photographs, 0);
  as<RandAugment>(photographs, 2);
  EXPECT_TRUE(make_transforms("none", kSmall).empty());
  const Transforms plain = make_transforms("none", kPhotographs);
  ASSERT_EQ(plain.size(), 2u);
  EXPECT_EQ(plain[0]->output_size({64, 64}).height, 32);
  EXPECT_EQ(plain[1]->output_size({}).height, 28);
  EXPECT_EQ(make_transforms("basic, random_erasing(0.1)", kSmall).size(), 3u);
}

TEST(TransformRegistry, RefusesWhatIsNoList) {
  const auto make = [](const char* text) { make_transforms(text, kSmall); };
  for (const char* text :
       {"", "random_crop(", "random_crop(4", "random_crop(x)", "a b", "basic,"}) {
    EXPECT_THROW(make(text), Error) << text;
  }
  expect_error([&] { make("random_crop(4"); }, {"cannot read the list", "random_crop(4"});
  expect_error([&] { make("blur"); }, {"unknown name", "blur", "cutout"});
  expect_error([&] { make("cutout"); }, {"cutout", "got 0", "cutout(length, holes = 1)"});
  expect_error([&] { make("grayscale(0.1, 2)"); }, {"got 2", "grayscale(p = 0.1)"});
  expect_error([&] { make("random_crop(1.5)"); }, {"got 1.5", "whole"});
}

// Makes every byte `value`.
class Paint final : public Transform {
 public:
  explicit Paint(double value) : value_(static_cast<uint8_t>(value)) {}
  void apply(Image& image, PhiloxStream&) const override {
    for (uint8_t& byte : image.pixels) byte = value_;
  }
  ImageSize output_size(ImageSize input) const override { return input; }

 private:
  uint8_t value_;
};

TEST(TransformRegistry, TakesThoseOfTheProgram) {
  register_transform(
      {.name = "paint",
       .arguments = {{"value", 7}},
       .make = [](const std::vector<double>& n,
                  const TransformContext&) { return Transforms{std::make_shared<Paint>(n[0])}; },
       .policy = true});
  const std::vector<std::string> names = augmentation_names();
  EXPECT_EQ(names, (std::vector<std::string>{"none", "basic", "color", "randaugment", "paint"}));
  const auto first_of = [](const char* policy) {
    const TrainTest data = open_data("shapes10", "", {}, {.policy = policy});
    return data.train->get(0, PhiloxStream(1, 2, 3))[0].to_vector<float>();
  };
  const std::vector<float> painted = first_of("paint(9)");
  const size_t channel = painted.size() / 3;
  EXPECT_EQ(painted[0], painted[channel - 1]);
  EXPECT_NE(first_of("paint(9)"), first_of("paint(200)"));
  EXPECT_EQ(first_of("basic, paint"), first_of("paint"));
  expect_error([] { register_transform({.name = "paint2"}); }, {"paint2", "no function"});
  expect_error([] { register_transform(find_transform("basic")); }, {"basic", "taken"});
}

}  // namespace
}  // namespace wick::data
