// Samples that are no images: token sequences and rows of tables.
#include <gtest/gtest.h>

#include <algorithm>

#include "wick/core/ops/compare.h"
#include "wick/core/ops/random.h"
#include "wick/data/device_work.h"
#include "wick/data/prefetcher.h"
#include "wick/tests/data/data_testing.h"
#include "wick/tests/harness/devices.h"

namespace wick::data {
namespace {

// Text i: i % 5 + 1 tokens, the first of which is i, and a label.
Sample text(int64_t index) {
  const Tensor tokens = full({index % 5 + 1}, 7, kInt64);
  tokens.data<int64_t>()[0] = index;
  return {tokens, scalar_tensor(index % 2, kInt64)};
}

// Tokens padded with -1 to the longest text, their lengths, and the labels.
Batch pad_texts(std::vector<Sample> samples) {
  const auto n = static_cast<int64_t>(samples.size());
  int64_t longest = 0;
  for (const Sample& sample : samples) longest = std::max(longest, sample[0].size(0));
  Batch batch{{full({n, longest}, -1, kInt64), empty({n}, kInt64), empty({n}, kInt64)}};
  for (int64_t i = 0; i < n; ++i) {
    const Sample& sample = samples[static_cast<size_t>(i)];
    batch[0].select(0, i).narrow(0, 0, sample[0].size(0)).copy_(sample[0]);
    batch[1].data<int64_t>()[i] = sample[0].size(0);
    batch[2].data<int64_t>()[i] = sample[1].item<int64_t>();
  }
  return batch;
}

TEST(TextSamples, MakeBatchesWithFields) {
  const auto texts =
      std::make_shared<FunctionDataset>(3, [](int64_t index, PhiloxStream) { return text(index); });
  DataLoader loader(texts, {.collate_fn = [](std::vector<Sample>) { return Batch(); }});
  expect_error([&] { loader.next(); },
               {"batch 0 of epoch 0", "collate_fn: the batch has no fields: got 0"});
  DataLoader nothing(
      std::make_shared<FunctionDataset>(3, [](int64_t, PhiloxStream) { return Sample(); }), {});
  expect_error([&] { nothing.next(); }, {"the sample has no fields: got 0"});
  expect_error([] { Batch().size(); }, {"batch: size: the batch has no fields: got 0"});
}

TEST(TextSamples, ArePaddedByTheUsersFunction) {
  const auto texts = std::make_shared<FunctionDataset>(
      13, [](int64_t index, PhiloxStream) { return text(index); });
  for (const int workers : {0, 3}) {
    for (const Device device : testing::devices()) {
      Prefetcher loader = load_ahead(
          texts,
          {.batch_size = 4, .num_workers = workers, .collate_fn = pad_texts, .pin_memory = true},
          device);
      int64_t next = 0;
      while (const std::optional<Batch> batch = loader.next()) {
        EXPECT_EQ((*batch)[0].device(), device);
        const Tensor tokens = (*batch)[0].cpu(), lengths = (*batch)[1].cpu();
        for (int64_t i = 0; i < batch->size(); ++i, ++next) {
          EXPECT_EQ(tokens[i][0].item<int64_t>(), next);
          EXPECT_EQ(lengths[i].item<int64_t>(), next % 5 + 1);
          EXPECT_EQ((tokens[i] == -1).sum().item<int64_t>(), tokens.size(1) - (next % 5 + 1));
        }
      }
      EXPECT_EQ(next, 13);
    }
  }
}

TEST(TextSamples, OfUnlikeLengthsNeedAFunction) {
  const auto texts =
      std::make_shared<FunctionDataset>(4, [](int64_t index, PhiloxStream) { return text(index); });
  DataLoader loader(texts, {.batch_size = 2});
  expect_error([&] { loader.next(); }, {"field 0", "int64 [1] and int64 [2]", "collate_fn"});
  expect_error([] { FunctionDataset(3, nullptr); }, {"no function"});
  expect_error([] { FunctionDataset(-1, [](int64_t, PhiloxStream) { return Sample(); }); },
               {"size", "got -1"});
}

TEST(TableSamples, AreStackedFieldByField) {
  // A row: three numbers, a category, a target.
  const auto row = [](int64_t index, PhiloxStream random) -> Sample {
    const Tensor numbers = full({3}, static_cast<double>(index));
    numbers.data<float>()[2] = random.uniform();
    return {numbers, scalar_tensor(index % 4, kInt64), scalar_tensor(0.5 * index, kFloat64)};
  };
  const auto table = std::make_shared<FunctionDataset>(10, row);
  std::vector<std::vector<float>> seen;
  for (const int workers : {0, 2}) {
    DataLoader loader(table, {.batch_size = 5, .num_workers = workers, .seed = 3});
    loader.next();
    const Batch batch = *loader.next();
    EXPECT_EQ(batch[0].shape(), (Shape{5, 3}));
    EXPECT_EQ(batch[1].to_vector<int64_t>(), (std::vector<int64_t>{1, 2, 3, 0, 1}));
    EXPECT_EQ(batch[2].to_vector<double>(), (std::vector<double>{2.5, 3, 3.5, 4, 4.5}));
    seen.push_back(batch[0].to_vector<float>());
  }
  EXPECT_EQ(seen[0], seen[1]);  // random numbers are the sample's own
  DataLoader alone(table, {.batch_size = {}});
  EXPECT_EQ((*alone.next())[0].shape(), (Shape{3}));
}

TEST(TableSamples, OfTensorsKeepTheirOrderOfFields) {
  const auto rows = std::make_shared<TensorDataset>(
      std::vector<Tensor>{arange(6, kFloat32).reshape({6, 1}), arange(6), arange(6, kFloat64)});
  DataLoader loader(rows, {.batch_size = 3, .shuffle = true, .num_workers = 2});
  while (const std::optional<Batch> batch = loader.next()) {
    ASSERT_EQ(batch->fields.size(), 3u);
    EXPECT_TRUE(equal((*batch)[0].squeeze(1).to(kInt64), (*batch)[1]));
    EXPECT_TRUE(equal((*batch)[2].to(kInt64), (*batch)[1]));
  }
}

// Overrides neither way of giving samples.
class Nothing final : public Dataset {
  int64_t size() const override { return 1; }
};

TEST(Dataset, SaysWhatIsMissing) {
  DataLoader loader(std::make_shared<Nothing>(), {});
  expect_error([&] { loader.next(); }, {"no fields and no get"});
}

// Lines of a file, which come one after the other.
class Lines final : public IterableDataset {
  std::unique_ptr<SampleIterator> iterate(int, int64_t) const override {
    struct Walk final : SampleIterator {
      std::optional<Sample> get(PhiloxStream) override {
        if (at == 7) return {};
        return text(at++);
      }
      int64_t at = 0;
    };
    return std::make_unique<Walk>();
  }
};

TEST(TextSamples, ComeFromAStreamToo) {
  for (const int workers : {0, 2}) {
    DataLoader loader(std::make_shared<Lines>(),
                      {.batch_size = 3, .num_workers = workers, .collate_fn = pad_texts});
    std::vector<int64_t> firsts, lengths;
    while (const std::optional<Batch> batch = loader.next()) {
      for (int64_t i = 0; i < batch->size(); ++i) {
        firsts.push_back((*batch)[0][i][0].item<int64_t>());
        lengths.push_back((*batch)[1][i].item<int64_t>());
      }
    }
    EXPECT_EQ(firsts, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(lengths, (std::vector<int64_t>{1, 2, 3, 4, 5, 1, 2}));
  }
}

// Tokens of which the device replaces some, by the batch's own random numbers.
class MaskedTokens final : public Dataset, public DeviceWorkSource {
 public:
  int64_t size() const override { return 6; }
  Sample get(int64_t index, PhiloxStream) const override { return {full({8}, index, kInt64)}; }
  std::optional<DeviceWork> device_work(int64_t part) const override {
    const auto mask = [part](Batch batch, int64_t epoch, int64_t number) {
      Generator generator(batch.seed + static_cast<uint64_t>(100 * epoch + 10 * number + part));
      const Tensor chance = rand(batch[0].shape(), kFloat32, batch[0].device(), &generator);
      batch.fields[0] = batch[0].masked_fill(chance < 0.5, -1);
      return batch;
    };
    return DeviceWork{std::make_shared<MaskedTokens>(), mask};
  }
};

TEST(DeviceWork, IsAskedOfAnyDataSet) {
  for (const Device device : testing::devices()) {
    Prefetcher loader = load_ahead(std::make_shared<MaskedTokens>(), {.batch_size = 6}, device);
    const Tensor tokens = (*loader.next())[0].cpu();
    const auto masked = (tokens == -1).sum().item<int64_t>();
    if (device.is_cpu()) {
      EXPECT_EQ(masked, 0);  // nothing is left to a device that is none
    } else {
      EXPECT_GT(masked, 0);
      EXPECT_LT(masked, tokens.numel());
    }
  }
}

}  // namespace
}  // namespace wick::data
