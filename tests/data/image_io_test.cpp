#include "wick/data/image_io.h"

#include <gtest/gtest.h>
#include <png.h>

#include "wick/data/image_folder.h"
#include "wick/tests/data/jpeg_testing.h"

namespace wick::data {
namespace {

constexpr int kHeight = 37, kWidth = 53;

// A smooth picture, which JPEG keeps nearly as it is.
Bytes picture() {
  Bytes rgb;
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      for (const int value : {4 * x, 6 * y, 255 - 2 * x - 2 * y}) {
        rgb.push_back(static_cast<uint8_t>(value));
      }
    }
  }
  return rgb;
}

Bytes jpeg(const JpegForm& form = {}) { return jpeg_of(picture(), kHeight, kWidth, form); }

Bytes png(uint32_t format, const Bytes& pixels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = kWidth;
  image.height = kHeight;
  image.format = format;
  png_alloc_size_t size = 1 << 20;
  Bytes bytes(size);
  EXPECT_NE(png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, nullptr),
            0);
  bytes.resize(size);
  return bytes;
}

void expect_error_of(const Bytes& bytes, const std::vector<std::string>& parts) {
  expect_error([&] { decode(bytes); }, std::vector<std::string>{"a.file: "});
  expect_error([&] { decode(bytes); }, parts);
}

TEST(ImageIo, PngComesBackExactly) {
  const Image image = decode(png(PNG_FORMAT_RGB, picture()));
  EXPECT_EQ(image.height, kHeight);
  EXPECT_EQ(image.width, kWidth);
  EXPECT_EQ(image.pixels, picture());
}

TEST(ImageIo, PngAlphaIsDroppedAndGreyIsSpread) {
  Bytes rgba, grey;
  for (int i = 0; i < kHeight * kWidth; ++i) {
    rgba = rgba + Bytes{10, 20, static_cast<uint8_t>(i), 0};
    grey.push_back(static_cast<uint8_t>(i));
  }
  const Image transparent = decode(png(PNG_FORMAT_RGBA, rgba));
  const Image spread = decode(png(PNG_FORMAT_GRAY, grey));
  for (size_t i = 0; i < kHeight * kWidth; ++i) {
    const auto low = static_cast<uint8_t>(i);
    ASSERT_EQ(Bytes(&transparent.pixels[3 * i], &transparent.pixels[3 * i] + 3),
              (Bytes{10, 20, low}));
    ASSERT_EQ(Bytes(&spread.pixels[3 * i], &spread.pixels[3 * i] + 3), (Bytes{low, low, low}));
  }
}

TEST(ImageIo, JpegComesBackNearly) {
  const Bytes want = picture();
  for (const Bytes& bytes : {jpeg(), jpeg({.progressive = true})}) {
    const Image image = decode(bytes);
    ASSERT_EQ(image.pixels.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(image.pixels[i], want[i], 12) << i;
  }
}

TEST(ImageIo, GreyAndCmykJpegBecomeRgb) {
  const Image grey = decode(jpeg({.stored = JCS_GRAYSCALE}));
  ASSERT_EQ(grey.pixels.size(), picture().size());
  EXPECT_EQ(grey.pixels[0], grey.pixels[1]);
  Bytes ink;
  for (int i = 0; i < kHeight * kWidth; ++i) ink = ink + Bytes{200, 100, 0, 128};
  const Image inks =
      decode(jpeg_of(ink, kHeight, kWidth, {.pixels = JCS_CMYK, .stored = JCS_YCCK}));
  EXPECT_NEAR(inks.pixels[0], 100, 3);
  EXPECT_NEAR(inks.pixels[1], 50, 3);
  EXPECT_NEAR(inks.pixels[2], 0, 3);
}

TEST(ImageIo, EveryCutIsAnError) {
  const Bytes full_jpeg = jpeg(), full_png = png(PNG_FORMAT_RGB, picture());
  for (size_t count = 0; count + 2 < full_jpeg.size(); count += 1 + count / 16) {
    expect_error_of(first(full_jpeg, count), {count < 3 ? "not an image" : "damaged"});
  }
  for (size_t count = 0; count + 12 < full_png.size(); count += 1 + count / 16) {
    expect_error_of(first(full_png, count), {count < 8 ? "not an image" : "damaged PNG"});
  }
}

TEST(ImageIo, DamagedPixelsOfPngAreAnError) {
  Bytes bytes = png(PNG_FORMAT_RGB, picture());
  bytes[bytes.size() / 2] ^= 0x55;
  expect_error_of(bytes, {"damaged PNG"});
}

TEST(ImageIo, BytesBetweenJpegSegmentsDoNoHarm) {
  Bytes bytes = jpeg();
  const Bytes want = decode(bytes).pixels;
  const auto end = bytes.end() - 2;  // before the end-of-image marker
  bytes.insert(end, {1, 2, 3, 4});
  EXPECT_EQ(decode(bytes).pixels, want);
}

Bytes resized_png(uint32_t height, uint32_t width) {
  Bytes bytes = png(PNG_FORMAT_RGB, picture());
  const auto put = [&](size_t at, uint32_t value) {
    for (size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<uint8_t>(value >> (24 - 8 * i));
  };
  put(16, width);
  put(20, height);
  put(29, static_cast<uint32_t>(crc32(0, &bytes[12], 17)));
  return bytes;
}

TEST(ImageIo, SizesThatAreTooLargeOrCannotBeAreErrors) {
  expect_error_of(with_jpeg_size(jpeg(), 64000, 65408), {"too large", "64000 x 65408", "67108864"});
  expect_error_of(with_jpeg_size(jpeg(), 8000, 8000), {"promises 8000 x 8000"});
  expect_error_of(resized_png(100000, 100000), {"too large", "100000 x 100000"});
  expect_error_of(resized_png(8000, 8000), {"promises 8000 x 8000"});
  expect_error_of(resized_png(0, 4), {"damaged PNG"});
}

TEST(ImageIo, ManyProgressiveScansAreAnError) {
  expect_error_of(jpeg({.many_scans = true}), {"too many JPEG scans", "expected at most 100"});
}

TEST(ImageIo, OtherFormatsAreErrors) {
  expect_error_of({}, {"got 0 bytes", "JPEG or a PNG"});
  expect_error_of({'G', 'I', 'F', '8', '9', 'a'}, {"not an image"});
  const TemporaryFolder folder;
  Image image;
  expect_error([&] { read_image(folder.path("no.png"), image); }, {"no.png", "cannot read"});
  const std::string path = folder.write("text.jpg", {'h', 'i'});
  expect_error([&] { read_image(path, image); }, {path, "not an image"});
}

TEST(ImageFolder, ListsClassesAndFilesInOrder) {
  const TemporaryFolder folder;
  for (const char* name :
       {"set/train/cat/2.JPG", "set/train/cat/10.png", "set/train/cat/note.txt",
        "set/train/cat/.hidden.png", "set/train/ant/a.jpeg", "set/val/cat/v.png"}) {
    folder.write(name, {});
  }
  for (const std::string& dir : {folder.path("set"), folder.path()}) {
    const ImageFolder train = list_image_folder(dir, Split::kTrain);
    EXPECT_EQ(train.class_names, (std::vector<std::string>{"ant", "cat"}));
    ASSERT_EQ(train.files.size(), 3u);
    EXPECT_EQ(train.files[0].path, folder.path("set/train/ant/a.jpeg"));
    EXPECT_EQ(train.files[1].path, folder.path("set/train/cat/10.png"));
    EXPECT_EQ(train.files[2].path, folder.path("set/train/cat/2.JPG"));
    EXPECT_EQ(train.files[2].label, 1);
    const ImageFolder test = list_image_folder(dir, Split::kTest);
    ASSERT_EQ(test.files.size(), 1u);
    EXPECT_EQ(test.files[0].label, 1);
    EXPECT_EQ(test.class_names, train.class_names);
  }
}

TEST(ImageFolder, WrongFoldersAreErrors) {
  const TemporaryFolder folder;
  const auto list = [&](Split split) { return list_image_folder(folder.path(), split); };
  expect_error([&] { list(Split::kTrain); }, {"no folder train", folder.path()});
  expect_error([&] { list_image_folder(folder.path("gone"), Split::kTrain); },
               {folder.path("gone"), "cannot be listed"});
  expect_error([&] { list_image_folder("", Split::kTrain); }, {"--data-dir"});
  folder.write("train/cat/a.png", {});
  expect_error([&] { list(Split::kTest); }, {"no test images", folder.path("val")});
  folder.write("test/dog/a.png", {});
  expect_error([&] { list(Split::kTest); }, {folder.path("test/dog"), "unknown class"});
  folder.write("train/dog/readme.txt", {});
  expect_error([&] { list(Split::kTrain); }, {folder.path("train/dog"), "no images"});
  const TemporaryFolder two;
  two.write("a/train/x/1.png", {});
  two.write("b/train/x/1.png", {});
  expect_error([&] { list_image_folder(two.path(), Split::kTrain); }, {"ambiguous"});
}

}  // namespace
}  // namespace wick::data
