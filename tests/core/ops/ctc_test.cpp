#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/loss.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/softmax.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/op_case.h"

namespace wick::testing {
namespace {

using Lengths = std::vector<int64_t>;

using Steps = std::vector<std::vector<double>>;  // probabilities of the classes at each

// The probability that steps give some labels, by trying every class at each step.
class AllPaths {
 public:
  AllPaths(const Steps& steps, const Lengths& labels, int64_t blank)
      : steps_(steps),
        labels_(labels),
        blank_(blank),
        known_((steps.size() + 1) * (labels.size() + 1) * kLasts, -1) {}

  double probability() { return from(0, 0, -1); }

 private:
  // Of steps from `t` on and labels from `k` on, the step before having been of class `last`.
  double from(size_t t, size_t k, int64_t last) {
    if (t == steps_.size()) return k == labels_.size() ? 1 : 0;
    double& sum = known_[(t * (labels_.size() + 1) + k) * kLasts + static_cast<size_t>(last + 1)];
    if (sum >= 0) return sum;
    sum = 0;
    for (int64_t c = 0; c < static_cast<int64_t>(steps_[t].size()); ++c) {
      const bool label = c != blank_ && c != last;
      if (label && (k == labels_.size() || labels_[k] != c)) continue;
      sum += steps_[t][static_cast<size_t>(c)] * from(t + 1, k + (label ? 1 : 0), c);
    }
    return sum;
  }

  static constexpr size_t kLasts = 8;  // more than classes
  const Steps& steps_;
  const Lengths& labels_;
  int64_t blank_;
  std::vector<double> known_;
};

struct CtcSetting {
  Lengths inputs, targets;
  int64_t blank = 0;
  LossReduction reduction = LossReduction::kNone;
};

HostArray ctc_reference(const HostArray& logits, const HostArray& targets, const CtcSetting& s) {
  const Shape& shape = logits.shape;
  HostArray losses{{shape[1]}, {}};
  double sum = 0;
  for (int64_t n = 0; n < shape[1]; ++n) {
    Steps steps;
    for (int64_t t = 0; t < s.inputs[static_cast<size_t>(n)]; ++t) {
      const double* x = logits.values.data() + (t * shape[1] + n) * shape[2];
      double total = 0;
      for (int64_t c = 0; c < shape[2]; ++c) total += std::exp(x[c]);
      steps.emplace_back();
      for (int64_t c = 0; c < shape[2]; ++c) steps.back().push_back(std::exp(x[c]) / total);
    }
    Lengths labels;
    for (int64_t k = 0; k < s.targets[static_cast<size_t>(n)]; ++k) {
      labels.push_back(
          static_cast<int64_t>(targets.values[static_cast<size_t>(n * targets.shape[1] + k)]));
    }
    losses.values.push_back(-std::log(AllPaths(steps, labels, s.blank).probability()));
    sum += losses.values.back() / static_cast<double>(std::max(labels.size(), size_t{1}));
  }
  if (s.reduction == LossReduction::kNone) return losses;
  return {{}, {sum / static_cast<double>(shape[1])}};
}

OpCase ctc_case(const char* name, const CtcSetting& s, const Samples& samples) {
  OpCase c;
  c.traceable = false;
  c.name = name;
  c.samples = samples;
  c.call = [s](const Tensors& in) -> Tensors {
    return {ctc_loss(log_softmax(in[0], -1), in[1], s.inputs, s.targets, {s.blank, s.reduction})};
  };
  c.reference = [s](const Arrays& in) -> Arrays { return {ctc_reference(in[0], in[1], s)}; };
  c.tolerance = Tolerance::matmul();
  return c;
}

// Targets with equal neighbours, which need a blank between them.
const OpCaseRegistration ctc_plain(ctc_case("ctc_loss", {{6, 5, 6}, {2, 1, 3}},
                                            {{normal({6, 3, 4}), index({3, 3}, 1, 3).constant()}}),
                                   __FILE__, __LINE__);
const OpCaseRegistration ctc_mean(ctc_case("ctc_loss_mean",
                                           {{5, 0, 4}, {0, 0, 2}, 2, LossReduction::kMean},
                                           {{normal({5, 3, 3}), index({3, 2}, 0, 2).constant()}}),
                                  __FILE__, __LINE__);

// Labels that fill vectors, or one less or more.
const OpCaseRegistration ctc_wide(ctc_case("ctc_loss_wide",
                                           {{70, 60, 55, 40, 30, 9}, {33, 32, 31, 17, 15, 8}, 4},
                                           {{normal({70, 6, 5}), index({6, 33}, 0, 4).constant()}}),
                                  __FILE__, __LINE__);

// Losses and gradients of log-probabilities, of which some are -infinity. The last sample has no
// path.
TEST(CtcLoss, IsThatOfAllPathsForEveryNumberOfLabels) {
  manual_seed(4);
  const Lengths labels{0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 9};
  constexpr size_t kClasses = 5;
  const auto samples = static_cast<int64_t>(labels.size());
  Lengths steps;
  for (const int64_t count : labels) steps.push_back(count + count / 2 + 4);
  steps.back() = 8;
  const Tensor hidden = rand({54, samples, kClasses}) < 0.03;
  const HostArray x =
      read(log_softmax(masked_fill(randn(hidden.shape()), hidden, -INFINITY).to(kFloat64), 2));
  const Tensor targets = randint(1, kClasses, {samples, 33});
  HostArray losses{{samples}, {}}, dx{hidden.shape(), std::vector<double>(x.values.size())};
  for (int64_t n = 0; n < samples; ++n) {
    const auto sample = static_cast<size_t>(n);
    const Lengths path = targets[n].narrow(0, 0, labels[sample]).to_vector<int64_t>();
    const auto first = [&](size_t t) { return (t * labels.size() + sample) * kClasses; };
    Steps p(static_cast<size_t>(steps[sample]));
    for (size_t t = 0; t < p.size(); ++t) {
      for (size_t c = 0; c < kClasses; ++c) p[t].push_back(std::exp(x.values[first(t) + c]));
    }
    const double all = AllPaths(p, path, 0).probability();
    losses.values.push_back(-std::log(all));
    EXPECT_EQ(all > 0, n + 1 < samples) << n;
    for (size_t t = 0; t < p.size(); ++t) {
      const std::vector<double> step = p[t];
      for (size_t c = 0; c < kClasses; ++c) {
        p[t].assign(kClasses, 0);
        p[t][c] = step[c];
        dx.values[first(t) + c] = step[c] - AllPaths(p, path, 0).probability() / all;
      }
      p[t] = step;
    }
  }
  for (const Dtype dtype : {kFloat64, kFloat32}) {
    const Tensor in = make_tensor(x, dtype).set_requires_grad();
    const Tensor got = ctc_loss(in, targets, steps, labels, {.reduction = LossReduction::kNone});
    got.sum().backward();
    const double tolerance = dtype == kFloat64 ? 1e-12 : 2e-5;
    EXPECT_EQ(difference(read(got), losses, tolerance, tolerance), "") << to_string(dtype);
    EXPECT_EQ(difference(read(in.grad()), dx, tolerance, tolerance), "") << to_string(dtype);
  }
}

TEST(CtcLoss, TakesTargetsOneAfterAnother) {
  const Tensor x = log_softmax(randn({9, 3, 5}), 2);
  const Tensor in_rows = tensor<int64_t>({1, 2, 2, 3, -7, -7, 4, 1, -7}, Shape{3, 3});
  const Tensor flat = tensor<int64_t>({1, 2, 2, 3, 4, 1});
  const Lengths steps{9, 8, 7}, labels{3, 1, 2};
  const Tensor want = ctc_loss(x, in_rows, steps, labels);
  EXPECT_TRUE(equal(ctc_loss(x, flat, steps, labels), want));
  EXPECT_TRUE(equal(ctc_loss(x, flat.to(kInt32), tensor(steps), tensor(labels).to(kInt32)), want));
  CtcOptions none;
  none.reduction = LossReduction::kNone;
  const Tensor losses = ctc_loss(x, in_rows, steps, labels, none);
  EXPECT_TRUE(allclose(
      ctc_loss(x.select(1, 2).narrow(0, 0, 7), flat.narrow(0, 4, 2), {7}, {2}, none), losses[2]));
  EXPECT_TRUE(allclose(ctc_loss(x.select(1, 2), flat.narrow(0, 4, 2), {7}, {2}), losses[2] / 2));
}

TEST(CtcLoss, OfSamplesThatNoPathFits) {
  const Tensor x = randn({3, 2, 4}).set_requires_grad();
  const Tensor targets = tensor<int64_t>({1, 1, 2, 3}, Shape{2, 2});  // two ones need three steps
  const Lengths steps{2, 3}, labels{2, 2};
  CtcOptions options;
  options.reduction = LossReduction::kNone;
  const Tensor losses = ctc_loss(x, targets, steps, labels, options);
  EXPECT_EQ(losses.to_vector<float>()[0], std::numeric_limits<float>::infinity());
  losses.sum().backward();
  EXPECT_TRUE(isnan(x.grad().select(1, 0).narrow(0, 0, 2)).all().item<bool>());
  EXPECT_TRUE(isfinite(x.grad().select(1, 1)).all().item<bool>());
  x.set_grad({});
  options.zero_infinity = true;
  const Tensor without = ctc_loss(x, targets, steps, labels, options);
  EXPECT_EQ(without.to_vector<float>()[0], 0);
  EXPECT_EQ(without.to_vector<float>()[1], losses.to_vector<float>()[1]);
  without.sum().backward();
  EXPECT_TRUE(equal(x.grad().select(1, 0), zeros({3, 4})));
  EXPECT_GT(x.grad().select(1, 1).abs().amin().item(), 0);
}

// Long sequences: probabilities far below what floats hold, and blocks of threads with many states.
TEST(CtcLoss, OfLongSequencesOnEveryDevice) {
  manual_seed(5);
  const Tensor logits = randn({700, 2, 50});
  const Tensor targets = randint(1, 50, {2, 300});
  const Lengths steps{700, 650}, labels{300, 270};
  const auto run = [&](Device device, Dtype dtype) {
    const Tensor x = logits.to(dtype).to(device).detach().set_requires_grad();
    const Tensor loss = ctc_loss(log_softmax(x, 2), targets.to(device), steps, labels);
    loss.backward();
    return std::pair(loss.detach().to(kCpu).to(kFloat64), x.grad().to(kCpu).to(kFloat64));
  };
  const auto want = run(kCpu, kFloat64);
  EXPECT_TRUE(isfinite(want.first).item<bool>());
  for (const Device device : devices()) {
    const auto got = run(device, kFloat32);
    EXPECT_TRUE(allclose(got.first, want.first, 1e-5, 0));
    EXPECT_TRUE(allclose(got.second, want.second, 1e-3, 1e-6));
  }
}

TEST(CtcLoss, RejectsWhatDoesNotFit) {
  const Tensor x = randn({4, 2, 3}), targets = tensor<int64_t>({1, 2, 2, 1}, Shape{2, 2});
  EXPECT_EQ(error_of([&] {
              ctc_loss(zeros({5, 2, 4}), zeros({2, 3}, kInt64), {5, 5}, {3, 3},
                       {.reduction = LossReduction::kBatchMean});
            }),
            "ctc_loss: has no reduction batchmean");
  EXPECT_EQ(error_of([&] {
              ctc_loss(x, targets, {4, 5}, {1, 2});
            }),
            "ctc_loss: input_lengths out of range: got 5, expected 0 to 4");
  EXPECT_EQ(error_of([&] {
              ctc_loss(x, targets, {4, 4}, {1, 3});
            }),
            "ctc_loss: target_lengths out of range: got 3, expected 0 to 2");
  EXPECT_EQ(error_of([&] {
              ctc_loss(x, targets, {4}, {1, 2});
            }),
            "ctc_loss: input_lengths: got 1 of them, expected 2");
  EXPECT_EQ(error_of([&] {
              ctc_loss(x, targets.reshape({4}), {4, 4}, {1, 2});
            }),
            "ctc_loss: target_lengths do not add up: got 3, expected 4");
  EXPECT_EQ(error_of([&] {
              ctc_loss(x, targets + 1, {4, 4}, {1, 2});
            }),
            "ctc_loss: target out of range: got 3, expected one in [0, 2]");
  EXPECT_EQ(error_of([&] {
              ctc_loss(x, targets, {4, 4}, {1, 2}, {.blank = 3});
            }),
            "ctc_loss: blank: got 3, expected one in [0, 2]");
  EXPECT_EQ(error_of([&] {
              ctc_loss(x, targets.to(kFloat32), {4, 4}, {1, 2});
            }),
            "ctc_loss: targets must be int64 or int32: got float32");
}

}  // namespace
}  // namespace wick::testing
