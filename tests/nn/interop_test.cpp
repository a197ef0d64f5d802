#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>

#include "wick/core/core.h"
#include "wick/nn/nn.h"
#include "wick/tests/harness/paths.h"
#include "wick/tests/harness/temporary_folder.h"

// Runs torchvision_interop.py, where Debian's Python has torch and torchvision.

namespace wick::testing {
namespace {

void expect_same_in_torch(const char* what, nn::Module& module, const Tensor& x) {
  const TemporaryFolder folder;
  module.eval();
  const NoGrad no_grad;
  save_safetensors(folder.path("weights.safetensors"), module.state_dict());
  save_safetensors(folder.path("data.safetensors"), {{"x", x}, {"y", module.call(x)}});
  const std::string command =
      concat("/usr/bin/python3 ", source_folder(), "/tests/nn/torchvision_interop.py ", what, " '",
             folder.path(""), "'");
  const int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "/usr/bin/python3 has no torch or torchvision";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Interop, TorchvisionLoadsResNet18AndAgrees) {
  manual_seed(4);
  nn::ResNet model = nn::resnet18();
  for (int step = 0; step < 2; ++step) model(randn({4, 3, 64, 64}));  // running statistics
  expect_same_in_torch("resnet18", model, randn({2, 3, 96, 96}));
}

TEST(Interop, TorchLoadsAnEncoderLayerAndAgrees) {
  manual_seed(4);
  nn::TransformerEncoderLayer layer(
      16, 4,
      {.dim_feedforward = 40, .activation = nn::FeedForwardActivation::kGelu, .batch_first = true});
  for (const Tensor& parameter : layer.parameters()) parameter.detach().uniform_(-0.5, 0.5);
  expect_same_in_torch("encoder", layer, randn({3, 7, 16}));
}

}  // namespace
}  // namespace wick::testing
