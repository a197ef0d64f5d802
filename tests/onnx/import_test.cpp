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
  const Tensor& given = known.at("x");
  net->eval();
  {
    const NoGrad no_grad;
    const double off = difference(net(given), known.at("y"));
    EXPECT_LT(off, 1e-5);
    RecordProperty("output", concat(off));
  }
  // A recording in float64 shows that the mathematics is the same, not only what rounding leaves.
  const bool is_wide = known.at("weights").dtype() == kFloat64;
  if (is_wide) net->to(kFloat64);
  const Tensor x = is_wide && is_floating(given.dtype()) ? given.to(kFloat64) : given;
  const double slack = is_wide ? 0.01 : 1;
  net->train();
  optim::SGD optimizer(net->parameters(), {.lr = 0.02, .momentum = 0.9});
  const auto losses = known.at("losses").to(kFloat64).to_vector<double>();
  int gradients = 0;
  double worst_gradient = 0, worst_loss = 0;
  for (size_t step = 0; step < losses.size(); ++step) {
    optimizer.zero_grad();
    const Tensor loss = loss_of(net(x), known.at("weights"));
    loss.backward();
    const double off =
        std::abs(loss.item<double>() - losses[step]) / std::max(0.1, std::abs(losses[step]));
    EXPECT_LT(off, 1e-4 * slack) << step;
    worst_loss = std::max(worst_loss, off);
    for (const auto& [name, parameter] : net->named_parameters()) {
      const auto gradient = known.find("gradient/" + name);
      if (step > 0 || gradient == known.end()) continue;
      ASSERT_TRUE(parameter.grad().defined()) << name;
      const double grad_off = difference(parameter.grad(), gradient->second);
      EXPECT_LT(grad_off, 2e-4 * slack) << name;
      worst_gradient = std::max(worst_gradient, grad_off);
      ++gradients;
    }
    optimizer.step();
  }
  const auto of_gradient = [](const auto& entry) { return entry.first.starts_with("gradient/"); };
  EXPECT_EQ(gradients, std::count_if(known.begin(), known.end(), of_gradient));
  net->eval();
  const NoGrad no_grad;
  const double off = difference(net(x), known.at("trained_y"));
  EXPECT_LT(off, 1e-3 * slack);
  RecordProperty("gradients", concat(worst_gradient));
  RecordProperty("losses", concat(worst_loss));
  RecordProperty("trained output", concat(off));
}

TEST_P(Import, AModelMovesToFloat64) {
  const TensorMap known = load_safetensors(onnx_case(GetParam()) + ".safetensors");
  nn::Handle<onnx::Module> net = onnx::load(onnx_case(GetParam()) + ".onnx");
  net->eval();
  net->to(kFloat64);
  const NoGrad no_grad;
  const Tensor& x = known.at("x");
  const Tensor y = net(is_floating(x.dtype()) ? x.to(kFloat64) : x);
  EXPECT_EQ(y.dtype(), kFloat64);
  EXPECT_LT(difference(y, known.at("y").to(kFloat64)), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Models, Import, ::testing::ValuesIn(onnx_case_names()),
                         [](const auto& made) { return made.param; });

}  // namespace
}  // namespace wick::testing
