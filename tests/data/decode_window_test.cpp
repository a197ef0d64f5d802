#include <gtest/gtest.h>

#include <cmath>

#include "wick/data/image_dataset.h"
#include "wick/data/image_io.h"
#include "wick/data/transforms.h"
#include "wick/tests/data/jpeg_testing.h"

namespace wick::data {
namespace {

// Waves and edges, so that an error of one pixel shows.
Bytes picture(int height, int width, int channels = 3) {
  Bytes pixels;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        const double wave = 60 * std::sin(0.11 * x + c) + 50 * std::cos(0.07 * y - c);
        const int edge = (x / 23 + y / 17 + c) % 3 == 0 ? 30 : 0;
        pixels.push_back(static_cast<uint8_t>(std::lround(120 + wave) + edge - 15));
      }
    }
  }
  return pixels;
}

Image decode_window(const Bytes& bytes, const Window& window) {
  Image image;
  const std::string name = "a.file";
  ImageDecoder(bytes, name).decode(window, image);
  return image;
}

// A window of random place and size within `size`.
Rect random_rect(ImageSize size, PhiloxStream& random) {
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random.below(static_cast<uint32_t>(n)));
  };
  Rect rect;
  rect.top = below(size.height);
  rect.left = below(size.width);
  rect.size = {1 + below(size.height - rect.top), 1 + below(size.width - rect.left)};
  return rect;
}

Image cut(const Image& image, const Rect& rect) {
  Image out;
  crop(image, rect.top, rect.left, rect.size, out);
  return out;
}

constexpr int kWindowedHeight = 93, kWindowedWidth = 117;

std::vector<Bytes> all_forms() {
  const Bytes rgb = picture(kWindowedHeight, kWindowedWidth),
              inks = picture(kWindowedHeight, kWindowedWidth, 4);
  std::vector<Bytes> forms;
  for (const bool progressive : {false, true}) {
    for (const JpegForm& form :
         {JpegForm{}, JpegForm{.across = 2}, JpegForm{.down = 2}, JpegForm{.across = 2, .down = 2},
          JpegForm{.across = 4}, JpegForm{.stored = JCS_GRAYSCALE}, JpegForm{.stored = JCS_RGB},
          JpegForm{.across = 2, .down = 2, .restart_rows = 1}}) {
      JpegForm each = form;
      each.progressive = progressive;
      forms.push_back(jpeg_of(rgb, kWindowedHeight, kWindowedWidth, each));
    }
  }
  forms.push_back(
      jpeg_of(inks, kWindowedHeight, kWindowedWidth, {.pixels = JCS_CMYK, .stored = JCS_YCCK}));
  forms.push_back(
      jpeg_of(inks, kWindowedHeight, kWindowedWidth, {.pixels = JCS_CMYK, .stored = JCS_CMYK}));
  return forms;
}

TEST(DecodeWindow, APartIsThatPartOfTheWhole) {
  PhiloxStream random(1, 0);
  const std::vector<Bytes> forms = all_forms();
  for (size_t form = 0; form < forms.size(); ++form) {
    const Image whole = decode(forms[form]);
    for (int i = 0; i < 30; ++i) {
      const Rect part = random_rect({kWindowedHeight, kWindowedWidth}, random);
      const Image got = decode_window(forms[form], {part, part.size, {0, 0, part.size}});
      ASSERT_EQ(got.pixels, cut(whole, part).pixels)
          << "form " << form << ", " << part.size.height << " x " << part.size.width << " at "
          << part.top << ", " << part.left;
    }
  }
}

TEST(DecodeWindow, WhatShrinksByLessThanHalfIsDecodedAtFullSize) {
  PhiloxStream random(2, 0);
  for (const Bytes& bytes : all_forms()) {
    const Image whole = decode(bytes);
    for (int i = 0; i < 10; ++i) {
      Window window{random_rect({kWindowedHeight, kWindowedWidth}, random), {}, {}};
      window.size = {window.source.size.height / 2 + 1 + random.between(0, 40), 40};
      window.kept = random_rect(window.size, random);
      Image all;
      resize(whole, window.source.top, window.source.left, window.source.size, window.size, all);
      ASSERT_EQ(decode_window(bytes, window).pixels, cut(all, window.kept).pixels);
    }
  }
}

// The mean and the largest difference between a window decoded at a reduced size, and all decoded
// and then resized.
std::pair<double, int> difference(const Bytes& bytes, const Window& window) {
  Image want;
  resize(decode(bytes), window.source.top, window.source.left, window.source.size, window.size,
         want);
  const Image got = decode_window(bytes, window);
  EXPECT_EQ(got.pixels.size(), want.pixels.size());
  double sum = 0;
  int most = 0;
  for (size_t i = 0; i < want.pixels.size(); ++i) {
    const int apart = std::abs(int{got.pixels[i]} - int{want.pixels[i]});
    sum += apart;
    most = std::max(most, apart);
  }
  return {sum / static_cast<double>(want.pixels.size()), most};
}

TEST(DecodeWindow, WhatShrinksByMoreIsNearlyTheSame) {
  constexpr int kBig = 480;
  const Bytes pixels = picture(kBig, kBig);
  for (const JpegForm& form : {JpegForm{}, JpegForm{.across = 2, .down = 2},
                               JpegForm{.across = 2, .down = 2, .progressive = true}}) {
    const Bytes bytes = jpeg_of(pixels, kBig, kBig, form);
    for (const int64_t side : {200, 150, 100, 70, 51, 33}) {
      for (const Rect& source : {Rect{0, 0, {480, 480}}, Rect{31, 17, {403, 411}}}) {
        const Window window{source, {side, side}, {0, 0, {side, side}}};
        const auto [mean, most] = difference(bytes, window);
        EXPECT_LE(mean, 2.5) << side;
        EXPECT_LE(most, 72) << side;  // at an edge
      }
    }
  }
}

TEST(DecodeWindow, KeepingAPartIsThatPartAtAReducedSizeToo) {
  const Bytes bytes = jpeg_of(picture(300, 420), 300, 420, {.across = 2, .down = 2});
  PhiloxStream random(3, 0);
  for (int i = 0; i < 40; ++i) {
    Window window{{7, 11, {280, 400}}, {75, 105}, {0, 0, {75, 105}}};
    const Image all = decode_window(bytes, window);
    window.kept = random_rect(window.size, random);
    ASSERT_EQ(decode_window(bytes, window).pixels, cut(all, window.kept).pixels);
  }
}

TEST(DecodeWindow, WindowsOutsideTheImageAreErrors) {
  const Bytes bytes = jpeg_of(picture(20, 20), 20, 20);
  for (const Rect& source : {Rect{0, 0, {21, 20}}, Rect{-1, 0, {5, 5}}, Rect{0, 16, {5, 5}},
                             Rect{INT64_MAX, 0, {5, 5}}, Rect{0, 0, {0, 5}}}) {
    expect_error([&] { decode_window(bytes, {source, {4, 4}, {0, 0, {4, 4}}}); }, {"outside"});
  }
  expect_error(
      [&] {
        decode_window(bytes, {{0, 0, {5, 5}}, {4, 4}, {0, 1, {4, 4}}});
      },
      {"outside"});
}

TEST(DecodeWindow, DatasetsDecodeWhatTheirTransformsWant) {
  const TemporaryFolder folder;
  const Bytes bytes = jpeg_of(picture(90, 130), 90, 130, {.across = 2, .down = 2});
  folder.write("train/a/1.jpg", bytes);
  const ImageSize size{40, 40};
  const auto flip = std::make_shared<RandomHorizontalFlip>();
  for (const Transforms& transforms :
       {Transforms{std::make_shared<RandomResizedCrop>(size, std::pair{0.1, 0.4}), flip},
        Transforms{std::make_shared<Resize>(50), std::make_shared<CenterCrop>(size), flip},
        Transforms{std::make_shared<RandomCrop>(ImageSize{60, 60}),
                   std::make_shared<CenterCrop>(ImageSize{50, 50}), std::make_shared<Resize>(60),
                   std::make_shared<RandomCrop>(size), flip},
        Transforms{std::make_shared<RandomCrop>(size, 4), flip},
        Transforms{std::make_shared<CenterCrop>(ImageSize{100, 40}),
                   std::make_shared<CenterCrop>(size)},
        Transforms{std::make_shared<Resize>(60), std::make_shared<Resize>(40),
                   std::make_shared<CenterCrop>(size)}}) {
    const ImageDataset dataset(list_image_folder(folder.path(), Split::kTrain), transforms,
                               std::nullopt);
    for (uint64_t sample = 0; sample < 20; ++sample) {
      Image want = decode(bytes);
      PhiloxStream random(4, sample);
      for (const auto& transform : transforms) transform->apply(want, random);
      Bytes got(want.pixels.size());
      int64_t label = -1;
      void* places[] = {got.data(), &label};
      dataset.read(0, PhiloxStream(4, sample), places);
      ASSERT_EQ(got, want.pixels);
    }
  }
}

}  // namespace
}  // namespace wick::data
