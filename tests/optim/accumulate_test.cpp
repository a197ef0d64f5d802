#include "wick/optim/accumulate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "wick/core/core.h"
#include "wick/nn/nn.h"
#include "wick/optim/sgd.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/host_array.h"

namespace wick::testing {
namespace {

using namespace optim;

// A classifier, its optimizer, and all of the data that it is to see.
struct Learner {
  explicit Learner(Device device) {
    manual_seed(3);
    net.push_back(nn::Linear(6, 16));
    net.push_back(nn::Tanh());
    net.push_back(nn::Linear(16, 3));
    x = randn({100, 6}).to(device);
    target = randn({100, 3}).to(device).argmax(1);
    net.to(device);
    optimizer = std::make_unique<SGD>(net.parameters(), SGDOptions{.lr = 0.5, .momentum = 0.9});
  }
  Tensor loss(int64_t begin, int64_t end) {
    return cross_entropy(net(x.slice(0, begin, end)), target.slice(0, begin, end));
  }
  std::vector<double> weights() {
    std::vector<double> all;
    for (const Tensor& parameter : net.parameters()) {
      const std::vector<double> own = parameter.detach().cpu().to(kFloat64).to_vector<double>();
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

  nn::Sequential net;
  Tensor x, target;
  std::unique_ptr<Optimizer> optimizer;
};

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(a[i] - b[i]));
  return largest;
}

TEST(Accumulate, CutsABatchWithShares) {
  std::vector<int64_t> ends;
  double shares = 0;
  accumulate(10, 4, [&](int64_t begin, int64_t end, double share) {
    EXPECT_EQ(begin, ends.empty() ? 0 : ends.back());
    EXPECT_DOUBLE_EQ(share, static_cast<double>(end - begin) / 10);
    ends.push_back(end);
    shares += share;
  });
  EXPECT_EQ(ends, (std::vector<int64_t>{2, 5, 7, 10}));
  EXPECT_DOUBLE_EQ(shares, 1);
  int64_t calls = 0;
  accumulate(2, 8, [&](int64_t, int64_t, double share) { calls += share == 0.5; });
  EXPECT_EQ(calls, 2);
}

// Two epochs of batches of different sizes against steps on the same examples as one batch each.
TEST(GradAccumulator, TakesTheStepsOfWholeBatches) {
  const std::vector<std::vector<int64_t>> epochs = {{8, 8, 8, 8, 8, 8, 3}, {5, 8, 1, 8, 8}};
  for (const Device device : devices()) {
    for (const bool is_scaled : {false, true}) {
      for (const std::optional<double> max_norm :
           {std::optional<double>(), std::optional<double>(0.1)}) {
        Learner pieces(device), whole(device);
        amp::GradScaler scaler({.init_scale = 1024});
        GradAccumulator steps(
            *pieces.optimizer,
            {.every = 3, .max_norm = max_norm, .scaler = is_scaled ? &scaler : nullptr});
        const auto compare = [&](int64_t begin, int64_t end) {
          whole.optimizer->zero_grad();
          whole.loss(begin, end).backward();
          const Tensor norm = whole.optimizer->step({.max_norm = max_norm});
          EXPECT_LT(largest_difference(pieces.weights(), whole.weights()), 1e-5)
              << begin << " to " << end;
          ASSERT_EQ(steps.grad_norm().defined(), max_norm.has_value());
          if (max_norm) {
            EXPECT_GT(norm.item(), *max_norm);  // clipping was needed
            EXPECT_NEAR(steps.grad_norm().item(), norm.item(), 1e-5);
          }
        };
        int64_t steps_taken = 0;
        for (const std::vector<int64_t>& epoch : epochs) {
          int64_t begin = 0, at = 0;
          for (const int64_t size : epoch) {
            steps.backward(pieces.loss(at, at + size), size);
            at += size;
            if (!steps.step()) continue;
            compare(std::exchange(begin, at), at);
            ++steps_taken;
          }
          EXPECT_GT(at, begin);  // something is left
          ASSERT_TRUE(steps.flush());
          compare(begin, at);
          ++steps_taken;
          EXPECT_FALSE(steps.flush());
        }
        EXPECT_EQ(steps_taken, 5);
        EXPECT_EQ(steps.steps(), 5);
        EXPECT_FALSE(pieces.net.parameters()[0].grad().defined());
      }
    }
  }
}

TEST(GradAccumulator, IsAPlainStepWhereEveryBatchIsOne) {
  Learner one(kCpu), other(kCpu);
  GradAccumulator steps(*one.optimizer);
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(steps.next_completes_step());
    steps.backward(one.loss(8 * i, 8 * i + 8), 8);
    EXPECT_TRUE(steps.step());
    other.optimizer->zero_grad();
    other.loss(8 * i, 8 * i + 8).backward();
    other.optimizer->step();
  }
  EXPECT_EQ(one.weights(), other.weights());
}

TEST(GradAccumulator, SkipsAStepOfWhichOneBatchOverflows) {
  for (const Device device : devices()) {
    Learner task(device);
    const std::vector<double> before = task.weights();
    amp::GradScaler scaler({.init_scale = 1024});
    GradAccumulator steps(*task.optimizer, {.every = 3, .scaler = &scaler});
    for (int i = 0; i < 3; ++i) {
      const Tensor loss = task.loss(0, 4);
      steps.backward(i == 1 ? loss * INFINITY : loss, 4);
      EXPECT_EQ(steps.step(), i == 2);
    }
    EXPECT_EQ(task.weights(), before);
    EXPECT_EQ(steps.found_inf().item(), 1);
    EXPECT_EQ(scaler.get_scale(), 512);
    for (int i = 0; i < 3; ++i) steps.backward(task.loss(0, 4), 4);
    EXPECT_TRUE(steps.step());
    EXPECT_EQ(steps.found_inf().item(), 0);
    EXPECT_NE(task.weights(), before);
  }
}

TEST(GradAccumulator, ForgetsWhatIsDiscarded) {
  Learner one(kCpu), other(kCpu);
  GradAccumulator steps(*one.optimizer, {.every = 2});
  steps.backward(one.loss(50, 60), 10);
  steps.discard();
  for (const int64_t begin : {0, 10}) {
    EXPECT_FALSE(steps.step());
    steps.backward(one.loss(begin, begin + 10), 10);
  }
  EXPECT_TRUE(steps.step());
  other.loss(0, 20).backward();
  other.optimizer->step();
  EXPECT_LT(largest_difference(one.weights(), other.weights()), 1e-6);
}

TEST(GradAccumulator, SaysWhatIsWrong) {
  Learner task(kCpu);
  const auto expect_error = [](const char* text, const auto& action) {
    const std::string error = error_of(action);
    EXPECT_NE(error.find(text), std::string::npos) << error;
  };
  expect_error("every: got 0", [&] { GradAccumulator(*task.optimizer, {.every = 0}); });
  GradAccumulator steps(*task.optimizer, {.every = 2});
  expect_error("examples: got 0", [&] { steps.backward(task.loss(0, 4), 0); });
  EXPECT_FALSE(steps.next_completes_step());
  steps.backward(task.loss(0, 4), 4);
  expect_error("ranks have not exchanged gradients", [&] { steps.flush(); });
  EXPECT_TRUE(steps.next_completes_step());
  steps.backward(task.loss(0, 4), 4);
  expect_error("expected step() first", [&] { steps.backward(task.loss(0, 4), 4); });
  EXPECT_TRUE(steps.step());
  EXPECT_TRUE(steps.next_completes_step(/*is_end=*/true));
  steps.backward(task.loss(0, 4), 4);
  EXPECT_TRUE(steps.flush());
}

}  // namespace
}  // namespace wick::testing
