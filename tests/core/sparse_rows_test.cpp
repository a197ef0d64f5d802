#include "wick/core/sparse_rows.h"

#include <gtest/gtest.h>

#include <cmath>

#include "wick/core/core.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/host_array.h"

namespace wick::testing {
namespace {

std::vector<float> floats(const Tensor& x) { return x.detach().cpu().to_vector<float>(); }
std::vector<int64_t> integers(const Tensor& x) { return x.cpu().to_vector<int64_t>(); }

TEST(SparseRows, AddsRepeatedRowsInOrder) {
  for (const Device device : devices()) {
    const Tensor rows = tensor<int64_t>({3, 0, 3, 3}).to(device);
    const Tensor values = tensor<float>({1, 2, 3, 4, 5, 6, 7, 8}, Shape{4, 2}).to(device);
    const Tensor x = sparse_tensor(rows, values, {5, 2});
    EXPECT_TRUE(x.is_sparse());
    EXPECT_EQ(x.shape(), (Shape{5, 2}));
    EXPECT_EQ(integers(sparse_rows(x).rows), (std::vector<int64_t>{0, 3}));
    EXPECT_EQ(floats(sparse_rows(x).values), (std::vector<float>{3, 4, 13, 16}));
    EXPECT_EQ(floats(x.to_dense()), (std::vector<float>{3, 4, 0, 0, 0, 0, 13, 16, 0, 0}));
    EXPECT_TRUE(x.detach().is_sparse());
    EXPECT_FALSE(values.is_sparse());
    EXPECT_TRUE(values.to_dense().is_same(values));
  }
}

// Small floats that a large one swallows: their order shows.
TEST(SparseRows, HasTheSameBitsForAnyThreads) {
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < 4096; ++i) numbers.push_back(i * 37 % 11);
  const Tensor rows = tensor(numbers);
  const Tensor values = randn({4096, 33}) * exp(randn({4096, 1}) * 5);
  const int before = num_threads();
  set_num_threads(1);
  const Tensor one = sparse_tensor(rows, values, {11, 33});
  set_num_threads(2);
  const Tensor two = sparse_tensor(rows, values, {11, 33});
  set_num_threads(before);
  EXPECT_TRUE(bit_equal(sparse_rows(one).values, sparse_rows(two).values));
}

TEST(SparseRows, RefusesWhatDoesNotFit) {
  const Tensor rows = tensor<int64_t>({0, 4});
  expect_error(
      [&] {
        sparse_tensor(rows, ones({3, 2}), {5, 2});
      },
      {"sparse_tensor: shapes do not fit: got rows [2] and values [3, 2]"});
  expect_error(
      [&] {
        sparse_tensor(rows, ones({2, 2}), {4, 2});
      },
      {"sparse_tensor: row out of range: got 4, expected one in [0, 3]"});
  expect_error(
      [&] {
        sparse_tensor(rows, ones({2, 2}, kInt64), {5, 2});
      },
      {"sparse_tensor: wrong dtypes"});
  expect_error([] { sparse_rows(ones({2, 2})); }, {"sparse_rows: the tensor is dense"});
}

TEST(SparseRows, OperationsRefuseThem) {
  const Tensor x = sparse_tensor(tensor<int64_t>({0}), ones({1, 2}), {5, 2});
  expect_error([&] { x + 1; }, {"add", ": a tensor is sparse: got one of shape [5, 2]"});
  expect_error([&] { x.reshape({10}); }, {"a tensor is sparse"});
  expect_error([&] { x.clone(); }, {"a tensor is sparse"});
  expect_error([&] { x.data<float>(); }, {"a tensor is sparse"});
  expect_error([&] { zeros({5, 2}).copy_(x); }, {"a tensor is sparse"});
  expect_error([&] { x.zero_(); }, {"a tensor is sparse"});
  expect_error([&] { x.sum(); }, {"a tensor is sparse"});
}

class SparseEmbedding : public ::testing::TestWithParam<Dtype> {
 protected:
  // The gradients of two uses of a table, dense or sparse.
  static Tensor gradient(Device device, bool sparse, bool and_dense, int backwards = 1) {
    const Dtype dtype = GetParam();
    manual_seed(3);
    const Tensor weight = randn({9, 4}, dtype).to(device).set_requires_grad();
    const Tensor first = tensor<int64_t>({1, 8, 1, 2, 5, 1}, Shape{2, 3}).to(device);
    const Tensor second = tensor<int64_t>({5, 0}).to(device);
    const Tensor factor = randn({2, 3, 4}, dtype).to(device);
    for (int i = 0; i < backwards; ++i) {
      Tensor loss = (embedding(weight, first, 2, sparse) * factor).sum();
      loss = loss + embedding(weight, second, {}, sparse).square().sum();
      if (and_dense) loss = loss + weight.sum();
      loss.backward();
    }
    return weight.grad();
  }
};

TEST_P(SparseEmbedding, GivesTheDenseGradient) {
  for (const Device device : devices()) {
    for (const int backwards : {1, 3}) {
      const Tensor dense = gradient(device, false, false, backwards);
      const Tensor sparse = gradient(device, true, false, backwards);
      ASSERT_TRUE(sparse.is_sparse());
      EXPECT_EQ(integers(sparse_rows(sparse).rows), (std::vector<int64_t>{0, 1, 5, 8}));
      EXPECT_EQ(sparse.dtype(), GetParam());
      const double tolerance = GetParam() == kFloat64 ? 1e-14 : 1e-6;
      EXPECT_EQ(difference(read(sparse.to_dense()), read(dense), tolerance, tolerance), "");
    }
  }
}

TEST_P(SparseEmbedding, AddsToADenseGradient) {
  for (const Device device : devices()) {
    const Tensor dense = gradient(device, false, true);
    const Tensor both = gradient(device, true, true);
    EXPECT_FALSE(both.is_sparse());
    EXPECT_EQ(difference(read(both), read(dense), 1e-6, 1e-6), "");
  }
}

INSTANTIATE_TEST_SUITE_P(All, SparseEmbedding, ::testing::Values(kFloat32, kFloat64),
                         [](const auto& tested) { return std::string(to_string(tested.param)); });

TEST(SparseGradients, PassTheGradientCheck) {
  const Tensor weight = randn({5, 3}, kFloat64).set_requires_grad();
  const Tensor index = tensor<int64_t>({4, 0, 4});
  const auto call = [&](const Tensors& x) -> Tensors {
    return {embedding(x[0], index, {}, true).exp()};
  };
  EXPECT_TRUE(gradcheck(call, {weight}));
  const Tensor once = grad({call({weight})[0].sum()}, {weight}, {}, false, true)[0].to_dense();
  expect_error([&] { once.sum().backward(); }, {"coalesce_rows"});
}

TEST(SparseGradients, AreGivenToHooksAndByGrad) {
  const Tensor weight = ones({5, 3}).set_requires_grad();
  const Tensor index = tensor<int64_t>({4, 0});
  const std::vector<Tensor> found = grad({embedding(weight, index, {}, true).sum()}, {weight});
  EXPECT_TRUE(found[0].is_sparse());
  Tensor seen;
  weight.register_hook([&](const Tensor& gradient) {
    seen = gradient;
    return Tensor();
  });
  embedding(weight, index, {}, true).sum().backward();
  EXPECT_TRUE(seen.is_sparse());
  // What a hook kept is its own.
  gradient_elements(weight.grad()).mul_(2);
  EXPECT_EQ(seen.to_dense().sum().item(), 6);
  expect_error([&] { (embedding(weight * 1, index, {}, true)).sum().backward(); },
               {"mul", "a tensor is sparse"});
}

TEST(SparseGradients, BecomeZeros) {
  const Tensor weight = ones({5, 3}).set_requires_grad();
  embedding(weight, tensor<int64_t>({4, 0}), {}, true).sum().backward();
  zero_gradient(weight, false);
  EXPECT_TRUE(weight.grad().is_sparse());
  EXPECT_EQ(sparse_rows(weight.grad()).rows.numel(), 0);
  embedding(weight, tensor<int64_t>({4}), {}, true).sum().backward();
  EXPECT_EQ(integers(sparse_rows(weight.grad()).rows), (std::vector<int64_t>{4}));
  zero_gradient(weight, true);
  EXPECT_FALSE(weight.grad().defined());
}

TEST(SparseGradients, AreSearchedForNan) {
  const Tensor weight = ones({5, 3}).set_requires_grad();
  const DetectAnomaly search;
  const Tensor bad = full({2, 3}, NAN);
  const Tensor y = embedding(weight, tensor<int64_t>({4, 0}), {}, true);
  expect_error([&] { y.backward(bad); }, {"NaN in the gradient of input 0"});
}

}  // namespace
}  // namespace wick::testing
