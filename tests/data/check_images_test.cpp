#include "wick/data/check_images.h"

#include <gtest/gtest.h>

#include <set>

#include "wick/tests/data/jpeg_testing.h"

namespace wick::data {
namespace {

TEST(CheckImages, ListsBadFilesDuplicatesAndCounts) {
  const TemporaryFolder folder;
  const Bytes one = jpeg_of(Bytes(300, 10), 10, 10), two = jpeg_of(Bytes(300, 200), 10, 10);
  folder.write("train/a/1.jpg", one);
  const std::string cut = folder.write("train/a/2.jpg", first(one, one.size() - 30));
  const std::string text = folder.write("train/b/1.jpg", {'n', 'o'});
  folder.write("train/b/2.jpg", two);
  folder.write("test/b/1.jpg", one);
  folder.write("test/b/2.jpg", one);
  const LabelledImages images = open_images("imagefolder", folder.path());
  for (const int workers : {1, 3}) {
    std::set<int64_t> seen;
    const CheckReport report =
        check_images(images, workers, [&](int64_t done) { seen.insert(done); });
    EXPECT_EQ(seen, (std::set<int64_t>{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(report.images, 6);
    ASSERT_EQ(report.bad.size(), 2u);
    EXPECT_EQ(report.bad[0].name, cut);
    EXPECT_NE(report.bad[0].reason.find("damaged JPEG"), std::string::npos);
    EXPECT_EQ(report.bad[1].name, text);
    ASSERT_EQ(report.counts.size(), 2u);
    EXPECT_EQ(report.counts[0].train, 2);
    EXPECT_EQ(report.counts[1].train, 2);
    EXPECT_EQ(report.counts[1].test, 2);
    ASSERT_EQ(report.duplicates.size(), 1u);
    EXPECT_EQ(report.duplicates[0],
              (std::vector<std::string>{folder.path("train/a/1.jpg"), folder.path("test/b/1.jpg"),
                                        folder.path("test/b/2.jpg")}));
  }
}

TEST(CheckImages, WhatItsCallbackThrowsComesOut) {
  const TemporaryFolder folder;
  folder.write("train/a/1.jpg", jpeg_of(Bytes(300, 10), 10, 10));
  folder.write("test/a/1.jpg", jpeg_of(Bytes(300, 10), 10, 10));
  const LabelledImages images = open_images("imagefolder", folder.path());
  expect_error([&] { check_images(images, 2, [](int64_t) { throw Error("enough"); }); },
               {"enough"});
  expect_error([&] { check_images(images, 0); }, {"workers"});
}

}  // namespace
}  // namespace wick::data
