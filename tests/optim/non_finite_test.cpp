#include <gtest/gtest.h>

#include <cmath>

#include "wick/core/stream.h"
#include "wick/nn/nn.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/host_array.h"
#include "wick/tests/optim/reference.h"

// Each update looks whether the weights that it leaves are finite.

namespace wick::testing {
namespace {

using namespace optim;

// Sizes of one element, of a rest behind whole vectors, and of more than one chunk.
std::vector<Tensor> make_params(Device device, Dtype dtype) {
  std::vector<Tensor> params;
  uint64_t seed = 0;
  for (const Shape& shape : {Shape{}, Shape{33}, Shape{4, 5}, Shape{20001}}) {
    params.push_back(random_tensor(shape, ++seed, dtype).to(device).set_requires_grad());
  }
  return params;
}

void set_grads(const std::vector<Tensor>& params, uint64_t seed) {
  for (const Tensor& param : params) {
    const Tensor grad = random_tensor(param.shape(), ++seed, param.dtype());
    param.set_grad(grad.to(param.device()));
  }
}

class NonFiniteTest : public ::testing::TestWithParam<OptimizerCase> {};
INSTANTIATE_TEST_SUITE_P(All, NonFiniteTest, ::testing::ValuesIn(optimizer_cases()),
                         [](const auto& test) { return test.param.name; });

TEST_P(NonFiniteTest, IsToldOfTheStepWhoseGradientHasOne) {
  for (const Device device : devices()) {
    for (const Dtype dtype : {kFloat32, kFloat64, kBFloat16, kFloat16}) {
      for (const double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
        for (const size_t i : {size_t{0}, size_t{1}, size_t{3}}) {
          const std::vector<Tensor> params = make_params(device, dtype);
          const auto optimizer = GetParam().make(params);
          EXPECT_FALSE(optimizer->non_finite().defined());
          set_grads(params, 1);
          optimizer->step();
          EXPECT_EQ(optimizer->non_finite().item<int64_t>(), 0);
          set_grads(params, 2);
          params[i].grad().view({-1})[params[i].numel() - 1].fill_(bad);
          optimizer->step();
          EXPECT_EQ(optimizer->non_finite().item<int64_t>(), 1) << dtype << " " << bad << " " << i;
          set_grads(params, 3);
          optimizer->step();  // the weight stays as it is
          EXPECT_EQ(optimizer->non_finite().item<int64_t>(), 1);
        }
      }
    }
  }
}

TEST_P(NonFiniteTest, SkippedStepsLookAtTheWeightsAlone) {
  for (const Device device : devices()) {
    const std::vector<Tensor> params = make_params(device, kFloat32);
    const auto optimizer = GetParam().make(params);
    const Tensor skip = ones({}, kFloat32, device);
    set_grads(params, 1);
    params[2].grad().fill_(NAN);
    optimizer->step({.found_inf = skip});
    EXPECT_EQ(optimizer->non_finite().item<int64_t>(), 0);
    set_grads(params, 1);
    params[3].detach()[20000].fill_(-INFINITY);
    optimizer->step({.found_inf = skip});
    EXPECT_EQ(optimizer->non_finite().item<int64_t>(), 1);
  }
}

TEST_P(NonFiniteTest, LooksWithoutWaitingAndChangesNoBit) {
  for (const Device device : devices()) {
    const std::vector<Tensor> with = make_params(device, kFloat32),
                              without = make_params(device, kFloat32);
    const auto one = GetParam().make(with), other = GetParam().make(without);
    other->set_check_finite(false);
    for (uint64_t step = 0; step < 3; ++step) {
      set_grads(with, 10 * step);
      set_grads(without, 10 * step);
      const int64_t waits = synchronization_count();
      one->step();
      const Tensor found = one->non_finite();
      EXPECT_EQ(synchronization_count(), waits);
      other->step();
      EXPECT_EQ(found.item<int64_t>(), 0);
      EXPECT_FALSE(other->non_finite().defined());
    }
    expect_same(one->state_dict(), other->state_dict());
    for (size_t i = 0; i < with.size(); ++i) {
      EXPECT_TRUE(bit_equal(with[i].detach().cpu(), without[i].detach().cpu()));
    }
  }
}

TEST(NonFinite, IsToldOfAWeightThatRoundsToInfinity) {
  for (const Device device : devices()) {
    const Tensor param = full({3}, 65000, kFloat16, device).set_requires_grad();
    SGD optimizer({param}, {.lr = 1});
    param.set_grad(full({3}, -400, kFloat16, device));
    optimizer.step();
    EXPECT_EQ(optimizer.non_finite().item<int64_t>(), 0);
    param.set_grad(full({3}, -400, kFloat16, device));
    optimizer.step();  // 65800, which the float32 master holds
    EXPECT_EQ(optimizer.non_finite().item<int64_t>(), 1);
  }
}

TEST(NonFinite, LooksAtEachGroupAndAtNoneWithoutGradients) {
  for (const Device device : devices()) {
    const Tensor first = ones({3}, kFloat32, device).set_requires_grad();
    const Tensor second = ones({3}, kFloat64, device).set_requires_grad();
    SGD optimizer({{.params = {first}}, {.params = {second}}});
    optimizer.step();
    EXPECT_EQ(optimizer.non_finite().item<int64_t>(), 0);
    for (const Tensor& spoilt : {first, second}) {
      first.set_grad(ones({3}, kFloat32, device));
      second.set_grad(ones({3}, kFloat64, device));
      spoilt.grad()[1].fill_(NAN);
      optimizer.step();
      EXPECT_EQ(optimizer.non_finite().item<int64_t>(), 1);
      first.detach().fill_(1);
      second.detach().fill_(1);
    }
  }
}

}  // namespace
}  // namespace wick::testing
