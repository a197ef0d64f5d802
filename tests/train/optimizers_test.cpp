#include "wick/optim/registry.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "wick/core/core.h"
#include "wick/optim/sgd.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

TEST(Optimizers, EachNameMakesOneThatMovesWeights) {
  ASSERT_GE(optim::optimizer_names().size(), 13u);
  for (const std::string& name : optim::optimizer_names()) {
    const Tensor matrix = ones({3, 2}).set_requires_grad(), bias = ones({3}).set_requires_grad();
    const auto optimizer = optim::find_optimizer(name).make({matrix, bias}, 0.1, 0.01);
    EXPECT_EQ(optimizer->lr(), 0.1) << name;
    for (int i = 0; i < 2; ++i) {
      for (const Tensor& x : {matrix, bias}) x.set_grad(full(x.shape(), 0.5));
      optimizer->step();
    }
    for (const Tensor& x : {matrix, bias}) EXPECT_FALSE(allclose(x, ones(x.shape()))) << name;
  }
}

TEST(Optimizers, TakeOnesOfTheProgramsOwn) {
  const auto make = [](const std::vector<Tensor>& params, double lr, double) {
    return std::make_unique<optim::SGD>(params, optim::SGDOptions{.lr = lr / 2});
  };
  optim::register_optimizer({"half_sgd", 0.5, 0, make, {}});
  const Tensor weight = ones({1}).set_requires_grad();
  EXPECT_EQ(optim::find_optimizer("half_sgd").make({weight}, 0.5, 0)->lr(), 0.25);
  const std::vector<std::string> names = optim::optimizer_names();
  EXPECT_EQ(std::count(names.begin(), names.end(), "half_sgd"), 1);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(error_of([&] {
              optim::register_optimizer({"adamw", 0, 0, make, {}});
            }),
            "optimizer: register: got the name adamw, which is taken, expected another");
  EXPECT_NE(error_of([] {
              optim::find_optimizer("newton");
            }).find("expected one of adadelta, adagrad, adam, "),
            std::string::npos);
}

}  // namespace
}  // namespace wick::testing
