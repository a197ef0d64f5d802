#include "wick/data/prefetcher.h"

#include <gtest/gtest.h>

#include "wick/core/autograd.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/random.h"
#include "wick/core/stream.h"
#include "wick/data/batch_transform.h"
#include "wick/tests/data/loader_testing.h"
#include "wick/tests/harness/devices.h"

namespace wick::data {
namespace {

DataLoaderOptions options_of(int workers) {
  return {.batch_size = 5, .shuffle = true, .num_workers = workers, .pin_memory = true, .seed = 11};
}

Bytes bytes_on_host(const Batch& batch) {
  Batch host;
  for (const Tensor& field : batch.fields) host.fields.push_back(field.cpu());
  return bytes(host);
}

TEST(Prefetcher, GivesWhatTheLoaderGives) {
  DataLoader plain = loader_of(33, options_of(0));
  const std::vector<Bytes> expected = take(plain, 20);
  for (const Device device : testing::devices()) {
    for (const int workers : {0, 1, 3}) {
      for (const int64_t depth : {1, 2, 5}) {
        Prefetcher prefetcher(loader_of(33, options_of(workers)), device, {.depth = depth});
        EXPECT_EQ(prefetcher.size(), 7);
        for (size_t i = 0; i < expected.size(); ++i) {
          EXPECT_EQ(prefetcher.epoch(), static_cast<int64_t>(i / 8));
          EXPECT_EQ(prefetcher.batch(), static_cast<int64_t>(i % 8));
          const std::optional<Batch> batch = prefetcher.next();
          ASSERT_EQ(batch ? bytes_on_host(*batch) : Bytes(), expected[i]) << i;
          EXPECT_TRUE(!batch || (*batch)[0].device() == device);
          EXPECT_LE(prefetcher.held(), depth);
        }
      }
    }
  }
}

// Batches are used and dropped without a wait, while their memory is filled with the next ones.
TEST(Prefetcher, OrdersCopiesAndUsesByEventsAlone) {
  for (const Device device : testing::devices()) {
    Prefetcher prefetcher(loader_of(400, options_of(2)), device, {.depth = 3});
    DataLoader plain = loader_of(400, options_of(0));
    const Tensor sum = zeros({2, 3, 2}, kFloat32, device);
    const Tensor expected = zeros({2, 3, 2});
    const int64_t waits = synchronization_count();
    while (const std::optional<Batch> batch = prefetcher.next()) sum.add_((*batch)[0].sum({0}));
    EXPECT_EQ(synchronization_count(), waits);
    while (const std::optional<Batch> batch = plain.next()) expected.add_((*batch)[0].sum({0}));
    const auto got = sum.to_vector<float>(), want = expected.to_vector<float>();
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-3);
  }
}

// A batch that was dropped while a stream has yet to use it is not overwritten by the next ones,
// which another stream waits for.
TEST(Prefetcher, MemoryOfABatchWaitsForItsUser) {
  for (const Device device : testing::devices()) {
    DataLoader plain = loader_of(33, options_of(0));
    const auto expected = (*plain.next())[0].sum({0}).to_vector<float>();
    Prefetcher prefetcher(loader_of(33, options_of(0)), device);
    const Stream late = stream_from_pool(device), soon = stream_from_pool(device);
    Tensor sum;
    {
      const StreamGuard guard(late);
      sum = (*prefetcher.next())[0].sum({0});
    }
    {
      const StreamGuard guard(soon);
      for (int i = 0; i < 5; ++i) {
        const Batch batch = *prefetcher.next();
        synchronize(soon);
      }
    }
    const StreamGuard guard(late);
    const auto got = sum.to_vector<float>();
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5);
  }
}

TEST(Prefetcher, GoesOnFromThePositionThatItTells) {
  for (const Device device : testing::devices()) {
    DataLoader plain = loader_of(33, options_of(0));
    const std::vector<Bytes> expected = take(plain, 16);
    for (const size_t start : {0, 3, 7, 8, 11}) {
      Prefetcher first(loader_of(33, options_of(2)), device);
      for (size_t i = 0; i < start; ++i) first.next();
      Prefetcher second(loader_of(33, options_of(2)), device);
      for (Prefetcher* each : {&second, &first}) {
        each->seek(static_cast<int64_t>(start / 8), static_cast<int64_t>(start % 8));
        for (size_t i = start; i < start + 4; ++i) {
          const std::optional<Batch> batch = each->next();
          ASSERT_EQ(batch ? bytes_on_host(*batch) : Bytes(), expected[i]) << start;
        }
      }
    }
  }
}

TEST(Prefetcher, ErrorsComeInTurn) {
  for (const Device device : testing::devices()) {
    for (const int workers : {0, 2}) {
      Prefetcher prefetcher(DataLoader(std::make_shared<FaultyDataset>(20, 9),
                                       {.batch_size = 2, .num_workers = workers}),
                            device, {.depth = 4});
      for (int64_t batch = 0; batch < 10; ++batch) {
        if (batch == 4) {
          expect_error([&] { prefetcher.next(); }, {"/data/9.jpg: damaged JPEG"});
        } else {
          EXPECT_EQ((*prefetcher.next())[1].cpu().data<int64_t>()[0], 2 * batch);
        }
        EXPECT_EQ(prefetcher.batch(), batch + 1);
      }
      EXPECT_FALSE(prefetcher.next());
    }
  }
  expect_error([] { Prefetcher(loader_of(4, {}), kCpu, {.depth = 0}); }, {"depth", "got 0"});
}

TEST(Prefetcher, LetsTheDeviceNormalise) {
  auto images = std::make_shared<ImageSet>();
  images->height = images->width = 4;
  images->channels = 3;
  for (int i = 0; i < 10 * 48; ++i) images->pixels.push_back(static_cast<uint8_t>(i * 37));
  images->labels.resize(10);
  images->class_names.resize(1);
  const auto floats = std::make_shared<ImageDataset>(images, Transforms(), normalize_by(*images));
  const std::optional<BytesDataset> raw = floats->as_bytes();
  ASSERT_TRUE(raw);
  EXPECT_FALSE(raw->dataset->as_bytes());
  EXPECT_EQ(raw->dataset->fields()[0].dtype, kUint8);
  const BatchTransform transform(raw->normalize, {.random = false});
  const auto normalize = [&](Batch batch, int64_t epoch, int64_t number) {
    EXPECT_EQ(epoch, 0);
    EXPECT_TRUE(number == 0 || number == 1);
    batch.fields[0] = transform.apply(batch[0], epoch, number);
    return batch;
  };
  for (const Device device : testing::devices()) {
    Prefetcher prefetcher(DataLoader(raw->dataset, options_of(1)), device, {.prepare = normalize});
    DataLoader plain(floats, options_of(0));
    for (int i = 0; i < 2; ++i) {
      const Batch batch = *prefetcher.next();
      const Batch expected = *plain.next();
      ASSERT_TRUE(batch[0].is_contiguous(MemoryFormat::kChannelsLast));
      const Tensor got = batch[0].cpu();
      for (int64_t j = 0; j < got.numel(); ++j) {
        ASSERT_NEAR(got.data<float>()[j], expected[0].data<float>()[j], 1e-5);
      }
    }
  }
}

}  // namespace
}  // namespace wick::data
