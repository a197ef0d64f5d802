#include "wick/data/idx.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "wick/tests/data/data_testing.h"

namespace wick::data {
namespace {

Bytes word(uint32_t value) {
  return {static_cast<uint8_t>(value >> 24), static_cast<uint8_t>(value >> 16),
          static_cast<uint8_t>(value >> 8), static_cast<uint8_t>(value)};
}

Bytes header(const std::vector<uint32_t>& sizes) {
  Bytes bytes = word(0x800u + static_cast<uint32_t>(sizes.size()));
  for (const uint32_t size : sizes) bytes = bytes + word(size);
  return bytes;
}

const Bytes kPixels = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
const Bytes kImages = header({2, 3, 2}) + kPixels;

TEST(Idx, ReadsPlainAndGzipAlike) {
  const TemporaryFolder folder;
  for (const std::string& path :
       {folder.write("plain", kImages), folder.write("gz", gzip(kImages)),
        folder.write(
            "two", gzip(first(kImages, 20)) + gzip(Bytes(kImages.begin() + 20, kImages.end())))}) {
    const IdxArray array = read_idx(path, 3);
    EXPECT_EQ(array.sizes, (std::vector<int64_t>{2, 3, 2})) << path;
    EXPECT_EQ(array.values, kPixels) << path;
  }
}

TEST(Idx, EveryCutIsAnError) {
  const TemporaryFolder folder;
  for (size_t count = 0; count < kImages.size(); ++count) {
    const std::string path = folder.write("cut", first(kImages, count));
    expect_error([&] { read_idx(path, 3); }, {path, "cut off"});
  }
  const Bytes packed = gzip(kImages);
  for (size_t count = 2; count < packed.size(); ++count) {
    const std::string path = folder.write("cut.gz", first(packed, count));
    expect_error([&] { read_idx(path, 3); }, {path, "cut off"});
  }
}

TEST(Idx, ExtraBytesAreAnError) {
  const TemporaryFolder folder;
  const std::string plain = folder.write("long", kImages + Bytes{0});
  expect_error([&] { read_idx(plain, 3); }, {plain, "too long", "28"});
  const std::string inside = folder.write("long.gz", gzip(kImages + Bytes(1 << 20)));
  expect_error([&] { read_idx(inside, 3); }, {inside, "too long"});
  const std::string after = folder.write("after.gz", gzip(kImages) + Bytes{0, 0, 0});
  expect_error([&] { read_idx(after, 3); }, {after, "extra bytes after the end of the gzip"});
}

TEST(Idx, DamagedGzipIsAnError) {
  const TemporaryFolder folder;
  Bytes packed = gzip(kImages);
  packed[packed.size() - 5] ^= 1;  // the checksum
  const std::string path = folder.write("bad.gz", packed);
  expect_error([&] { read_idx(path, 3); }, {path, "damaged"});
}

TEST(Idx, WrongMagicIsAnError) {
  const TemporaryFolder folder;
  const std::string labels = folder.write("labels", header({12}) + kPixels);
  expect_error([&] { read_idx(labels, 3); }, {labels, "0x00000801", "0x00000803"});
  const std::string floats = folder.write("floats", word(0xd03) + kImages);
  expect_error([&] { read_idx(floats, 3); }, {"magic", "0x00000d03"});
}

TEST(Idx, SizesThatCannotBeAreErrorsBeforeMemoryIsAllocated) {
  const TemporaryFolder folder;
  for (const std::vector<uint32_t>& sizes :
       {std::vector<uint32_t>{0x7fffffff, 0x7fffffff, 0x7fffffff},
        {0x7fffffff, 28, 28},
        {65536, 65536, 65536},
        {60000, 28, 28}}) {
    const std::string plain = folder.write("huge", header(sizes) + kPixels);
    expect_error([&] { read_idx(plain, 3); }, {plain, "promises"});
    const std::string packed = folder.write("huge.gz", gzip(header(sizes) + kPixels));
    expect_error([&] { read_idx(packed, 3); }, {packed, "promises"});
  }
  for (const uint32_t size : {0u, 0x80000000u, 0xffffffffu}) {
    const std::string path = folder.write("odd", header({2, size, 2}) + kPixels);
    expect_error([&] { read_idx(path, 3); }, {path, "size 1 is wrong", std::to_string(size)});
  }
}

TEST(Idx, FilesThatAreTooLargeAreErrorsBeforeMemoryIsAllocated) {
  const TemporaryFolder folder;
  const std::string path = folder.write("large", header({1 << 17, 1 << 17, 1}));
  std::filesystem::resize_file(path, (uint64_t{1} << 34) + 16);  // of which none is written
  expect_error([&] { read_idx(path, 3); }, {path, "too large", "promises 17179869184"});
}

TEST(Idx, WhatIsNoFileIsAnError) {
  const TemporaryFolder folder;
  expect_error([&] { read_idx(folder.path("none"), 3); }, {"none", "cannot read"});
  expect_error([&] { read_idx(folder.path(), 3); }, {folder.path(), "not a regular file"});
  ASSERT_EQ(mkfifo(folder.path("pipe").c_str(), 0600), 0);  // must not wait for a writer
  expect_error([&] { read_idx(folder.path("pipe"), 3); }, {"pipe", "not a regular file"});
}

class MnistTest : public ::testing::Test {
 protected:
  void write(const std::string& sub, bool packed) {
    const Bytes labels = header({2}) + Bytes{7, 9};
    const std::string ending = packed ? ".gz" : "";
    for (const char* stem : {"train", "t10k"}) {
      folder_.write(concat(sub, stem, "-images-idx3-ubyte", ending),
                    packed ? gzip(kImages) : kImages);
      folder_.write(concat(sub, stem, "-labels-idx1-ubyte", ending),
                    packed ? gzip(labels) : labels);
    }
  }
  TemporaryFolder folder_;
};

TEST_F(MnistTest, IsFoundInTheFolderAndItsParent) {
  write("mnist/", true);
  for (const std::string& dir : {folder_.path(), folder_.path("mnist")}) {
    for (const Split split : {Split::kTrain, Split::kTest}) {
      const ImageSet set = read_mnist(dir, split);
      EXPECT_EQ(set.size(), 2);
      EXPECT_EQ(set.height, 3);
      EXPECT_EQ(set.width, 2);
      EXPECT_EQ(set.channels, 1);
      EXPECT_EQ(set.labels, (Bytes{7, 9}));
      EXPECT_EQ(set.image(1)[0], 7);
      EXPECT_EQ(set.class_names.size(), 10u);
    }
  }
}

TEST_F(MnistTest, FashionHasItsOwnNames) {
  write("FashionMNIST/raw/", false);
  EXPECT_EQ(read_fashion_mnist(folder_.path(), Split::kTest).class_names[9], "Ankle boot");
}

TEST_F(MnistTest, MissingFilesAreNamed) {
  expect_error([&] { read_mnist(folder_.path(), Split::kTest); },
               {"mnist", "t10k-images-idx3-ubyte", folder_.path(), folder_.path("mnist")});
  expect_error([] { read_mnist("", Split::kTest); }, {"mnist", "--data-dir"});
}

TEST_F(MnistTest, LabelsMustFitTheImages) {
  write("", false);
  const std::string path = folder_.write("train-labels-idx1-ubyte", header({3}) + Bytes{1, 2, 3});
  expect_error([&] { read_mnist(folder_.path(), Split::kTrain); },
               {path, "number of labels", "got 3", "expected 2"});
  folder_.write("train-labels-idx1-ubyte", header({2}) + Bytes{1, 10});
  expect_error([&] { read_mnist(folder_.path(), Split::kTrain); },
               {path, "label 1", "got 10", "less than 10"});
}

}  // namespace
}  // namespace wick::data
