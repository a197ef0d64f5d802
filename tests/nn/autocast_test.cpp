// Networks under autocast: float32 weights learn what they learn without it, nearly.
#include <gtest/gtest.h>

#include <cmath>

#include "wick/core/core.h"
#include "wick/nn/nn.h"
#include "wick/tests/harness/devices.h"

namespace wick::testing {
namespace {

// What gradients are multiplied by, so that float16 holds them.
constexpr double kScale = 1024;

// The loss of one step, which leaves gradients.
double step(nn::Module& model, const Tensor& x, const Tensor& target, std::optional<Dtype> lower) {
  model.zero_grad();
  Tensor loss;
  {
    const amp::Autocast autocast(x.device(), lower, lower.has_value());
    loss = cross_entropy(model(x), target);
  }
  EXPECT_EQ(loss.dtype(), kFloat32);
  loss.backward(full({}, kScale, kFloat32, x.device()));
  return loss.item();
}

// Compares a step of each 16-bit dtype with one in float32. Gradients differ most where rounding
// changes the sign of what a ReLU gets: by the root of the rounding error, not by itself.
void expect_same_step(nn::Module& model, const Tensor& images, Device device) {
  model.to(device);
  const Tensor x = images.to(device);
  const Tensor target = arange(x.size(0), kInt64).to(device);
  const double loss = step(model, x, target, {});
  std::vector<Tensor> grads;
  for (const Tensor& p : model.parameters()) grads.push_back(p.grad());
  for (const Dtype lower : {kFloat16, kBFloat16}) {
    const double mixed = step(model, x, target, lower);
    EXPECT_NE(mixed, loss) << lower << " on " << device;
    EXPECT_NEAR(mixed, loss, 0.03 * loss) << lower << " on " << device;
    double difference = 0, size = 0;
    const std::vector<Tensor> params = model.parameters();
    for (size_t i = 0; i < params.size(); ++i) {
      ASSERT_EQ(params[i].grad().dtype(), kFloat32);
      difference += square(params[i].grad() - grads[i]).sum().item();
      size += square(grads[i]).sum().item();
    }
    EXPECT_LT(std::sqrt(difference / size), lower == kFloat16 ? 0.1 : 0.3)
        << lower << " on " << device;
  }
}

TEST(AutocastModels, ConvolutionsAndNorms) {
  for (const Device device : devices()) {
    manual_seed(1);
    nn::Sequential model(nn::Conv2d(3, 16, 3, {.padding = 1}), nn::BatchNorm2d(16), nn::ReLU(),
                         nn::Conv2d(16, 16, 3, {.padding = 1}), nn::GroupNorm(4, 16), nn::GELU(),
                         nn::MaxPool2d(2), nn::Flatten(), nn::Linear(16 * 16, 10));
    expect_same_step(model, randn({4, 3, 8, 8}), device);
  }
}

TEST(AutocastModels, ResNet) {
  manual_seed(2);
  const auto model = nn::find_model("resnet20").make({3, 32, 32}, 10);
  expect_same_step(*model, randn({8, 3, 32, 32}), kCpu);
}

TEST(AutocastModels, VisionTransformer) {
  manual_seed(3);
  const auto model = nn::find_model("vit").make({3, 32, 32}, 10);
  expect_same_step(*model, randn({4, 3, 32, 32}), kCpu);
}

}  // namespace
}  // namespace wick::testing
