// Random training networks through all passes: losses, gradients and running statistics stay what
// they were, to the bit.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <random>
#include <string_view>

#include "wick/core/amp.h"
#include "wick/core/graph/executor.h"
#include "wick/core/graph/passes.h"
#include "wick/core/graph/trace.h"
#include "wick/core/ops/activation.h"
#include "wick/core/ops/conv.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/ops/norm.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/random.h"
#include "wick/nn/activation_checkpoint.h"
#include "wick/tests/core/graph/expect_equal.h"
#include "wick/tests/harness/sanitized.h"

namespace wick::testing {
namespace {

// A step drawn from a seed: convolutions, norms in training with and without what may follow them,
// linear layers, dropout, residuals, changes in place and regions that backward recomputes, then
// the loss and backward.
class RandomStep {
 public:
  explicit RandomStep(uint64_t seed) : seed_(seed) {
    std::mt19937_64 random(seed);
    num_layers_ = 3 + static_cast<int>(random() % 9);
    is_autocast_ = random() % 4 == 0;
    for (int i = 0; i < kSets; ++i) {
      const auto format =
          random() % 2 == 0 ? MemoryFormat::kContiguous : MemoryFormat::kChannelsLast;
      kernels_.push_back(leaf((randn({kChannels, kChannels, 3, 3}) / 8).contiguous(format)));
      scales_.push_back(leaf(rand({kChannels}) + 0.5));
      shifts_.push_back(leaf(randn({kChannels})));
      means_.push_back(zeros({kChannels}));
      variances_.push_back(ones({kChannels}));
    }
    weight_ = leaf(randn({kFeatures, kFeatures}) / 20);
  }

  static Tensor input() { return randn({3, kChannels, kSide, kSide}); }

  // The loss, the gradients of all parameters, of which some may be undefined, and the statistics.
  Tensors operator()(const Tensors& x) const {
    for (const Tensor& parameter : leaves_) parameter.set_grad(Tensor());
    Tensor y;
    {
      std::optional<amp::Autocast> autocast;
      if (is_autocast_) autocast.emplace(kCpu, kBFloat16);
      y = forward(x[0]);
    }
    const Tensor loss = y.to(kFloat32).square().mean();
    if (loss.requires_grad()) loss.backward();
    Tensors results = {loss.detach()};
    for (const Tensor& parameter : leaves_) results.push_back(parameter.grad());
    results.insert(results.end(), means_.begin(), means_.end());
    results.insert(results.end(), variances_.begin(), variances_.end());
    return results;
  }

  void reset_statistics() const {
    const NoGrad no_grad;
    for (const Tensor& mean : means_) mean.zero_();
    for (const Tensor& variance : variances_) variance.fill_(1);
  }

 private:
  static constexpr int kSets = 4;
  static constexpr int64_t kChannels = 8, kSide = 6, kFeatures = kChannels * kSide * kSide;

  Tensor leaf(const Tensor& x) {
    leaves_.push_back(x.detach().set_requires_grad());
    return leaves_.back();
  }

  Tensor forward(const Tensor& x) const {
    std::mt19937_64 random(seed_);
    Tensors pool = {x};
    for (int i = 0; i < num_layers_; ++i) {
      // The last value more often than others, so that layers follow one another.
      const auto any = [&] {
        return random() % 4 > 0 ? pool.back() : pool[random() % pool.size()];
      };
      const Tensor a = any(), b = any();
      pool.push_back(layer(random, a, b));
    }
    return pool.back();
  }

  Tensor layer(std::mt19937_64& random, const Tensor& a, const Tensor& b) const {
    const size_t k = random() % kSets;
    switch (random() % 13) {
      case 0: return a + b;
      case 1: return a.relu();
      case 2:
      case 3:
      case 4: return norm(random, convolution(random, a, k), b, k);
      case 5: return gelu(flat_linear(a)).reshape(a.shape());
      case 6: return dropout(a, 0.2);
      case 7: return convolution(random, a, k);
      case 8: {
        const Tensor y = a.clone();
        y.mul_(0.5);
        return y;
      }
      case 9: return flat_linear(a).relu().reshape(a.shape());
      case 10: return a.tanh();
      case 11: {  // some layers whose activations are recomputed
        const auto region = [this, seed = random()](const Tensor& in) {
          std::mt19937_64 same(seed);
          return layer(same, layer(same, in, in), in);
        };
        return nn::checkpoint(region, a);
      }
      default:
        return layer_norm(a.reshape({a.size(0), kChannels, kSide * kSide}), {kSide * kSide})
            .reshape(a.shape());
    }
  }

  Tensor convolution(std::mt19937_64& random, const Tensor& x, size_t k) const {
    return conv2d(x, kernels_[k], random() % 2 == 0 ? shifts_[k] : Tensor(), 1, 1);
  }

  Tensor flat_linear(const Tensor& x) const {
    return linear(x.reshape({x.size(0), kFeatures}), weight_);
  }

  Tensor norm(std::mt19937_64& random, const Tensor& x, const Tensor& residual, size_t k) const {
    const BatchNormOptions training{.training = true};
    const Tensor &scale = scales_[k], &shift = shifts_[k], &mean = means_[k], &var = variances_[k];
    switch (random() % 3) {
      case 0: return batch_norm(x, scale, shift, mean, var, training);
      case 1: return batch_norm_relu(x, scale, shift, mean, var, training);
      default:
        return batch_norm_add_relu(x, residual.to(x.dtype()), scale, shift, mean, var, training);
    }
  }

  uint64_t seed_;
  int num_layers_;
  bool is_autocast_;
  Tensors leaves_, kernels_, scales_, shifts_, means_, variances_;
  Tensor weight_;
};

Tensors copies(const Tensors& all) {
  Tensors copied;
  for (const Tensor& x : all) copied.push_back(x.defined() ? x.detach().clone() : x);
  return copied;
}

// Whether the graph of a step, after `pass`, does what the step does, in runs that watch the memory
// and in those that place their tensors.
bool step_holds(uint64_t seed, const std::function<void(graph::Graph&)>& pass) {
  manual_seed(seed);
  const RandomStep step(seed);
  graph::Graph graph = graph::trace([&](const Tensors& x) { return step(x); }, {step.input()});
  pass(graph);
  check(graph);
  graph::Executor executor(graph);
  for (uint64_t i = 0; i < 4; ++i) {
    const Tensor x = step.input();
    step.reset_statistics();
    manual_seed(seed + i);
    const Tensors want = copies(step({x}));
    step.reset_statistics();
    manual_seed(seed + i);
    if (!same_results(executor.run({x}), want)) return false;
  }
  return true;
}

TEST(RandomTraining, PassesKeepEveryBit) {
  const int num_steps = kSanitized ? 50 : 1000;
  int recomputing = 0;
  for (int seed = 1; seed <= num_steps; ++seed) {
    ASSERT_TRUE(step_holds(static_cast<uint64_t>(seed),
                           [&](graph::Graph& graph) {
                             graph::Graph other = graph;
                             recomputing += graph::recompute_cheap_nodes(other) > 0;
                             graph::optimize(graph);
                           }))
        << "seed " << seed;
  }
  EXPECT_GT(recomputing, num_steps / 10);
}

// A pass with a fault: some step shows it.
TEST(RandomTraining, WrongRecomputationIsCaught) {
  int failures = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    failures += !step_holds(seed, [](graph::Graph& graph) {
      for (graph::Node& node : graph.nodes) {  // forgets ReLU
        if (std::string_view(node.op.info().name) != "batch_norm_recompute") continue;
        node.op.set("relu", false);
      }
    });
  }
  EXPECT_GT(failures, 0);
}

}  // namespace
}  // namespace wick::testing
