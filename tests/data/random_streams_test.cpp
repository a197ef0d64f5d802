// Whatever is random about loading follows from the seed, the epoch and the sample (or the batch)
// alone, and no two of these share random numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "wick/core/ops/crop_images.h"
#include "wick/data/augment.h"
#include "wick/data/batch_color_jitter.h"
#include "wick/data/batch_mix.h"
#include "wick/data/detail/streams.h"
#include "wick/data/image_dataset.h"
#include "wick/data/prefetcher.h"
#include "wick/tests/data/loader_testing.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/paths.h"

namespace wick::data {
namespace {

constexpr int kNoiseImages = 37, kNoiseSide = 12;

std::shared_ptr<ImageSet> noise_images() {
  auto images = std::make_shared<ImageSet>();
  images->height = images->width = kNoiseSide;
  images->channels = 3;
  std::minstd_rand random(1);
  for (int i = 0; i < kNoiseImages * kNoiseSide * kNoiseSide * 3; ++i) {
    images->pixels.push_back(static_cast<uint8_t>(random() >> 8));
  }
  for (int i = 0; i < kNoiseImages; ++i) images->labels.push_back(static_cast<uint8_t>(i % 10));
  images->class_names.resize(10);
  return images;
}

// Every random transform of images, by the name of its class.
std::map<std::string, std::shared_ptr<const Transform>> random_transforms() {
  const ColorJitterOptions colors{
      .brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1};
  return {
      {"RandomCrop", std::make_shared<RandomCrop>(ImageSize{kNoiseSide, kNoiseSide}, 2)},
      {"RandomHorizontalFlip", std::make_shared<RandomHorizontalFlip>()},
      {"RandomVerticalFlip", std::make_shared<RandomVerticalFlip>()},
      {"RandomResizedCrop", std::make_shared<RandomResizedCrop>(ImageSize{kNoiseSide, kNoiseSide})},
      {"ColorJitter", std::make_shared<ColorJitter>(colors)},
      {"RandomGrayscale", std::make_shared<RandomGrayscale>(0.5)},
      {"RandomErasing", std::make_shared<RandomErasing>(RandomErasingOptions{.random = true})},
      {"Cutout", std::make_shared<Cutout>(4, 2)},
      {"RandAugment", std::make_shared<RandAugment>()}};
}

TEST(RandomStreams, AllTransformsAreTested) {
  const auto tested = random_transforms();
  const std::set<std::string> not_random = {"Resize", "CenterCrop"};
  size_t found = 0;
  for (const char* header : {"transforms.h", "augment.h"}) {
    std::ifstream file(testing::source_folder() + "/data/" + header);
    for (std::string line; std::getline(file, line);) {
      const size_t end = line.find(" final : public Transform {");
      if (end == std::string::npos || !line.starts_with("class ")) continue;
      const std::string name = line.substr(6, end - 6);
      EXPECT_TRUE(tested.count(name) + not_random.count(name) == 1) << name;
      ++found;
    }
  }
  EXPECT_EQ(found, tested.size() + not_random.size());
}

// Takes the bytes of the next `count` batches.
using TakeFrom =
    std::function<std::vector<Bytes>(int workers, int64_t epoch, int64_t batch, int count)>;

// Two epochs of so many batches, with their ends, are the same for any number of workers, and from
// the middle of the second.
void expect_repeatable(const TakeFrom& walk, int batches, const std::string& what) {
  const int middle = batches / 2, before = batches + 1 + middle, rest = batches + 1 - middle;
  std::vector<Bytes> expected;
  for (const int workers : {0, 1, 2, 7}) {
    const std::vector<Bytes> got = walk(workers, 0, 0, before + rest);
    if (expected.empty()) expected = got;
    ASSERT_EQ(got, expected) << what << ", " << workers << " workers";
    const std::vector<Bytes> from_middle(expected.begin() + before, expected.end());
    ASSERT_EQ(walk(workers, 1, middle, rest), from_middle) << what << ", " << workers << " workers";
  }
  EXPECT_EQ(expected[static_cast<size_t>(batches)], Bytes());
  EXPECT_EQ(expected.back(), Bytes());
}

DataLoaderOptions stream_options(int workers, bool shuffle = true) {
  return {.batch_size = 10, .shuffle = shuffle, .num_workers = workers, .seed = 9};
}

TEST(RandomStreams, TransformsDependOnSampleAndEpochAlone) {
  const auto images = noise_images();
  auto chains = std::map<std::string, Transforms>();
  for (const auto& [name, transform] : random_transforms()) {
    chains[name] = {transform};
    chains["all"].push_back(transform);
  }
  for (const auto& [name, transforms] : chains) {
    const auto dataset = std::make_shared<ImageDataset>(images, transforms, normalize_by(*images));
    const TakeFrom walk = [&](int workers, int64_t epoch, int64_t batch, int count) {
      DataLoader loader(dataset, stream_options(workers));
      loader.seek(epoch, batch);
      return take(loader, count);
    };
    expect_repeatable(walk, 4, name);
    DataLoader ordered(dataset, stream_options(0, /*shuffle=*/false));
    EXPECT_NE(take(ordered, 5), take(ordered, 5))
        << name;  // it is random, and otherwise in each epoch
  }
}

Bytes bytes_on_cpu(const Tensor& tensor) {
  const Tensor host = tensor.cpu();
  const auto* first = static_cast<const uint8_t*>(host.raw_data());
  return {first, first + host.numel() * size_of(host.dtype())};
}

// What the device does: what there is to do to the batches of a data set, and to mix them.
TEST(RandomStreams, WhatIsDoneToBatchesDependsOnBatchAndEpochAlone) {
  const auto images = noise_images();
  const auto each = random_transforms();
  const std::map<std::string, Transforms> chains = {
      {"erasing",
       {each.at("RandomResizedCrop"), each.at("RandomHorizontalFlip"),
        std::make_shared<RandomErasing>()}},
      {"colors", {each.at("RandomCrop"), each.at("RandomVerticalFlip"), each.at("ColorJitter")}}};
  for (const Device device : wick::testing::devices()) {
    for (const auto& [name, transforms] : chains) {
      const auto dataset =
          std::make_shared<ImageDataset>(images, transforms, normalize_by(*images));
      const BatchMix mix(10, {.mixup = 0.5, .cutmix = 1, .seed = 9});
      const TakeFrom walk = [&](int workers, int64_t epoch, int64_t batch, int count) {
        Prefetcher ahead = load_ahead(dataset, stream_options(workers), device);
        ahead.seek(epoch, batch);
        std::vector<Bytes> all;
        for (int i = 0; i < count; ++i) {
          const std::optional<Batch> next = ahead.next();
          all.emplace_back();
          if (!next) continue;
          const auto mixed = mix.mix((*next)[0], (*next)[1], ahead.epoch(), ahead.batch() - 1);
          all.back() = bytes_on_cpu(mixed.images) + bytes_on_cpu(mixed.targets);
        }
        return all;
      };
      expect_repeatable(walk, 4, name);
    }
  }
}

// Fields: four random numbers, and the place in the shard.
class RandomShards final : public IterableDataset {
 public:
  const std::vector<Field>& fields() const override { return fields_; }
  int num_shards() const override { return 3; }
  std::unique_ptr<SampleIterator> iterate(int, int64_t) const override {
    struct Reader final : SampleIterator {
      bool next(PhiloxStream random, std::span<void* const> out) override {
        for (int i = 0; i < 4; ++i) static_cast<float*>(out[0])[i] = random.uniform();
        std::memcpy(out[1], &at, sizeof at);
        return at++ < 14;
      }
      int64_t at = 0;
    };
    return std::make_unique<Reader>();
  }

 private:
  std::vector<Field> fields_ = {{{4}, kFloat32, MemoryFormat::kContiguous},
                                {{}, kInt64, MemoryFormat::kContiguous}};
};

TEST(RandomStreams, IterableDataDependsOnShardPlaceAndEpochAlone) {
  const auto dataset = std::make_shared<RandomShards>();  // three of 14: two epochs of 9 batches
  std::vector<Bytes> expected;
  for (const int workers : {0, 1, 2, 7}) {
    DataLoader loader(dataset, {.batch_size = 5, .num_workers = workers, .seed = 9});
    const std::vector<Bytes> got = take(loader, 20);
    if (expected.empty()) expected = got;
    EXPECT_EQ(got, expected) << workers;
    DataLoader resumed(dataset, {.batch_size = 5, .num_workers = workers, .seed = 9});
    resumed.seek(1, 4);
    EXPECT_EQ(take(resumed, 6), std::vector<Bytes>(expected.begin() + 14, expected.end()));
  }
  EXPECT_NE(expected[0], expected[10]);
}

// --- No two share random numbers ----------------------------------------------------------------

// Numbers in [0, 1) that were drawn for one thing, a sample or a batch in an epoch.
using Drawn = std::vector<double>;

// Expects `drawn`, of so many things per epoch, to be different, each uniform, and independent of
// their neighbours and of the same thing in the next epoch.
void expect_independent(const std::vector<Drawn>& drawn, size_t per_epoch, const char* what) {
  constexpr int kBins = 64;
  EXPECT_EQ(std::set<Drawn>(drawn.begin(), drawn.end()).size(), drawn.size()) << what;
  const auto chi_squared = [&](size_t distance) {
    std::vector<double> bins(kBins);
    double count = 0;
    for (size_t i = 0; i + distance < drawn.size(); ++i) {
      for (size_t w = 0; w < drawn[i].size(); ++w, ++count) {
        const double base = distance == 0 ? 0 : drawn[i + distance][w];
        const double difference = drawn[i][w] - base;
        const double turned = difference < 0 ? difference + 1 : difference;
        ++bins.at(std::min<size_t>(kBins - 1, static_cast<size_t>(turned * kBins)));
      }
    }
    double sum = 0;
    for (const double bin : bins) sum += std::pow(bin - count / kBins, 2) / (count / kBins);
    return sum;
  };
  const double limit = (kBins - 1) + 5 * std::sqrt(2.0 * (kBins - 1));
  for (const size_t distance : {size_t{0}, size_t{1}, size_t{2}, per_epoch, per_epoch + 1}) {
    EXPECT_LT(chi_squared(distance), limit) << what << ", " << distance;
  }
}

// The floats of field 0 of each sample.
std::vector<Drawn> drawn_by(DataLoader loader, int epochs) {
  std::vector<Drawn> all;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (const Batch& batch : loader) {
      const int64_t words = batch[0].numel() / batch.size();
      const auto* values = batch[0].data<float>();
      for (int64_t i = 0; i < batch.size(); ++i) {
        all.emplace_back(values + i * words, values + (i + 1) * words);
      }
    }
  }
  return all;
}

constexpr int kStreamSamples = 100, kStreamEpochs = 40;

TEST(RandomStreams, NoTwoSamplesOrEpochsShareOne) {
  const auto drawn = drawn_by(
      loader_of(kStreamSamples, {.batch_size = kStreamSamples, .num_workers = 2}), kStreamEpochs);
  expect_independent(drawn, kStreamSamples, "samples");
  // Nor is one a shifted other: of 48000 words of 24 bits, chance repeats about 69.
  std::multiset<double> words;
  size_t repeated = 0;
  for (const Drawn& stream : drawn) {
    for (const double word : stream) {
      repeated += words.count(word) > 0 ? 1 : 0;
      words.insert(word);
    }
  }
  EXPECT_LT(repeated, 150u);
  const auto sampler = std::make_shared<RandomSampler>(10, /*replacement=*/true, kStreamSamples);
  const auto again = drawn_by(loader_of(10, {.batch_size = 20, .sampler = sampler}), kStreamEpochs);
  expect_independent(again, kStreamSamples, "samples that come repeatedly");
  const DataLoaderOptions options{.batch_size = 7, .num_workers = 1};
  expect_independent(drawn_by(DataLoader(std::make_shared<RandomShards>(), options), 80), 3 * 14,
                     "shards");
}

TEST(RandomStreams, NoTwoBatchesOrEpochsShareOne) {
  const BatchTransform crop(Normalize::to_unit(1), {.size = {1, 1}, .seed = 3});
  const BatchColorJitter jitter({.brightness = {0, 1}, .contrast = {0, 1}, .saturation = {0, 1}},
                                3);
  const BatchMix mix(2, {.mixup = 1, .seed = 3});  // Beta(1, 1) is uniform
  std::vector<Drawn> places, factors, shares;
  for (int64_t epoch = 0; epoch < kStreamEpochs; ++epoch) {
    for (int64_t batch = 0; batch < kStreamSamples; ++batch) {
      Drawn place, factor, share;
      const auto numbers = crop.placements(4, {65536, 65536}, epoch, batch).to_vector<int32_t>();
      const auto drawn = jitter.draw(4, epoch, batch).factors.to_vector<float>();
      for (size_t i = 0; i < 4; ++i) {
        place.push_back(numbers[i * kCropImagesNumbers] / 65536.0);
        place.push_back(numbers[i * kCropImagesNumbers + 1] / 65536.0);
      }
      for (size_t i = 0; i < 12; ++i) factor.push_back(std::min<double>(drawn[i], 0.9999999));
      share.push_back(mix.draw(epoch, batch, {4, 4}).share);
      places.push_back(place);
      factors.push_back(factor);
      shares.push_back(share);
    }
  }
  expect_independent(places, kStreamSamples, "places");
  expect_independent(factors, kStreamSamples, "factors");
  expect_independent(shares, kStreamSamples, "shares");
}

// The same seed gives samples, places, shards, orders and batches numbers of their own.
TEST(RandomStreams, NoTwoPurposesShareOne) {
  std::set<std::vector<uint32_t>> streams;
  const uint64_t purposes[] = {0, kStreamsOfPlaces, kStreamsOfShards, kStreamsOfOrders,
                               kStreamsOfShards + (uint64_t{1} << 40)};
  for (const uint64_t purpose : purposes) {
    for (uint64_t i = 0; i < 50; ++i) {
      for (int64_t epoch = 0; epoch < 3; ++epoch) {
        PhiloxStream random = data_stream(3, epoch, purpose + i);
        std::vector<uint32_t> words;
        for (int w = 0; w < 4; ++w) words.push_back(random.next());
        EXPECT_TRUE(streams.insert(words).second) << purpose << " + " << i;
      }
    }
  }
}

}  // namespace
}  // namespace wick::data
