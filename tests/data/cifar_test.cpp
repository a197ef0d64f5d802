#include "wick/data/cifar.h"

#include <gtest/gtest.h>

#include "wick/tests/data/data_testing.h"

namespace wick::data {
namespace {

// One record: labels, then planes of 10, 20 and 30, each with its second pixel one higher.
Bytes record(const Bytes& labels) {
  Bytes bytes = labels;
  for (const uint8_t value : {10, 20, 30}) {
    Bytes plane(1024, value);
    ++plane[1];
    bytes = bytes + plane;
  }
  return bytes;
}

TEST(Cifar, TenHasFiveTrainFilesAndInterleavesItsPlanes) {
  const TemporaryFolder folder;
  for (uint8_t batch = 1; batch <= 5; ++batch) {
    folder.write(concat("cifar-10-batches-bin/data_batch_", static_cast<int>(batch), ".bin"),
                 record({batch}) + record({0}));
  }
  folder.write("cifar-10-batches-bin/test_batch.bin", record({9}));
  for (const std::string& dir : {folder.path(), folder.path("cifar-10-batches-bin")}) {
    const ImageSet train = read_cifar10(dir, Split::kTrain);
    EXPECT_EQ(train.labels, (Bytes{1, 0, 2, 0, 3, 0, 4, 0, 5, 0}));
    EXPECT_EQ(first(Bytes(train.image(9), train.image(9) + 3072), 6),
              (Bytes{10, 20, 30, 11, 21, 31}));
    EXPECT_EQ(read_cifar10(dir, Split::kTest).labels, Bytes{9});
    EXPECT_EQ(train.class_names[5], "dog");
  }
}

TEST(Cifar, HundredUsesTheFineLabel) {
  const TemporaryFolder folder;
  folder.write("train.bin", record({19, 99}));
  folder.write("test.bin", record({3, 100}));
  const ImageSet train = read_cifar100(folder.path(), Split::kTrain);
  EXPECT_EQ(train.labels, Bytes{99});
  ASSERT_EQ(train.class_names.size(), 100u);
  EXPECT_EQ(train.class_names[99], "worm");
  EXPECT_EQ(train.image(0)[0], 10);
  expect_error([&] { read_cifar100(folder.path(), Split::kTest); },
               {folder.path("test.bin"), "image 0", "got 100", "less than 100"});
}

TEST(Cifar, WrongSizesAreErrors) {
  const TemporaryFolder folder;
  for (const Bytes& bytes : {Bytes{}, Bytes{1}, first(record({1}), 3072), record({1}) + Bytes{0}}) {
    const std::string path = folder.write("test_batch.bin", bytes);
    expect_error([&] { read_cifar10(folder.path(), Split::kTest); },
                 {path, "wrong size", concat("got ", bytes.size()), "3073"});
  }
}

TEST(Cifar, WrongLabelsAndMissingFilesAreErrors) {
  const TemporaryFolder folder;
  const std::string path = folder.write("data_batch_1.bin", record({1}) + record({10}));
  expect_error([&] { read_cifar10(folder.path(), Split::kTrain); },
               {path, "image 1", "got 10", "less than 10"});
  folder.write("data_batch_1.bin", record({1}));
  expect_error([&] { read_cifar10(folder.path(), Split::kTrain); },
               {folder.path("data_batch_2.bin"), "cannot read"});
  expect_error([&] { read_cifar100(folder.path(), Split::kTrain); },
               {"cifar100", "train.bin", folder.path("cifar-100-binary")});
}

}  // namespace
}  // namespace wick::data
