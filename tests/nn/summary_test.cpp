#include <gtest/gtest.h>

#include "wick/core/core.h"
#include "wick/nn/nn.h"
#include "wick/tests/harness/host_array.h"

namespace wick::testing {
namespace {

using namespace nn;

TEST(Summary, ListsCallsWithShapesParametersAndFlops) {
  Sequential net(Conv2d(3, 4, 3, {.padding = 1}), ReLU(), Flatten(), Linear(256, 10));
  const std::vector<LayerSummary> layers = summarize(net, zeros({2, 3, 8, 8}));
  ASSERT_EQ(layers.size(), 5u);
  EXPECT_EQ(layers[0].path, "");
  EXPECT_EQ(layers[0].description, "Sequential");
  EXPECT_EQ(layers[0].depth, 0);
  EXPECT_EQ(layers[0].parameters, 0);
  EXPECT_EQ(layers[0].output_shape, (Shape{2, 10}));
  EXPECT_EQ(layers[1].path, "0");
  EXPECT_EQ(layers[1].depth, 1);
  EXPECT_EQ(layers[1].parameters, 4 * 27 + 4);
  EXPECT_EQ(layers[1].output_shape, (Shape{2, 4, 8, 8}));
  EXPECT_EQ(layers[1].output_bytes, 2 * 4 * 64 * 4);
  // A multiply and an add are two; the bias adds one per output.
  EXPECT_NEAR(layers[1].flops, 2.0 * 27 * 512, 512);
  EXPECT_EQ(layers[4].description, "Linear(256, 10)");
  EXPECT_NEAR(layers[4].flops, 2.0 * 2560 * 2, 20);
  EXPECT_GE(layers[0].flops, layers[1].flops + layers[4].flops);
}

TEST(Summary, CountsKnownNetworks) {
  ResNet model = resnet18();
  const std::vector<LayerSummary> layers = summarize(model, zeros({1, 3, 224, 224}));
  // 1.814 G multiply-adds in convolutions and the last layer; the rest is small.
  EXPECT_GT(layers[0].flops / 2e9, 1.813);
  EXPECT_LT(layers[0].flops / 2e9, 1.85);
  EXPECT_EQ(layers[1].path, "conv1");
  EXPECT_EQ(layers[1].output_shape, (Shape{1, 64, 112, 112}));
  EXPECT_NEAR(layers[1].flops, 2.0 * 147 * 64 * 112 * 112, 1);
}

TEST(Summary, FindsEveryParameterOfEveryModel) {
  for (const std::string& name : model_names()) {
    const ModelEntry& entry = find_model(name);
    const std::shared_ptr<Module> model = entry.make({3, 32, 32}, 10);
    int64_t listed = 0, all = 0;
    for (const LayerSummary& layer : summarize(*model, zeros({1, 3, 32, 32}))) {
      listed += layer.parameters;
    }
    for (const Tensor& parameter : model->parameters()) all += parameter.numel();
    EXPECT_EQ(listed, all) << entry.name;
  }
}

TEST(Summary, LeavesTheModuleAsItWas) {
  Sequential net(Conv2d(3, 4, 3), BatchNorm2d(4), nn::Dropout());
  summarize(net, randn({2, 3, 8, 8}));
  EXPECT_TRUE(net.is_training());
  EXPECT_EQ(net.named_buffers()[2].second.item<int64_t>(), 0);
  EXPECT_TRUE(bit_equal(net.named_buffers()[0].second, zeros({4})));
  net.eval();
  summarize(net, randn({2, 3, 8, 8}));
  EXPECT_FALSE(net.is_training());
  EXPECT_THROW(summarize(net, randn({2, 5, 8, 8})), Error);
  EXPECT_EQ(summarize(net, randn({2, 3, 8, 8})).size(), 4u);  // an error leaves nothing behind
}

TEST(Summary, KeepsAFrozenPartInItsMode) {
  Sequential net(Conv2d(3, 4, 3), BatchNorm2d(4));
  net.train();
  net.children()[1].second->eval();
  summarize(net, randn({2, 3, 8, 8}));
  EXPECT_TRUE(net.children()[0].second->is_training());
  EXPECT_FALSE(net.children()[1].second->is_training());
}

TEST(Summary, PrintsATable) {
  Mlp net(4, {3}, 2);
  const std::string line(67, '-');
  EXPECT_EQ(summary(net, zeros({1, 4})),
            "layer                output                 parameters        FLOPs\n" + line +
                "\nMlp                  [1, 2]                                      36\n"
                "  fc1: Linear(4, 3)  [1, 3]                         15           24\n"
                "  fc2: Linear(3, 2)  [1, 2]                          8           12\n" +
                line +
                "\n23 parameters (0.00 MB), forward 36 FLOPs, activations 0.00 MB for input [1, "
                "4]\n");
}

}  // namespace
}  // namespace wick::testing
