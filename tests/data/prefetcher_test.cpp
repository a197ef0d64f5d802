#include "wick/data/prefetcher.h"

#include <gtest/gtest.h>

#include "wick/core/autograd.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/random.h"
#include "wick/core/stream.h"
#include "wick/data/batch_transform.h"
#include "wick/data/image_dataset.h"
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

TEST(Prefetcher, StaysWhereItIsWhereItIsSentNowhere) {
  for (const Device device : testing::devices()) {
    DataLoader plain = loader_of(33, options_of(0));
    const std::vector<Bytes> expected = take(plain, 8);
    Prefetcher prefetcher(loader_of(33, options_of(2)), device, {.depth = 3});
    for (size_t i = 0; i < 7; ++i) {
      expect_error([&] { prefetcher.seek(0, 8); }, {"seek", "got 8", "0 to 7"});
      EXPECT_EQ(prefetcher.batch(), static_cast<int64_t>(i));
      EXPECT_EQ(bytes_on_host(*prefetcher.next()), expected[i]);
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

// Which of a data set's transforms are left to the device.
TEST(Prefetcher, LeavesTheLastTransformsToTheDevice) {
  auto images = std::make_shared<ImageSet>();
  images->height = images->width = 8;
  images->channels = 3;
  images->pixels.resize(4 * 192);
  images->labels.resize(4);
  images->class_names.resize(1);
  const auto crop = std::make_shared<RandomCrop>(ImageSize{8, 6}, 2);
  const auto wide =
      std::make_shared<RandomCrop>(ImageSize{20, 20}, RandomCropOptions{.pad_if_needed = true});
  const auto bright = std::make_shared<RandomCrop>(
      ImageSize{8, 6}, RandomCropOptions{.padding = 2, .border = {.fill = 9}});
  const auto resized = std::make_shared<RandomResizedCrop>(ImageSize{5, 5});
  const auto across = std::make_shared<RandomHorizontalFlip>(0.25);
  const auto down = std::make_shared<RandomVerticalFlip>(0.5);
  const auto colors = std::make_shared<ColorJitter>(ColorJitterOptions{.brightness = 0.5});
  const auto erasing = std::make_shared<RandomErasing>(RandomErasingOptions{.p = 0.75});
  const auto noisy = std::make_shared<RandomErasing>(RandomErasingOptions{.random = true});
  const auto left = [&](const Transforms& transforms) {
    const ImageDataset whole(images, transforms, normalize_by(*images));
    const BytesDataset bytes = *whole.as_bytes();
    const BatchTransformOptions& rest = bytes.transform;
    const Shape& shape = bytes.dataset->fields()[0].shape;
    return concat(shape[1], "x", shape[2], rest.random ? " random" : "", " to ", rest.size.height,
                  "x", rest.size.width, "+", rest.padding, " flips ", rest.horizontal_flip, " ",
                  rest.vertical_flip, " erasing ", rest.erasing.p, bytes.jitter ? " colors" : "");
  };
  EXPECT_EQ(left({}), "8x8 to 0x0+0 flips 0 0 erasing 0");
  EXPECT_EQ(left({crop, across, down, erasing}), "8x8 random to 8x6+2 flips 0.25 0.5 erasing 0.75");
  EXPECT_EQ(left({crop, down, colors}), "8x8 random to 8x6+2 flips 0 0.5 erasing 0 colors");
  EXPECT_EQ(left({resized, across}), "5x5 random to 0x0+0 flips 0.25 0 erasing 0");
  EXPECT_EQ(left({resized, crop}), "5x5 random to 8x6+2 flips 0 0 erasing 0");
  EXPECT_EQ(left({across, crop}), "8x8 random to 8x6+2 flips 0 0 erasing 0");
  EXPECT_EQ(left({across, across}), "8x8 random to 0x0+0 flips 0.25 0 erasing 0");
  for (const auto& kept : {wide, bright}) {
    const Shape size = {kept->output_size({}).height, kept->output_size({}).width};
    EXPECT_EQ(left({kept, across}),
              concat(size[0], "x", size[1], " random to 0x0+0 flips 0.25 0 erasing 0"));
  }
  EXPECT_EQ(left({noisy}), "8x8 to 0x0+0 flips 0 0 erasing 0");
  EXPECT_EQ(left({colors, erasing}), "8x8 random to 0x0+0 flips 0 0 erasing 0.75");
}

// What comes to a GPU is what the workers would have made with the same places, flips and colours.
TEST(Prefetcher, TheDeviceDoesWhatIsLeftToIt) {
  auto images = std::make_shared<ImageSet>();
  images->height = images->width = 8;
  images->channels = 3;
  for (int i = 0; i < 10 * 192; ++i) images->pixels.push_back(static_cast<uint8_t>(i * i >> 3));
  images->labels.resize(10);
  images->class_names.resize(1);
  const ColorJitterOptions colors{.brightness = {1.5, 1.5}};  // always the same
  const Transforms transforms = {std::make_shared<RandomCrop>(ImageSize{8, 8}, 0),
                                 std::make_shared<RandomHorizontalFlip>(1.0),
                                 std::make_shared<ColorJitter>(colors)};
  const auto dataset = std::make_shared<ImageDataset>(images, transforms, normalize_by(*images));
  DataLoader plain(dataset, options_of(0));
  for (const Device device : testing::devices()) {
    plain.seek(0, 0);
    Prefetcher ahead = load_ahead(dataset, options_of(2), device);
    for (int i = 0; i < 2; ++i) {
      const Batch got = *ahead.next(), want = *plain.next();
      ASSERT_TRUE(got[0].is_contiguous(MemoryFormat::kChannelsLast));
      EXPECT_EQ(got[1].cpu().to_vector<int64_t>(), want[1].to_vector<int64_t>());
      const auto a = got[0].cpu().to_vector<float>(), b = want[0].to_vector<float>();
      ASSERT_EQ(a.size(), b.size());
      for (size_t j = 0; j < a.size(); ++j) ASSERT_NEAR(a[j], b[j], 0.02);  // a byte's rounding
    }
  }
}

}  // namespace
}  // namespace wick::data
