// Activations that wait for backward in pinned host memory.
#include "wick/nn/activation_offload.h"

#include <gtest/gtest.h>

#include "wick/core/core.h"
#include "wick/nn/nn.h"
#include "wick/tests/harness/expect_error.h"

namespace {

using namespace wick;

const Device kGpu = cuda_device(0);

class Offload : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
    manual_seed(3);
  }
};

std::unique_ptr<nn::OffloadActivations> offloading(bool on, int64_t prefetch = 2) {
  if (!on) return nullptr;
  return std::make_unique<nn::OffloadActivations>(
      nn::OffloadOptions{.min_bytes = 0, .prefetch = prefetch});
}

nn::Sequential block() {
  return nn::Sequential(nn::Conv2d(3, 4, 3, {.padding = 1, .bias = false}), nn::BatchNorm2d(4),
                        nn::ReLU(), nn::Dropout(0.3), nn::Flatten(), nn::Linear(4 * 36, 5));
}

// Output and gradients of one step of a net from the same start.
std::vector<std::vector<float>> step(bool offload, int64_t prefetch, int backwards = 1) {
  manual_seed(1);
  nn::Sequential net = block();
  net.to(kGpu);
  const Tensor x = randn({4, 3, 6, 6}).to(kGpu).contiguous(MemoryFormat::kChannelsLast);
  x.set_requires_grad();
  Tensor y;
  {
    const auto scope = offloading(offload, prefetch);
    y = net(x);
    if (scope) {
      EXPECT_GT(scope->offloaded_bytes(), 4 * 3 * 36 * 4 + 4 * 4 * 36 * 4);  // two images at least
    }
  }
  const Tensor loss = y.pow(2).sum();
  for (int i = 1; i <= backwards; ++i) loss.backward({}, /*retain_graph=*/i < backwards);
  std::vector<std::vector<float>> result = {y.to_vector<float>(), x.grad().to_vector<float>()};
  for (const Tensor& p : net.parameters()) result.push_back(p.grad().to_vector<float>());
  return result;
}

TEST_F(Offload, GivesTheSameBits) {
  const auto plain = step(false, 0);
  for (const int64_t prefetch : {0, 1, 100}) EXPECT_EQ(step(true, prefetch), plain);
  EXPECT_EQ(step(true, 2, 2), step(false, 0, 2));
}

TEST_F(Offload, LeavesTheGpusMemory) {
  // What a forward and a backward take, of 48 layers that keep 1 MB each. The host is far ahead: it
  // waits for nothing in between.
  const auto most_reserved = [](bool offload) {
    synchronize(kGpu);
    empty_cache(kGpu);
    const Tensor x = randn({256, 1024}).to(kGpu).set_requires_grad();
    const int64_t before = memory_reserved(kGpu);
    reset_peak_memory_stats(kGpu);
    Tensor y = x;
    {
      const auto scope = offloading(offload);
      for (int i = 0; i < 48; ++i) y = exp(y * 0.1);
    }
    y.sum().backward();
    return max_memory_reserved(kGpu) - before;
  };
  EXPECT_GE(most_reserved(false), 36 << 20);  // some may lie in the segment of x
  EXPECT_LE(most_reserved(true), 24 << 20);   // or a new one of 20 MB
}

TEST_F(Offload, KeepsSmallTensorsParametersAndThoseOfTheCpu) {
  const nn::OffloadActivations scope;
  const Tensor small = randn({100}).to(kGpu).set_requires_grad();
  exp(exp(small)).sum().backward();
  const Tensor weight = randn({512, 1024}).to(kGpu).set_requires_grad();
  const Tensor x = randn({1, 1024}).to(kGpu);
  matmul(x, weight.t()).sum().backward();
  const Tensor host = randn({512, 1024}).set_requires_grad();
  exp(exp(host)).sum().backward();
  EXPECT_EQ(scope.offloaded_bytes(), 0);
}

TEST_F(Offload, MovesATensorOnceThatSeveralOpsKeep) {
  const auto scope = offloading(true);
  const Tensor x = randn({1000}).to(kGpu).set_requires_grad();
  const Tensor y = exp(x);                      // keeps its result,
  const Tensor z = (y * y + sigmoid(y)).sum();  // which others keep, too
  EXPECT_LE(scope->offloaded_bytes(), 2 * 4000);
  z.backward();
  const Tensor again = x.detach().clone().set_requires_grad();
  const Tensor w = exp(again);
  EXPECT_EQ(x.grad().to_vector<float>(),
            grad({(w * w + sigmoid(w)).sum()}, {again}).at(0).to_vector<float>());
}

TEST_F(Offload, GoesTogetherWithCheckpoints) {
  const auto gradient = [](bool offload) {
    manual_seed(5);
    const Tensor x = randn({64, 64}).to(kGpu).set_requires_grad();
    Tensor y = x;
    {
      const auto scope = offloading(offload);
      for (int i = 0; i < 3; ++i) {
        y = nn::checkpoint([](const Tensor& t) { return dropout(tanh(t * 2.0), 0.2, true); }, y);
      }
    }
    y.sum().backward();
    return x.grad().to_vector<float>();
  };
  EXPECT_EQ(gradient(true), gradient(false));
}

TEST_F(Offload, LeavesMemoryAloneThatItFetchedInVain) {
  const Tensor x = randn({4096}).to(kGpu).set_requires_grad();
  Tensor y = x, middle;
  {
    const auto scope = offloading(true, /*prefetch=*/100);
    for (int i = 0; i < 8; ++i) {
      y = exp(y * 0.1);
      if (i == 4) middle = y;
    }
  }
  grad({y.sum()}, {middle});  // brings what is before `middle` back, too
  y = middle = Tensor();
  std::vector<Tensor> fresh;
  for (int i = 0; i < 16; ++i) fresh.push_back(ones({4096}, kFloat32, kGpu));
  for (const Tensor& tensor : fresh) {
    EXPECT_EQ(tensor.to_vector<float>(), std::vector<float>(4096, 1.0f));
  }
}

TEST_F(Offload, SeesWhatWasKeptBeforeAChangeInPlace) {
  for (const bool lives_on : {false, true}) {
    const Tensor x = full({1000}, 2.0).to(kGpu).set_requires_grad();
    const Tensor factor = full({1000}, 3.0).to(kGpu);
    auto scope = offloading(true);
    const Tensor y = x * factor;
    factor.add_(1.0);  // waits for the copy
    if (!lives_on) scope.reset();
    y.sum().backward();
    EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>(1000, 3.0f));
  }
}

TEST_F(Offload, WaitsForTheCopyWithinACheckpointToo) {
  const Tensor x = full({1000}, 2.0).to(kGpu).set_requires_grad();
  const Tensor factor = full({1000}, 3.0).to(kGpu);
  const auto scope = offloading(true);
  const Tensor y = x * factor;
  const Tensor z = nn::checkpoint(
      [factor](const Tensor& t) {
        if (!is_recomputing()) factor.add_(1.0);
        return t * 2.0;
      },
      y);
  z.sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>(1000, 6.0f));
}

TEST_F(Offload, KnowsTheResultOfAnOpInPlace) {
  const auto gradient = [](bool offload, const auto& forward) {
    manual_seed(2);
    const Tensor x = randn({1000}).to(kGpu).set_requires_grad();
    const auto scope = offloading(offload);
    const Tensor y = forward(x);
    y.sigmoid_();  // keeps its result
    (y * y).sum().backward();
    return x.grad().to_vector<float>();
  };
  const auto keeps_nothing = [](const Tensor& x) { return x * 1.5; };
  EXPECT_EQ(gradient(true, keeps_nothing), gradient(false, keeps_nothing));
  // What the op before keeps is the same tensor as it was before the change: backward sees that.
  const auto keeps_its_result = [](const Tensor& x) { return (x * 0.1).exp(); };
  const auto in_two = [&](const Tensor& x) { return keeps_its_result(x).clone(); };
  EXPECT_EQ(gradient(true, keeps_its_result), gradient(false, in_two));
}

// What one node's backward makes of the memory that came back is not what another kept.
TEST_F(Offload, FetchesAgainWhatBackwardHasOverwritten) {
  manual_seed(2);
  const Tensor x = randn({50, 10}).to(kGpu).set_requires_grad();
  const Tensor target = zeros({50}, kInt64, kGpu);
  const auto gradient = [&](bool offload, bool in_place) {
    x.set_grad({});
    const auto scope = offloading(offload);
    const Tensor logits = x * 1.5;
    const Tensor squares = logits.square().sum();
    (squares + cross_entropy(logits, target, {.in_place = in_place})).backward();
    return x.grad().to_vector<float>();
  };
  EXPECT_EQ(gradient(true, true), gradient(false, false));
}

TEST_F(Offload, ChecksItsOptions) {
  const std::string error =
      wick::testing::error_of([] { const nn::OffloadActivations scope({.min_bytes = -1}); });
  EXPECT_NE(error.find("got min_bytes -1"), std::string::npos) << error;
}

}  // namespace
