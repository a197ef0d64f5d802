// Outputs that are made again in backward instead of being kept.
#include <gtest/gtest.h>

#include <functional>

#include "wick/core/core.h"

namespace {

using namespace wick;

struct RecomputeOff {
  RecomputeOff() { set_recompute(false); }
  ~RecomputeOff() { set_recompute(true); }
};

struct Net {
  Tensor x = randn({4, 8, 9, 9}).contiguous(MemoryFormat::kChannelsLast);
  Tensor scale = rand({8}), shift = randn({8}), mean = zeros({8}), var = ones({8});
  Tensor kernel = randn({6, 8, 3, 3}).contiguous(MemoryFormat::kChannelsLast);

  Net() {
    for (const Tensor& t : {x, scale, shift, kernel}) t.set_requires_grad();
  }
  Tensor loss() const {
    const Tensor y = batch_norm_relu(x, scale, shift, mean, var);
    return conv2d(y, kernel, {}, {1, 1}, {1, 1}).tanh().sum();
  }
  std::vector<Tensor> leaves() const { return {x, scale, shift, kernel}; }
};

TEST(Recompute, GivesTheSameBits) {
  const Net net;
  const std::vector<Tensor> again = grad({net.loss()}, net.leaves());
  const RecomputeOff off;
  const std::vector<Tensor> kept = grad({net.loss()}, net.leaves());
  for (size_t i = 0; i < kept.size(); ++i) {
    EXPECT_EQ(again[i].to_vector<float>(), kept[i].to_vector<float>()) << "leaf " << i;
  }
}

// What was changed in place, seen by autograd or not, is none of batch norm's any more.
TEST(Recompute, KeepsWhatChangesInPlaceMadeOfAnOutput) {
  const std::vector<std::function<void(const Tensor&)>> changes = {
      [](const Tensor& y) { y.sigmoid_(); },
      [](const Tensor& y) { y.exp_(); },
      [](const Tensor& y) { y.relu_(); },
      [](const Tensor& y) {
        const NoGrad no_grad;
        y.add_(1);
      },
      [](const Tensor& y) { y.pow_(3); },
      [](const Tensor& y) {
        {
          const NoGrad no_grad;
          y.add_(1);
        }
        y.pow_(3);
      }};
  for (size_t i = 0; i < changes.size(); ++i) {
    const Net net;
    const auto gradients = [&] {
      const Tensor y = batch_norm(net.x, net.scale, net.shift, net.mean, net.var);
      changes[i](y);
      return grad({(y * y).sum()}, {net.x, net.scale, net.shift});
    };
    const std::vector<Tensor> again = gradients();
    const RecomputeOff off;
    const std::vector<Tensor> kept = gradients();
    for (size_t k = 0; k < kept.size(); ++k) {
      EXPECT_EQ(again[k].to_vector<float>(), kept[k].to_vector<float>()) << i << ": " << k;
    }
  }
}

TEST(Recompute, CastsWeightsToTheSameBits) {
  const Net net;
  const auto gradients = [&] {
    Tensor loss;
    {
      const amp::Autocast autocast(kCpu);
      loss = net.loss();
    }
    const std::vector<Tensor> first = grad({loss}, net.leaves(), {}, false, /*create_graph=*/true);
    return grad({first[0].pow(2).sum()}, {net.kernel, net.scale});
  };
  const std::vector<Tensor> again = gradients();
  const RecomputeOff off;
  const std::vector<Tensor> kept = gradients();
  for (size_t i = 0; i < kept.size(); ++i) {
    EXPECT_EQ(again[i].to_vector<float>(), kept[i].to_vector<float>()) << "leaf " << i;
  }
}

TEST(Recompute, LeavesRunningStatisticsAlone) {
  const Net net;
  const Tensor loss = net.loss();
  const std::vector<float> after_forward = net.mean.to_vector<float>();
  loss.backward();
  EXPECT_EQ(net.mean.to_vector<float>(), after_forward);
}

TEST(Recompute, HoldsLessMemory) {
  const Net net;
  const auto held = [&] {
    const uint64_t before = memory_allocated(kCpu);
    const Tensor loss = net.loss();
    return memory_allocated(kCpu) - before;
  };
  held();  // caches of the convolution
  const uint64_t less = held();
  const RecomputeOff off;
  EXPECT_GE(held(), less + static_cast<uint64_t>(net.x.numel()) * sizeof(float));
}

TEST(Recompute, HasSecondDerivatives) {
  const Net net;
  const auto second = [&] {
    const std::vector<Tensor> first = grad({net.loss()}, {net.x}, {}, false, /*create_graph=*/true);
    return grad({first[0].pow(2).sum()}, {net.kernel, net.scale});
  };
  const std::vector<Tensor> again = second();
  const RecomputeOff off;
  const std::vector<Tensor> kept = second();
  for (size_t i = 0; i < kept.size(); ++i) {
    EXPECT_EQ(again[i].to_vector<float>(), kept[i].to_vector<float>());
  }
}

TEST(Recompute, NoticesWhatWasChangedInPlace) {
  const Net net;
  const Tensor loss = net.loss();
  {
    const NoGrad no_grad;
    net.scale.add_(1);
  }
  EXPECT_THROW(loss.backward(), Error);
}

TEST(Recompute, KeepsWhatWasChangedBeforeItWasSaved) {
  const Net net;
  const std::vector<void (*)(const Tensor&)> changes = {
      [](const Tensor& y) {
        const NoGrad no_grad;
        y.mul_(2);
      },
      [](const Tensor& y) { y.detach().copy_(ones_like(y)); }};
  for (const auto& change : changes) {
    const Tensor y = batch_norm_relu(net.x, net.scale, net.shift, net.mean, net.var);
    const Tensor w = ones_like(y.detach()).set_requires_grad();
    change(y);
    (y * w).sum().backward();
    EXPECT_EQ(w.grad().to_vector<float>(), y.to_vector<float>());
  }
}

}  // namespace
