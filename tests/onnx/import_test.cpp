#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "wick/core/core.h"
#include "wick/onnx/onnx.h"
#include "wick/optim/sgd.h"
#include "wick/tests/onnx/cases.h"

// Models that PyTorch exported, and what PyTorch computes with them (make_cases.py).
namespace wick::testing {
namespace {

// The largest difference, against the largest element.
double difference(const Tensor& x, const Tensor& y) {
  const NoGrad no_grad;
  if (!(x.shape() == y.shape())) return HUGE_VAL;
  const double scale = std::max(1e-3, y.abs().max().item<double>());
  return (x.detach() - y).abs().max().item<double>() / scale;
}

Tensor loss_of(const Tensor& y, const Tensor& weights) {
  return (y * weights).sum() + (y * y).mean();
}

class Import : public ::testing::TestWithParam<std::string> {};

TEST_P(Import, OutputsGradientsAndTrainingAreThoseOfPyTorch) {
  const std::string path = onnx_case(GetParam());
  const TensorMap known = load_safetensors(path + ".safetensors");
  nn::Handle<onnx::Module> net = onnx::load(path + ".onnx");
  const Tensor& x = known.at("x");
  net->eval();
  {
    const NoGrad no_grad;
    EXPECT_LT(difference(net(x), known.at("y")), 1e-5);
  }
  net->train();
  optim::SGD optimizer(net->parameters(), {.lr = 0.02, .momentum = 0.9});
  const auto losses = known.at("losses").to_vector<float>();
  int gradients = 0;
  for (size_t step = 0; step < losses.size(); ++step) {
    optimizer.zero_grad();
    const Tensor loss = loss_of(net(x), known.at("weights"));
    loss.backward();
    EXPECT_NEAR(loss.item<float>(), losses[step], 1e-4 * std::max(1.0F, std::abs(losses[step])));
    for (const auto& [name, parameter] : net->named_parameters()) {
      const auto gradient = known.find("gradient/" + name);
      if (step > 0 || gradient == known.end()) continue;
      ASSERT_TRUE(parameter.grad().defined()) << name;
      EXPECT_LT(difference(parameter.grad(), gradient->second), 2e-4) << name;
      ++gradients;
    }
    optimizer.step();
  }
  const auto of_gradient = [](const auto& entry) { return entry.first.starts_with("gradient/"); };
  EXPECT_EQ(gradients, std::count_if(known.begin(), known.end(), of_gradient));
  net->eval();
  const NoGrad no_grad;
  EXPECT_LT(difference(net(x), known.at("trained_y")), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Models, Import, ::testing::ValuesIn(onnx_case_names()),
                         [](const auto& made) { return made.param; });

}  // namespace
}  // namespace wick::testing
