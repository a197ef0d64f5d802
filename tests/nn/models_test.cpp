#include <gtest/gtest.h>

#include "wick/core/core.h"
#include "wick/nn/nn.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/host_array.h"

namespace wick::testing {
namespace {

using namespace nn;

int64_t count_parameters(const Module& module) {
  int64_t count = 0;
  for (const Tensor& parameter : module.parameters()) count += parameter.numel();
  return count;
}

struct Size {
  const char* name;
  size_t entries;  // of the state
  int64_t parameters;
};

// Parameters and state entries as torchvision 0.14 has them (ResNet-20: He's 0.27 million).
TEST(Models, HaveTheirKnownSizes) {
  const auto expect = [](const Module& module, const Size& size) {
    EXPECT_EQ(module.state_dict().size(), size.entries) << size.name;
    EXPECT_EQ(count_parameters(module), size.parameters) << size.name;
  };
  expect(resnet18(), {"resnet18", 122, 11689512});
  expect(resnet18({.classes = 10}), {"resnet18 of 10 classes", 122, 11181642});
  expect(resnet34(), {"resnet34", 218, 21797672});
  expect(resnet50(), {"resnet50", 320, 25557032});
  expect(ResNet20(), {"resnet20", 116, 269722});
  expect(LeNet({1, 28, 28}), {"lenet", 10, 61706});
  expect(Mlp(784, {512, 512}, 10), {"mlp", 6, 669706});
}

TEST(Models, ResNetHasTorchvisionsNames) {
  const TensorMap state = resnet18({.classes = 10}).state_dict();
  std::map<std::string, Shape> shapes;
  for (const auto& [name, tensor] : state) shapes[name] = tensor.shape();
  EXPECT_EQ(shapes.at("conv1.weight"), (Shape{64, 3, 7, 7}));
  EXPECT_EQ(shapes.at("bn1.running_mean"), (Shape{64}));
  EXPECT_EQ(shapes.at("layer2.0.downsample.0.weight"), (Shape{128, 64, 1, 1}));
  EXPECT_EQ(shapes.at("layer2.0.downsample.1.num_batches_tracked"), Shape());
  EXPECT_EQ(shapes.at("layer4.1.conv2.weight"), (Shape{512, 512, 3, 3}));
  EXPECT_EQ(shapes.at("fc.bias"), (Shape{10}));
  EXPECT_EQ(shapes.count("conv1.bias"), 0u);
  EXPECT_EQ(shapes.count("layer1.0.downsample.0.weight"), 0u);
}

TEST(Models, EachTakesImagesAndLearnsInAllItsParameters) {
  manual_seed(1);
  for (const std::string& name : model_names()) {
    const ModelEntry& entry = find_model(name);
    for (const Shape& image : {Shape{1, 28, 28}, Shape{3, 32, 32}}) {
      const std::shared_ptr<Module> model = entry.make(image, 7);
      const Tensor x = randn({2, image[0], image[1], image[2]});
      const Tensor y = model->call(x);
      ASSERT_EQ(y.shape(), (Shape{2, 7})) << entry.name;
      if (image[0] == 1) continue;
      y.backward(randn(y.shape()));
      for (const auto& [path, parameter] : model->named_parameters()) {
        ASSERT_TRUE(parameter.grad().defined()) << entry.name << ": " << path;
      }
      EXPECT_GT(entry.lr, 0);
      EXPECT_GT(entry.batch_size, 0);
    }
  }
}

TEST(Models, ResNetsHaveTheBlocksOfTheirNames) {
  const nn::ResNetOptions options{
      .blocks = {1, 1, 1, 1}, .bottleneck = true, .classes = 3, .width = 4};
  const auto size = [](const ResNet& model) { return model.state_dict().size(); };
  EXPECT_EQ(size(resnet18(options)), 122u);
  EXPECT_EQ(size(resnet34(options)), 218u);
  EXPECT_EQ(size(resnet50(options)), 320u);
}

TEST(Models, ResNetsTakeLargeImages) {
  ResNet model = resnet18({.classes = 5, .width = 8});
  model.eval();
  const NoGrad no_grad;
  EXPECT_EQ(model(randn({1, 3, 224, 224})).shape(), (Shape{1, 5}));
  EXPECT_EQ(model(randn({2, 3, 97, 65})).shape(), (Shape{2, 5}));
  Vit vit({3, 224, 224}, 5, {.patch = 16, .dim = 16, .depth = 1, .heads = 2, .mlp_dim = 16});
  EXPECT_EQ(vit(randn({1, 3, 224, 224})).shape(), (Shape{1, 5}));
}

TEST(Models, EvaluateTheSameEachImageAlone) {
  ResNet20 model;
  model(randn({8, 3, 32, 32}));
  model.eval();
  const NoGrad no_grad;
  const Tensor x = randn({4, 3, 32, 32});
  const Tensor together = model(x), alone = model(x.narrow(0, 2, 1));
  EXPECT_EQ(difference(read(alone), read(together.narrow(0, 2, 1)), 1e-4, 1e-5), "");
}

TEST(Models, StartAsTorchvisionsDo) {
  manual_seed(1);
  const ResNet model = resnet18({.classes = 10});
  double squares = 0;
  Tensor weight;
  for (const auto& [name, tensor] : model.named_parameters()) {
    if (name == "layer4.0.conv2.weight") weight = tensor;
  }
  for (const double v : read(weight.detach()).values) squares += v * v;
  EXPECT_NEAR(squares / static_cast<double>(weight.numel()), 2.0 / (512 * 9),
              2.0 / (512 * 9) / 100);
}

TEST(Models, RefuseWhatTheyCannotDo) {
  EXPECT_EQ(
      error_of([] { find_model("resnet19"); }),
      "model: unknown name: got \"resnet19\", expected one of mlp, lenet, resnet20, resnet18, "
      "resnet34, resnet50, vit");
  EXPECT_EQ(find_model("vit").name, "vit");
  EXPECT_EQ(error_of([] { LeNet({1, 8, 8}); }), "LeNet: images are too small: got 8 by 8");
  EXPECT_EQ(error_of([] {
              Vit({3, 30, 32}, 10);
            }),
            "Vit: patches of 4 do not divide images of 30 by 32");
  EXPECT_EQ(error_of([] { resnet18({.classes = 0}); }),
            "ResNet: width, classes and in_channels must be 1 or more: got 64, 0 and 3");
  LeNet lenet({1, 28, 28});
  EXPECT_NE(error_of([&] { lenet(randn({2, 3, 28, 28})); }), "no error");
  EXPECT_NE(error_of([&] { lenet(randn({2, 1, 20, 20})); }), "no error");
}

}  // namespace
}  // namespace wick::testing
