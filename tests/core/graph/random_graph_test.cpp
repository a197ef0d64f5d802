// Random graphs through all passes: what they compute stays what it was, to the bit.
#include <gtest/gtest.h>

#include <random>

#include "wick/core/graph/executor.h"
#include "wick/core/graph/passes.h"
#include "wick/core/graph/trace.h"
#include "wick/core/ops/activation.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/conv.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/norm.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/softmax.h"
#include "wick/core/random.h"
#include "wick/tests/core/graph/expect_equal.h"
#include "wick/tests/harness/sanitized.h"

namespace wick::testing {
namespace {

// A program drawn from a seed: ops on tensors of a few shapes and dtypes, some of them in place, on
// views, with random numbers, and with gradients.
class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed) : seed_(seed) {
    std::mt19937_64 random(seed);
    table_ = randn({kRows, kColumns});
    steps_ = 4 + static_cast<int>(random() % 20);
  }

  Tensors inputs() const { return {randn({kRows, kColumns}), randn({kColumns}), rand({kRows, 1})}; }

  Tensors operator()(const Tensors& x) const {
    std::mt19937_64 random(seed_);
    Tensors pool = x;
    pool.push_back(table_);
    for (int i = 0; i < steps_; ++i) pool.push_back(step(random, pool));
    Tensors results;
    for (int i = 0; i < 3; ++i) results.push_back(any(random, pool));
    results.push_back(pool.back());
    return results;
  }

 private:
  static const Tensor& any(std::mt19937_64& random, const Tensors& pool) {
    return pool[random() % pool.size()];
  }

  static Tensor reduced(std::mt19937_64& random, const Tensor& a) {
    const Tensor x = (a * 0.25).exp();
    const Shape axes = random() % 2 == 0 ? Shape{} : Shape{random() % 2 == 0 ? 0 : -1};
    switch (random() % 4) {
      case 0: return x.sum(axes, true);
      case 1: return x.mean(axes, true);
      case 2: return x.amax(axes, true);
      default: return x.amin(axes, true);
    }
  }

  static Tensor step(std::mt19937_64& random, const Tensors& pool) {
    const Tensor& a = any(random, pool);
    const Tensor& b = any(random, pool);
    const double number = static_cast<double>(random() % 7) / 4 - 0.5;
    switch (random() % 21) {
      case 0: return a + b;
      case 1: return a * b;
      case 2: return a - b;
      case 3: return maximum(a, b);
      case 4: return a * number;
      case 5: return a + number;
      case 6: return a.tanh();
      case 7: return a.sigmoid();
      case 8: return a.relu();
      case 9: return gelu(a);
      case 10: return a.to(random() % 2 == 0 ? kBFloat16 : kFloat32);
      case 11: return a.sum(Shape{-1}, true);
      case 12: return softmax(a.to(kFloat32), -1);
      case 13: return where(gt(a, number), a, b);
      case 14: return dropout(a, 0.5);
      case 15: return (a * tensor<float>({1.5})).exp().clamp(0.0, 4.0);
      case 16: {
        const Tensor y = a.clone();
        y.mul_(number);
        return y.unsqueeze(0).squeeze(0);
      }
      case 17: {
        Tensor sums = zeros(a.shape());
        sums.add_(a.to(kFloat32));
        sums.narrow(-1, 0, 1).fill_(number);
        return sums;
      }
      case 18: return cat({a, a}, -1).narrow(-1, 0, a.size(-1));
      case 19: return reduced(random, a);
      default: {
        const EnableGrad recorded;
        const Tensor leaf = a.detach().to(kFloat32).clone().set_requires_grad();
        return grad({(leaf.tanh() * b.detach()).sum().to(kFloat32)}, {leaf})[0];
      }
    }
  }

  static constexpr int64_t kRows = 2, kColumns = 1030;  // longer rows than those of unfused sums
  uint64_t seed_;
  Tensor table_;
  int steps_;
};

using Pass = std::function<void(graph::Graph&)>;

// Whether the graph of a program, after `pass`, gives what the program does, in the first runs,
// which watch the memory, and in later ones.
bool holds(uint64_t seed, const Pass& pass) {
  manual_seed(seed);
  const RandomProgram program(seed);
  graph::Graph graph = graph::trace([&](const Tensors& x) { return program(x); }, program.inputs());
  pass(graph);
  check(graph);
  graph::Executor executor(graph);
  for (int i = 0; i < 4; ++i) {
    const Tensors x = program.inputs();
    manual_seed(seed + static_cast<uint64_t>(i));
    const Tensors want = program(x);
    manual_seed(seed + static_cast<uint64_t>(i));
    if (!same_results(executor.run(x), want)) return false;
  }
  return true;
}

int num_programs() { return kSanitized ? 150 : 10'000; }

TEST(RandomGraphs, PassesKeepEveryBit) {
  for (int seed = 1; seed <= num_programs(); ++seed) {
    ASSERT_TRUE(holds(static_cast<uint64_t>(seed), graph::optimize)) << "seed " << seed;
  }
}

TEST(RandomGraphs, FreezingKeepsEveryBit) {
  for (int seed = 1; seed <= num_programs(); ++seed) {
    ASSERT_TRUE(holds(static_cast<uint64_t>(seed),
                      [](graph::Graph& graph) {
                        graph::freeze_constants(graph);
                        graph::optimize(graph);
                      }))
        << "seed " << seed;
  }
}

// A network drawn from a seed, in evaluation: convolutions of each kind, norms with running
// statistics, ReLU and sums, of which some read what others read too.
class RandomNetwork {
 public:
  RandomNetwork(uint64_t seed, Dtype dtype) : seed_(seed), dtype_(dtype) {
    std::mt19937_64 random(seed);
    steps_ = 3 + static_cast<int>(random() % 10);
    for (Tensor* weight : {&kernel_, &grouped_}) {
      *weight = parameter(randn({kChannels, weight == &kernel_ ? kChannels : 2, 3, 3}) / 6);
    }
    line_ = parameter(randn({kChannels, kChannels, 3}) / 4);
    bias_ = parameter(randn({kChannels}));
    scale_ = parameter(rand({kChannels}) + 0.5);
    shift_ = parameter(randn({kChannels}));
    mean_ = parameter(randn({kChannels}));
    var_ = parameter(rand({kChannels}) + 0.5);
  }

  Tensor input() const { return randn({2, kChannels, 6, 6}).to(dtype_); }

  Tensors operator()(const Tensors& x) const {
    std::mt19937_64 random(seed_);
    Tensors pool = x;
    for (int i = 0; i < steps_; ++i) pool.push_back(step(random, pool));
    return {pool.back(), pool[random() % pool.size()]};
  }

 private:
  static constexpr int64_t kChannels = 4;

  Tensor parameter(const Tensor& x) const { return x.to(dtype_); }

  Tensor convolve(std::mt19937_64& random, const Tensor& x) const {
    const Tensor bias = random() % 2 == 0 ? bias_ : Tensor();
    switch (random() % 4) {
      case 0: return conv2d(x, kernel_, bias, 1, 1);
      case 1: return conv2d(x, grouped_, bias, 1, 2, 2, 2);
      case 2: return conv_transpose2d(x, kernel_, bias, 1, 1);
      default: return conv1d(x.reshape({2, kChannels, 36}), line_, bias, 1, 1).reshape(x.shape());
    }
  }

  Tensor step(std::mt19937_64& random, const Tensors& pool) const {
    // The last value more often than others, so that ops follow one another.
    const auto any = [&] { return random() % 4 > 0 ? pool.back() : pool[random() % pool.size()]; };
    const Tensor a = any(), b = any();
    const BatchNormOptions running{.training = false};
    switch (random() % 8) {
      case 0: return a + b;
      case 1: return a.relu();
      case 2: return batch_norm(convolve(random, a), scale_, shift_, mean_, var_, running);
      case 3: return batch_norm_relu(convolve(random, a), {}, {}, mean_, var_, running);
      case 4:
        return batch_norm_add_relu(convolve(random, a), b, scale_, shift_, mean_, var_, running);
      case 5: return batch_norm(a, scale_, shift_, mean_, var_, running);
      case 6: {
        const Tensor y = convolve(random, a).contiguous();
        y.mul_(0.5);
        return y;
      }
      default: return convolve(random, a);
    }
  }

  uint64_t seed_;
  Dtype dtype_;
  int steps_;
  Tensor kernel_, grouped_, line_, bias_, scale_, shift_, mean_, var_;
};

// Whether the graph of a network, after `pass`, gives what the network does, but for rounding.
bool network_holds(uint64_t seed, Dtype dtype, const Pass& pass) {
  manual_seed(seed);
  const RandomNetwork network(seed, dtype);
  graph::Graph graph =
      graph::trace([&](const Tensors& x) { return network(x); }, {network.input()});
  pass(graph);
  check(graph);
  graph::Executor executor(graph);
  const double tolerance = dtype == kFloat64 ? 1e-11 : 1e-4;
  for (int i = 0; i < 3; ++i) {
    const Tensor x = network.input();
    const Tensors want = network({x}), got = executor.run({x});
    for (size_t k = 0; k < want.size(); ++k) {
      const double largest = want[k].abs().max().item<double>();
      if (!allclose(got[k], want[k], 0, tolerance * (1 + largest))) return false;
    }
  }
  return true;
}

TEST(RandomGraphs, InferenceKeepsValues) {
  int64_t folded = 0;
  for (int seed = 1; seed <= num_programs() / 4; ++seed) {
    for (const Dtype dtype : {kFloat64, kFloat32}) {
      ASSERT_TRUE(network_holds(static_cast<uint64_t>(seed), dtype,
                                [&](graph::Graph& graph) {
                                  graph::freeze_constants(graph);
                                  folded += graph::fold_batch_norms(graph);
                                  graph::optimize_for_inference(graph);
                                }))
          << "seed " << seed << " " << dtype;
    }
  }
  EXPECT_GT(folded, num_programs() / 4);
}

// Passes with a fault each: some program shows it.
int failures(const Pass& pass) {
  int count = 0;
  for (int seed = 1; seed <= 100; ++seed) count += !holds(static_cast<uint64_t>(seed), pass);
  return count;
}

// Folds with a fault each: a changed constant among those that the fold made.
TEST(RandomGraphs, WrongFoldsAreCaught) {
  int failures = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    failures += !network_holds(seed, kFloat64, [](graph::Graph& graph) {
      graph::freeze_constants(graph);
      const size_t before = graph.constants.size();
      if (graph::fold_batch_norms(graph) == 0) return;
      Tensor& made = graph.constants[before].tensor;
      made = made * (1 + 1e-6);
    });
  }
  EXPECT_GT(failures, 10);
}

TEST(RandomGraphs, WrongPassesAreCaught) {
  EXPECT_GT(failures([](graph::Graph& graph) {  // takes x - y for y - x
              for (graph::Node& node : graph.nodes) {
                if (std::string_view(node.op.info().name) != "add") continue;
                std::swap(node.inputs[0], node.inputs[1]);
              }
            }),
            0);
  EXPECT_GT(failures([](graph::Graph& graph) {  // forgets a change in place
              for (graph::Node& node : graph.nodes) {
                if (std::string_view(node.op.info().name) != "mul_scalar_") continue;
                node.op.set("other", int64_t{1});
              }
            }),
            0);
  EXPECT_GT(failures([](graph::Graph& graph) {  // draws the same numbers twice
              for (graph::Node& node : graph.nodes) node.draw = std::min<int64_t>(node.draw, 0);
            }),
            0);
}

}  // namespace
}  // namespace wick::testing
