#include "wick/optim/registry.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "wick/core/core.h"
#include "wick/optim/sgd.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/train/optimizers.h"

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

TEST(Optimizers, TakeMomentumAndBetas) {
  const std::vector<Tensor> params{ones({2, 2}).set_requires_grad()};
  const auto value = [&](const train::OptimizerOptions& options, const char* name) {
    return train::make_optimizer(options, params)->hyperparameter(0, name);
  };
  EXPECT_EQ(value({.name = "sgd", .momentum = 0.5}, "momentum"), 0.5);
  EXPECT_EQ(value({.name = "sgd"}, "momentum"), 0.9);
  EXPECT_EQ(value({.name = "adamw", .lr = 0.1, .betas = {0.8, 0.95}}, "beta1"), 0.8);
  EXPECT_EQ(value({.name = "adamw", .lr = 0.1, .betas = {0.8, 0.95}}, "beta2"), 0.95);
  const auto error = [&](const train::OptimizerOptions& options) {
    return error_of([&] { train::make_optimizer(options, params); });
  };
  EXPECT_EQ(error({.name = "adamw", .lr = 0.1, .momentum = 0.5}),
            "option momentum: not with optimizer adamw, which has no momentum");
  EXPECT_EQ(error({.name = "sgd", .betas = {0.9, 0.99}}),
            "option betas: not with optimizer sgd, which has no beta1");
  EXPECT_EQ(error({.name = "adamw", .lr = 0.1, .betas = {0.9}}),
            "option betas: got 1 numbers, expected two, as 0.9,0.999");
  EXPECT_EQ(error({.name = "adamw", .lr = 0.1, .betas = {0.9, 1}}),
            "option betas: got 1, expected 0 or more, below 1");
  EXPECT_EQ(error({.name = "adamw"}), "option lr: optimizer adamw has no default: expected a rate");
}

}  // namespace
}  // namespace wick::testing
