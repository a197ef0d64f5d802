#include "wick/core/ops/embedding_bag.h"

#include <gtest/gtest.h>

#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/reduce.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/op_case.h"

namespace wick::testing {
namespace {

// The bags of a matrix of indices, by loops. `weights`: what each row counts, or null.
HostArray bag_rows(const HostArray& table, const HostArray& indices, const HostArray* weights,
                   BagMode mode) {
  const int64_t bags = indices.shape[0], length = indices.shape[1], width = table.shape[1];
  HostArray y{{bags, width}, {}};
  for (int64_t bag = 0; bag < bags; ++bag) {
    for (int64_t d = 0; d < width; ++d) {
      double sum = 0, most = 0;
      for (int64_t k = 0; k < length; ++k) {
        const auto at = static_cast<size_t>(bag * length + k);
        const double row =
            table.values[static_cast<size_t>(static_cast<int64_t>(indices.values[at]) * width + d)];
        most = k == 0 || row > most ? row : most;
        sum += row * (weights != nullptr ? weights->values[at] : 1);
      }
      const double mean = sum / static_cast<double>(length);
      y.values.push_back(mode == BagMode::kSum ? sum : mode == BagMode::kMean ? mean : most);
    }
  }
  return y;
}

EmbeddingBagOptions bag_mode(BagMode mode) {
  EmbeddingBagOptions options;
  options.mode = mode;
  return options;
}

WICK_OP_CASE(
    embedding_bag,
    .samples = {{distinct({7, 3}), index({4, 5}, 0, 7), normal({4, 5})},
                {distinct({5, 17}), index({2, 1}, 0, 5), normal({2, 1})}},
    .call = [](const Tensors& x) -> Tensors {
      EmbeddingBagOptions weighted = bag_mode(BagMode::kSum);
      weighted.per_sample_weights = x[2];
      return {embedding_bag(x[0], x[1], weighted), embedding_bag(x[0], x[1]),
              embedding_bag(x[0], x[1], bag_mode(BagMode::kSum))};
    },
    .reference = [](const Arrays& x) -> Arrays {
      return {bag_rows(x[0], x[1], &x[2], BagMode::kSum),
              bag_rows(x[0], x[1], nullptr, BagMode::kMean),
              bag_rows(x[0], x[1], nullptr, BagMode::kSum)};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);

// Each row once, so that no two elements of a bag are equal.
WICK_OP_CASE(
    embedding_bag_largest, .samples = {{distinct({6, 3})}},
    .call = [](const Tensors& x) -> Tensors {
      const Tensor indices = tensor<int64_t>({3, 0, 5, 1, 2, 4}, Shape{2, 3}, x[0].device());
      return {embedding_bag(x[0], indices, bag_mode(BagMode::kMax))};
    },
    .reference = [](const Arrays& x) -> Arrays {
      const HostArray indices{{2, 3}, {3, 0, 5, 1, 2, 4}};
      return {bag_rows(x[0], indices, nullptr, BagMode::kMax)};
    },
    .tolerance = Tolerance::exact());

WICK_OP_CASE(
    scale_grad_by_freq, .covers = {"scale_gradient"}, .samples = {{normal({3, 2})}},
    .call = [](const Tensors& x) -> Tensors {
      return {scale_grad_by_freq(x[0], tensor<int64_t>({4, 1, 2}, {}, x[0].device()), 5)};
    },
    .reference = [](const Arrays& x) -> Arrays { return {x[0]}; }, .tolerance = Tolerance::exact(),
    .second_order = true);

TEST(EmbeddingBag, TakesOffsetsAndLeavesOutPadding) {
  for (const Device device : devices()) {
    const Tensor table = randn({6, 3}).to(device);
    const Tensor indices = tensor<int64_t>({1, 2, 4, 5, 4, 4}, {}, device);
    for (const BagMode mode : {BagMode::kSum, BagMode::kMean, BagMode::kMax}) {
      EmbeddingBagOptions options = bag_mode(mode);
      options.offsets = tensor<int64_t>({0, 3, 3, 4}, {}, device);  // 1 2 4, none, 5, 4 4
      const Tensor y = embedding_bag(table, indices, options);
      const auto of = [&](std::initializer_list<int64_t> rows) {
        return embedding_bag(table, tensor(rows, {}, device).unsqueeze(0), bag_mode(mode))[0];
      };
      EXPECT_EQ(y.shape(), (Shape{4, 3}));
      EXPECT_TRUE(allclose(y[0], of({1, 2, 4})));
      EXPECT_TRUE(equal(y[1], zeros({3}).to(device)));
      EXPECT_TRUE(equal(y[2], table[5]));
      EXPECT_TRUE(allclose(y[3], of({4, 4})));
      options.padding_idx = -2;  // row 4
      const Tensor without = embedding_bag(table, indices, options);
      EXPECT_TRUE(allclose(without[0], of({1, 2})));
      EXPECT_TRUE(equal(without[3], zeros({3}).to(device)));
      options.padding_idx = {};
      options.offsets = tensor<int32_t>({0, 3, 3, 4, 6}, {}, device);
      options.include_last_offset = true;
      EXPECT_TRUE(equal(embedding_bag(table, indices, options), y));
    }
  }
}

TEST(EmbeddingBag, GivesNoGradientToPadding) {
  const Tensor table = randn({4, 2}).set_requires_grad();
  EmbeddingBagOptions options = bag_mode(BagMode::kSum);
  options.padding_idx = 1;
  embedding_bag(table, tensor<int64_t>({0, 1, 3, 3}, Shape{2, 2}), options).sum().backward();
  EXPECT_EQ(table.grad().to_vector<float>(), (std::vector<float>{1, 1, 0, 0, 0, 0, 2, 2}));
}

TEST(Embedding, ScalesGradientsByFrequency) {
  const Tensor rows = randn({2, 2, 3}).set_requires_grad();
  const Tensor y = scale_grad_by_freq(rows, tensor<int64_t>({4, 1, 4, 4}, Shape{2, 2}), 5);
  EXPECT_TRUE(equal(y, rows));
  (y * 6).sum().backward();
  EXPECT_TRUE(allclose(rows.grad().select(2, 0), tensor<float>({2, 6, 2, 2}, Shape{2, 2})));
}

TEST(Embedding, ScalesRowsDownToANorm) {
  for (const Device device : devices()) {
    const Tensor table = tensor<float>({3, 4, 0.3f, 0.4f, 6, 8, 30, 40}, Shape{4, 2}, device);
    embedding_renorm_(table, tensor<int64_t>({2, 0, 1, 2}, {}, device), 1);
    const Tensor want = tensor<float>({0.6f, 0.8f, 0.3f, 0.4f, 0.6f, 0.8f, 30, 40}, Shape{4, 2});
    EXPECT_TRUE(allclose(table.cpu(), want));
  }
}

TEST(EmbeddingBag, RejectsWhatDoesNotFit) {
  const Tensor table = randn({6, 3}), flat = tensor<int64_t>({1, 2, 4});
  EXPECT_EQ(error_of([&] { embedding_bag(table, flat); }),
            "embedding_bag: indices need 2 axes, or one and offsets: got shape [3]");
  EmbeddingBagOptions options;
  options.offsets = tensor<int64_t>({1, 2});
  EXPECT_EQ(error_of([&] { embedding_bag(table, flat, options); }),
            "embedding_bag: offsets begin with 0: got 1");
  options.offsets = tensor<int64_t>({0, 4});
  EXPECT_EQ(error_of([&] { embedding_bag(table, flat, options); }),
            "embedding_bag: offset out of range: got 4, expected 0 to 3");
  EXPECT_EQ(error_of([&] { embedding_bag(table, flat.unsqueeze(0), options); }),
            "embedding_bag: offsets are for a vector of indices: got shape [1, 3]");
  EmbeddingBagOptions weighted;
  weighted.per_sample_weights = ones({1, 3});
  EXPECT_EQ(error_of([&] { embedding_bag(table, flat.unsqueeze(0), weighted); }),
            "embedding_bag: per_sample_weights are for sums");
}

}  // namespace
}  // namespace wick::testing
