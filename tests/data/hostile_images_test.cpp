// Images made to take much time or memory, or to be misread. The sizes that headers promise, cuts
// and scans are in image_io_test.
#include <gtest/gtest.h>
#include <png.h>
#include <zlib.h>

#include <fstream>
#include <string>

#include "wick/data/detail/jpeg.h"
#include "wick/data/image_io.h"
#include "wick/data/transforms.h"
#include "wick/tests/data/jpeg_testing.h"

namespace wick::data {
namespace {

constexpr uint32_t kSide = 16;

Bytes pixels() {
  Bytes rgb;
  for (uint32_t i = 0; i < kSide * kSide * 3; ++i) rgb.push_back(static_cast<uint8_t>(5 * i));
  return rgb;
}

Bytes chunk(const char* type, const Bytes& content) {
  const auto big_endian = [](uint64_t value) {
    Bytes bytes;
    for (int shift = 24; shift >= 0; shift -= 8) {
      bytes.push_back(static_cast<uint8_t>(value >> shift));
    }
    return bytes;
  };
  const Bytes body = Bytes(type, type + 4) + content;
  return big_endian(content.size()) + body +
         big_endian(crc32(0, body.data(), static_cast<uInt>(body.size())));
}

void append(png_structp png, png_bytep bytes, size_t count) {
  auto* out = static_cast<Bytes*>(png_get_io_ptr(png));
  out->insert(out->end(), bytes, bytes + count);
}

Bytes png(int interlace, int depth = 8) {
  Bytes out;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(png, &out, append, nullptr);
  png_set_IHDR(png, info, kSide, kSide, depth, PNG_COLOR_TYPE_RGB, interlace,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  Bytes all = pixels();
  if (depth == 16) {
    Bytes wide;
    for (const uint8_t byte : all) wide = wide + Bytes{byte, byte};
    all = wide;
  }
  std::vector<png_bytep> rows;
  for (uint32_t y = 0; y < kSide; ++y) rows.push_back(all.data() + y * all.size() / kSide);
  png_write_image(png, rows.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return out;
}

// `bytes` with a chunk put behind the header.
Bytes with_chunk(Bytes bytes, const Bytes& extra) {
  constexpr std::ptrdiff_t kBehindHeader = 8 + 12 + 13;
  bytes.insert(bytes.begin() + kBehindHeader, extra.begin(), extra.end());
  return bytes;
}

// 64 MB of zeros in 64 KB, made without ever holding them.
Bytes bomb() {
  z_stream z{};
  EXPECT_EQ(deflateInit(&z, 9), Z_OK);
  Bytes zeros(1 << 16), out(1 << 18);
  z.next_out = out.data();
  z.avail_out = static_cast<uInt>(out.size());
  for (int i = 0; i < 1024; ++i) {
    z.next_in = zeros.data();
    z.avail_in = static_cast<uInt>(zeros.size());
    EXPECT_EQ(deflate(&z, i == 1023 ? Z_FINISH : Z_NO_FLUSH), i == 1023 ? Z_STREAM_END : Z_OK);
  }
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

// The most memory held since `forget_peak`, in kilobytes.
int64_t peak_kilobytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word && word != "VmHWM:") {
  }
  int64_t kilobytes = 0;
  status >> kilobytes;
  return kilobytes;
}

bool forget_peak() {
  std::ofstream file("/proc/self/clear_refs");
  return static_cast<bool>(file << "5" << std::flush);
}

TEST(HostileImages, InterlacedAndDeepPngsAreTheSameImage) {
  for (const int depth : {8, 16}) {
    for (const int interlace : {PNG_INTERLACE_NONE, PNG_INTERLACE_ADAM7}) {
      EXPECT_EQ(decode(png(interlace, depth)).pixels, pixels()) << depth << ", " << interlace;
    }
  }
}

TEST(HostileImages, ChunksThatUnpackToMuchAreNotUnpacked) {
  const Bytes plain = png(PNG_INTERLACE_NONE);
  const Bytes keyword = {'a', 0, 0}, zeros = bomb();
  if (!forget_peak()) GTEST_SKIP() << "the system does not let a process forget its peak";
  const int64_t before = peak_kilobytes();
  for (const char* type : {"zTXt", "iCCP"}) {
    EXPECT_EQ(decode(with_chunk(plain, chunk(type, keyword + zeros))).pixels, pixels()) << type;
  }
  const Bytes international = Bytes{'a', 0, 1, 0, 0, 0} + zeros;
  EXPECT_EQ(decode(with_chunk(plain, chunk("iTXt", international))).pixels, pixels());
  EXPECT_LT(peak_kilobytes() - before, 32 << 10);
}

TEST(HostileImages, ManyAndLongChunksDoNoHarm) {
  Bytes many;
  for (int i = 0; i < 5000; ++i) many = std::move(many) + chunk("tEXt", {'a', 0, 'b'});
  EXPECT_EQ(decode(with_chunk(png(PNG_INTERLACE_NONE), many)).pixels, pixels());
  Bytes cut = with_chunk(png(PNG_INTERLACE_NONE), chunk("tEXt", Bytes(100, 'a')));
  for (const uint8_t length : {0x7f, 0xff}) {  // a chunk of 2 or 4 GB
    cut[33] = length;
    expect_error([&] { decode(cut); }, {"a.file", "damaged PNG"});
  }
}

TEST(HostileImages, RowsThatAreMissingAreErrors) {
  Bytes tall = png(PNG_INTERLACE_NONE);
  tall[20 + 3] = 200;  // rows
  const Bytes head(tall.begin() + 12, tall.begin() + 29);
  const uLong sum = crc32(0, head.data(), static_cast<uInt>(head.size()));
  for (size_t i = 0; i < 4; ++i) tall[29 + i] = static_cast<uint8_t>(sum >> (24 - 8 * i));
  expect_error([&] { decode(tall); }, {"a.file", "damaged PNG"});
  const Bytes jpeg = with_jpeg_size(jpeg_of(pixels(), kSide, kSide), 200, kSide);
  expect_error([&] { decode(jpeg); }, {"a.file", "damaged JPEG"});
}

TEST(HostileImages, DamageBelowAWindowGoesUnseen) {
  const int side = 64;
  Bytes rgb;
  for (int i = 0; i < side * side * 3; ++i) rgb.push_back(static_cast<uint8_t>(i * i));
  const Bytes whole = jpeg_of(rgb, side, side), cut = first(whole, whole.size() * 3 / 4);
  expect_error([&] { decode(cut); }, {"a.file", "damaged JPEG"});
  const std::string name = "a.file";
  const Rect top{0, 0, {8, 8}};
  Image image;
  ImageDecoder(cut, name).decode({top, top.size, top}, image);
  Image want;
  crop(decode(whole), 0, 0, top.size, want);
  EXPECT_EQ(image.pixels, want.pixels);
}

// Limits for the time of a test.
class Limits {
 public:
  explicit Limits(const ImageLimits& limits) { set_image_limits(limits); }
  ~Limits() { set_image_limits({}); }
  Limits(const Limits&) = delete;
  Limits& operator=(const Limits&) = delete;
};

TEST(HostileImages, LimitsCanBeSet) {
  EXPECT_EQ(image_limits().pixels, 64 << 20);
  EXPECT_EQ(image_limits().seconds, 2.0);
  const Bytes jpeg = jpeg_of(pixels(), kSide, kSide);
  {
    const Limits limits({.pixels = kSide * kSide - 1});
    for (const Bytes& bytes : {jpeg, png(PNG_INTERLACE_NONE)}) {
      expect_error([&] { decode(bytes); }, {"a.file", "too large", "expected at most 255 in all"});
    }
  }
  const Limits limits({.pixels = kSide * kSide});
  EXPECT_EQ(decode(jpeg).height, kSide);
  expect_error([] { set_image_limits({.pixels = 0}); }, {"wrong number of pixels", "got 0"});
  expect_error([] { set_image_limits({.seconds = -1}); }, {"wrong time", "got -1"});
}

// Of each form, one whose scans or rows are more than a million pixels.
TEST(HostileImages, WhatTakesTooLongIsAnError) {
  constexpr int kLarge = 1200;
  const Bytes grey(size_t{kLarge} * kLarge, 200);
  const JpegForm one{.pixels = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE};
  JpegForm many = one;
  many.progressive = true;
  Bytes flat(size_t{kLarge} * (kLarge + 1));
  Bytes packed(compressBound(flat.size()));
  uLongf length = packed.size();
  ASSERT_EQ(compress(packed.data(), &length, flat.data(), flat.size()), Z_OK);
  packed.resize(length);
  const Bytes header = {0, 0, kLarge >> 8, kLarge & 255, 0, 0, kLarge >> 8, kLarge & 255, 8, 0, 0,
                        0, 0};
  const Bytes signature = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  const Bytes files[] = {
      jpeg_of(grey, kLarge, kLarge, one), jpeg_of(grey, kLarge, kLarge, many),
      signature + chunk("IHDR", header) + chunk("IDAT", packed) + chunk("IEND", {})};
  for (const Bytes& bytes : files) {
    EXPECT_EQ(decode(bytes).width, kLarge);
    const Limits limits({.seconds = 1e-9});
    expect_error([&] { decode(bytes); }, {"a.file", "takes too long", "expected at most 1e-09 s"});
    const Limits none({.seconds = 0});
    EXPECT_EQ(decode(bytes).height, kLarge);
  }
}

TEST(HostileImages, FilesThatAreTooLargeAreNotRead) {
  const TemporaryFolder folder;
  const std::string path = folder.write("large.jpg", {0xff, 0xd8, 0xff});
  std::filesystem::resize_file(path, kMostImageBytes + 1);  // of which none is written
  Image image;
  expect_error([&] { read_image(path, image); }, {path, "268435457 bytes", "at most 268435456"});
}

}  // namespace
}  // namespace wick::data
