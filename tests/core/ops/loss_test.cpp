#include "wick/core/ops/loss.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "wick/core/autograd.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/softmax.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/op_case.h"
#ifdef WICK_SIM
#include "wick/kernels/sim/simulator.h"
#endif

namespace wick::testing {
namespace {

// --- Cross entropy of [N, C] or [N, C, L] --------------------------------------------------------

struct Setting {
  double smoothing = 0;
  int64_t ignore = -100;
  bool weighted = false, is_log = false;
  LossReduction reduction = LossReduction::kMean;
  bool in_place = false;
};

Arrays reference_cross_entropy(const Arrays& in, const Setting& setting) {
  const HostArray &x = in[0], &target = in[1];
  const size_t rows = static_cast<size_t>(x.shape[0]), classes = static_cast<size_t>(x.shape[1]);
  const size_t inner = x.shape.rank() > 2 ? static_cast<size_t>(x.shape[2]) : 1;
  HostArray losses{target.shape, {}};
  double total = 0, weights = 0;
  for (size_t n = 0; n < rows; ++n) {
    for (size_t i = 0; i < inner; ++i) {
      const auto at = [&](size_t c) { return x.values[(n * classes + c) * inner + i]; };
      const auto weight = [&](size_t c) { return setting.weighted ? in[2].values[c] : 1.0; };
      double sum = 0, all = 0, loss = 0;
      for (size_t c = 0; c < classes; ++c) sum += std::exp(at(c));
      const double lse = setting.is_log ? 0 : std::log(sum);
      for (size_t c = 0; c < classes; ++c) all += weight(c) * (lse - at(c));
      const double t = target.values[n * inner + i];
      if (t != static_cast<double>(setting.ignore)) {
        const size_t c = static_cast<size_t>(t);
        loss = (1 - setting.smoothing) * weight(c) * (lse - at(c)) +
               setting.smoothing / static_cast<double>(classes) * all;
        weights += weight(c);
      }
      losses.values.push_back(loss);
      total += loss;
    }
  }
  if (setting.reduction == LossReduction::kNone) return {losses};
  return {HostArray{{}, {setting.reduction == LossReduction::kSum ? total : total / weights}}};
}

Tensors call_cross_entropy(const Tensors& x, const Setting& setting) {
  const Tensor weight = setting.weighted ? x[2] : Tensor();
  if (setting.is_log) return {nll_loss(x[0], x[1], weight, setting.ignore, setting.reduction)};
  return {cross_entropy(setting.in_place ? x[0] + 0.0 : x[0], x[1],
                        {.weight = weight,
                         .ignore_index = setting.ignore,
                         .label_smoothing = setting.smoothing,
                         .reduction = setting.reduction,
                         .in_place = setting.in_place})};
}

Sample classes(const Shape& x) {
  Shape target = x;
  target.erase(1);
  return {normal(x), index(target, 0, x[1]), uniform({x[1]}, 0.5, 2).constant()};
}
const Samples kClasses = {classes({31, 33}),  classes({1, 1}),     classes({5, 1025}),
                          classes({3, 7, 5}), classes({3, 40000}), classes({9000, 5})};

#define CROSS_ENTROPY_CASE(id, ...)                                                          \
  const Setting setting_##id{__VA_ARGS__};                                                   \
  WICK_OP_CASE(                                                                              \
      id, .samples = kClasses,                                                               \
      .call = [](const Tensors& x) { return call_cross_entropy(x, setting_##id); },          \
      .reference = [](const Arrays& x) { return reference_cross_entropy(x, setting_##id); }, \
      .tolerance = Tolerance::reduction(), .second_order = true)

CROSS_ENTROPY_CASE(cross_entropy_mean, );
CROSS_ENTROPY_CASE(cross_entropy_sum, .reduction = LossReduction::kSum);
CROSS_ENTROPY_CASE(cross_entropy_none, .reduction = LossReduction::kNone);
CROSS_ENTROPY_CASE(cross_entropy_smooth, .smoothing = 0.1);
CROSS_ENTROPY_CASE(cross_entropy_weighted, .smoothing = 0.2, .weighted = true);
CROSS_ENTROPY_CASE(cross_entropy_ignoring, .ignore = 0, .weighted = true,
                   .reduction = LossReduction::kSum);
CROSS_ENTROPY_CASE(cross_entropy_in_place, .smoothing = 0.1, .weighted = true, .in_place = true);
CROSS_ENTROPY_CASE(nll_mean, .is_log = true);
CROSS_ENTROPY_CASE(nll_weighted, .ignore = 1, .weighted = true, .is_log = true,
                   .reduction = LossReduction::kSum);

WICK_OP_CASE(
    cross_entropy_probabilities, .samples = {{normal({5, 7}), uniform({5, 7}, 0, 1)}},
    .call = [](const Tensors& x) -> Tensors {
      return {cross_entropy(x[0], x[1], {.label_smoothing = 0.1})};
    },
    .composed = [](const Tensors& x) -> Tensors {
      const Tensor p = x[1] * 0.9 + 0.1 / 7;
      return {-sum(p * log(softmax(x[0], 1))) / 5.0};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);

// --- Losses of elements --------------------------------------------------------------------------

template <class Element>
Arrays average_of(const Arrays& in, const Element& element) {
  double total = 0;
  for (size_t i = 0; i < in[0].values.size(); ++i) {
    total += element(in[0].values[i], in[1].values[i]);
  }
  return {HostArray{{}, {total / static_cast<double>(in[0].values.size())}}};
}

#define LOSS_CASE(id, inputs, expression, element)                                             \
  WICK_OP_CASE(                                                                                \
      id, .samples = inputs, .call = [](const Tensors& x) -> Tensors { return {expression}; }, \
      .reference =                                                                             \
          [](const Arrays& in) {                                                               \
            return average_of(in, [](double x, double t) -> double { return element; });       \
          },                                                                                   \
      .tolerance = Tolerance::reduction(), .second_order = true)

// Predictions and targets whose differences keep away from 0, 0.5 and 0.7.
const Samples kApart = {{uniform({31, 33}, 0, 0.4), uniform({31, 33}, -1.6, -0.8)},
                        {uniform({7, 5}, 0, 0.2), uniform({7, 5}, -0.2, -0.05)}};
const Samples kChances = {{uniform({31, 33}, 0.1, 0.9), uniform({31, 33}, 0.1, 0.9)}};
const Samples kLogits = {{uniform({31, 33}, -4, 4), uniform({31, 33}, 0, 1)}};

LOSS_CASE(mse_loss, kApart, mse_loss(x[0], x[1]), (x - t) * (x - t));
LOSS_CASE(l1_loss, kApart, l1_loss(x[0], x[1]), std::abs(x - t));
LOSS_CASE(smooth_l1_loss, kApart, smooth_l1_loss(x[0], x[1], 0.5),
          std::abs(x - t) < 0.5 ? (x - t) * (x - t) : std::abs(x - t) - 0.25);
LOSS_CASE(huber_loss, kApart, huber_loss(x[0], x[1], 0.7),
          std::abs(x - t) < 0.7 ? (x - t) * (x - t) / 2 : 0.7 * (std::abs(x - t) - 0.35));
LOSS_CASE(binary_cross_entropy, kChances, binary_cross_entropy(x[0], x[1]),
          -(t* std::log(x) + (1 - t) * std::log(1 - x)));
LOSS_CASE(bce_with_logits, kLogits, binary_cross_entropy_with_logits(x[0], x[1]),
          std::log(1 + std::exp(-x)) + (1 - t) * x);
LOSS_CASE(kl_div, kChances, kl_div(x[0], x[1]), t*(std::log(t) - x));
LOSS_CASE(kl_div_of_logs, kChances, kl_div(x[0], x[1], true), std::exp(t) * (t - x));

WICK_OP_CASE(
    losses_of_elements,
    .samples = {{uniform({31, 33}, 0.1, 0.9), uniform({31, 33}, 0.1, 0.9), uniform({31, 33}, -6, 6),
                 uniform({31, 33}, 0.5, 2)}},
    .call = [](const Tensors& x) -> Tensors {
      const LossReduction none = LossReduction::kNone;
      const Tensor& weight = x[3];
      return {mse_loss(x[0], x[1], none),
              huber_loss(x[0], x[2], 20, none),
              binary_cross_entropy(x[0], x[1], weight, none),
              binary_cross_entropy_with_logits(x[2], x[1], weight, {}, none),
              kl_div(x[0], x[1], false, none),
              kl_div(x[0], x[1], true, LossReduction::kBatchMean)};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);

// Shapes that broadcast both ways, the differences as in kApart.
WICK_OP_CASE(
    losses_broadcast,
    .samples = {{uniform({31, 1}, 0, 0.4), uniform({33}, -1.6, -0.8)},
                {uniform({4}, 0, 0.4), uniform({3, 4}, -1.6, -0.8)},
                {uniform({3, 4}, 0, 0.4), uniform({}, -1.6, -0.8)}},
    .call = [](const Tensors& x) -> Tensors {
      return {mse_loss(x[0], x[1]), l1_loss(x[0], x[1], LossReduction::kNone),
              smooth_l1_loss(x[0], x[1], 0.5), huber_loss(x[0], x[1], 0.7, LossReduction::kSum)};
    },
    .composed = [](const Tensors& x) -> Tensors {
      const Tensor d = x[0] - x[1];
      return {mean(square(d)), d, mean(d - 0.25), sum(0.7 * (d - 0.35))};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);

WICK_OP_CASE(
    bce_pos_weight,
    .samples = {{uniform({6, 5}, -4, 4), uniform({6, 5}, 0, 1), uniform({5}, 0.5, 2),
                 uniform({5}, 0.5, 2)}},
    .call = [](const Tensors& x) -> Tensors {
      return {binary_cross_entropy_with_logits(x[0], x[1], x[2], x[3])};
    },
    .composed = [](const Tensors& x) -> Tensors {
      const Tensor p = sigmoid(x[0]);
      return {-mean(x[2] * (x[3] * x[1] * log(p) + (1 - x[1]) * log(1 - p)))};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);

// --- Edges ---------------------------------------------------------------------------------------

std::string message_of(const std::function<void()>& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(CrossEntropy, NamesATargetOutOfRange) {
  const Tensor x = ones({3, 4});
  for (const int64_t bad : {-1, 4}) {
    const Tensor target = tensor<int64_t>({0, bad, 9});
    EXPECT_EQ(message_of([&] { cross_entropy(x, target); }),
              concat("cross_entropy: target out of range: got class ", bad,
                     " at position 1, expected 0 to 3"));
  }
  EXPECT_NO_THROW(cross_entropy(x, tensor<int64_t>({0, -100, 3})));
  EXPECT_NO_THROW(cross_entropy(x, tensor<int32_t>({0, 1, 3})));
}

#ifdef WICK_SIM
TEST(CrossEntropy, KernelsNameATargetOutOfRange) {
  const Device gpu = cuda_device(0);
  const Tensor x = ones({3, 4}, kFloat32, gpu);
  for (const int64_t bad : {int64_t{-1}, int64_t{4}, INT64_MIN, INT64_MAX}) {
    const std::string what = message_of([&] {
      cross_entropy(x, tensor<int64_t>({0, bad, 9}).to(gpu)).cpu();
    });
    EXPECT_NE(what.find("target out of range"), std::string::npos) << what;
    sim::reset();
  }
}
#endif

TEST(CrossEntropy, IgnoredRowsHaveNoGradient) {
  const Tensor x = ones({2, 3}).set_requires_grad();
  cross_entropy(x, tensor<int64_t>({-100, 1}), {.label_smoothing = 0.5}).backward();
  EXPECT_EQ(x.grad()[0].to_vector<float>(), (std::vector<float>{0, 0, 0}));
  EXPECT_NE(x.grad()[1].to_vector<float>()[1], 0);
  EXPECT_TRUE(std::isnan(cross_entropy(x, full({2}, -100, kInt64)).item()));
}

TEST(CrossEntropy, IgnoresClassesAloneNotProbabilities) {
  const Tensor x = ones({2, 3});
  EXPECT_EQ(message_of([&] { cross_entropy(x, softmax(x, 1), {.ignore_index = 1}); }),
            "cross_entropy: ignore_index is for class indices: got 1 with probabilities");
}

TEST(CrossEntropy, BatchesOfIgnoredRowsHaveZeroGradientsOfBothOrders) {
  const Tensor x = ones({2, 3}).set_requires_grad(), target = full({2}, -100, kInt64);
  for (const bool is_log : {false, true}) {
    const Tensor loss = is_log ? nll_loss(x, target) : cross_entropy(x, target);
    const Tensor first = grad({loss}, {x}, {}, true, /*create_graph=*/true)[0];
    EXPECT_EQ(first.to_vector<float>(), (std::vector<float>(6, 0)));
    if (is_log) continue;  // which is linear
    const Tensor second = grad({first.sum()}, {x})[0];
    EXPECT_EQ(second.to_vector<float>(), (std::vector<float>(6, 0)));
  }
}

TEST(CrossEntropy, InPlaceOverwritesTheLogits) {
  const Tensor x = randn({3, 4}).set_requires_grad(), target = tensor<int64_t>({1, 3, 0});
  const Tensor logits = x * 2, kept = logits.detach().clone();
  Tensor loss = cross_entropy(logits, target, {.in_place = true});
  EXPECT_EQ(logits.to_vector<float>(), kept.to_vector<float>());
  loss.backward({}, /*retain_graph=*/true);
  EXPECT_EQ((logits.detach() * 2).to_vector<float>(), x.grad().to_vector<float>());
  const Tensor plain = x.detach().set_requires_grad();
  cross_entropy(plain * 2, target).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), plain.grad().to_vector<float>());
  EXPECT_NE(message_of([&] { loss.backward(); }), "");  // the logits are gone
  const Tensor p = softmax(x, 1);                       // which keeps its output
  EXPECT_NE(message_of([&] { cross_entropy(p, target, {.in_place = true}).backward(); }), "");
  EXPECT_EQ(message_of([&] { cross_entropy(x, target, {.in_place = true}); }),
            "cross_entropy: in_place would put the gradient into a leaf: give it what an operation "
            "made");
}

TEST(CrossEntropy, IsExactForLargeLogits) {
  const Tensor x = tensor<float>({10000, 9990, -10000, 20000}, Shape{2, 2}).set_requires_grad();
  const Tensor loss =
      cross_entropy(x, tensor<int64_t>({1, 0}), {.reduction = LossReduction::kNone});
  const std::vector<float> values = loss.to_vector<float>();
  EXPECT_NEAR(values[0], 10 + std::log1p(std::exp(-10.0)), 1e-5);
  EXPECT_EQ(values[1], 30000);
  loss.sum().backward();
  EXPECT_NEAR(x.grad().to_vector<float>()[0], 1 / (1 + std::exp(-10.0)), 1e-6);
  EXPECT_NEAR(x.grad().to_vector<float>()[3], 1, 1e-6);
}

TEST(CrossEntropy, SmoothsLargeAndMaskedLogits) {
  const float masked = -std::numeric_limits<float>::infinity();
  for (const Device device : devices()) {
    const Tensor x = tensor<float>({10000, 9990, 9980, 0, 1, masked}, Shape{2, 3}).to(device);
    const Tensor target = tensor<int64_t>({0, 1}).to(device);
    const auto losses = [&](const Tensor& weight) {
      return cross_entropy(
                 x, target,
                 {.weight = weight, .label_smoothing = 0.3, .reduction = LossReduction::kNone})
          .to(kCpu)
          .to_vector<float>();
    };
    const double over = std::log1p(std::exp(-10.0) + std::exp(-20.0));
    EXPECT_NEAR(losses({})[0], 0.7 * over + 0.1 * (30 + 3 * over), 1e-5);
    EXPECT_EQ(losses({})[1], -masked);
    EXPECT_TRUE(std::isnan(losses(tensor<float>({1, 1, 0}).to(device))[1]));
  }
}

// Logits whose spacing is a thousandth, and at the start of a row one that is far from the others.
TEST(CrossEntropy, SmoothsManyLargeLogitsToTheLastDigits) {
  constexpr int64_t kRows = 6, kColumns = 1025;
  constexpr double kSmoothing = 0.3;
  std::vector<float> x, weight;
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    x.push_back(i % 3 == 0 ? 10000.3f : i % 3 == 1 ? 9990.7f : 9980.1f);
  }
  x[static_cast<size_t>(4 * kColumns)] = -1e9f;
  x[static_cast<size_t>(5 * kColumns)] = -30000.7f;
  for (int64_t c = 0; c < kColumns; ++c) weight.push_back(0.1f + static_cast<float>(c % 7));
  for (const bool weighted : {false, true}) {
    std::vector<double> want;
    std::vector<int64_t> targets;
    for (int64_t r = 0; r < kRows; ++r) {
      const std::span<const float> row(x.data() + r * kColumns, kColumns);
      const auto target = static_cast<size_t>(100 + r);
      const auto w = [&](size_t c) { return weighted ? static_cast<double>(weight[c]) : 1; };
      const double largest = static_cast<double>(*std::max_element(row.begin(), row.end()));
      const auto below = [&](size_t c) { return largest - static_cast<double>(row[c]); };
      double sum = 0, all = 0;
      for (size_t c = 0; c < row.size(); ++c) sum += std::exp(-below(c));
      for (size_t c = 0; c < row.size(); ++c) all += w(c) * (below(c) + std::log(sum));
      want.push_back((1 - kSmoothing) * w(target) * (below(target) + std::log(sum)) +
                     kSmoothing / kColumns * all);
      targets.push_back(static_cast<int64_t>(target));
    }
    for (const Device device : devices()) {
      const std::vector<float> got =
          cross_entropy(tensor(x, Shape{kRows, kColumns}).to(device), tensor(targets).to(device),
                        {.weight = weighted ? tensor(weight).to(device) : Tensor(),
                         .label_smoothing = kSmoothing,
                         .reduction = LossReduction::kNone})
              .to(kCpu)
              .to_vector<float>();
      for (size_t r = 0; r < want.size(); ++r) {
        EXPECT_NEAR(static_cast<double>(got[r]) / want[r], 1, 1e-6)
            << device << " row " << r << (weighted ? ", weighted" : "");
      }
    }
  }
}

TEST(CrossEntropy, TakesOneSampleAndImages) {
  const Tensor x = empty({2, 5, 3, 4}).normal_(), target = ones({2, 3, 4}, kInt64);
  const Tensor flat = x.permute({0, 2, 3, 1}).reshape({24, 5});
  const float want = cross_entropy(flat, ones({24}, kInt64)).item<float>();
  EXPECT_EQ(cross_entropy(x, target).item<float>(), want);
  EXPECT_EQ(cross_entropy(x.contiguous(MemoryFormat::kChannelsLast), target).item<float>(), want);
  EXPECT_EQ(cross_entropy(x, target, {.reduction = LossReduction::kNone}).shape(), target.shape());
  const Tensor one = flat[0];
  EXPECT_NEAR(cross_entropy(one, ones({}, kInt64)).item<float>(),
              -log_softmax(one, 0)[1].item<float>(), 2e-6);
}

TEST(Losses, SayWhatIsWrong) {
  const Tensor x = ones({3, 4});
  EXPECT_THROW(cross_entropy(x, ones({4}, kInt64)), Error);
  EXPECT_EQ(message_of([&] { cross_entropy(x, ones({3})); }),
            "cross_entropy: target has the wrong shape: got probabilities (float32) of shape [3], "
            "expected [3, 4], or class indices of shape [3]");
  EXPECT_THROW(cross_entropy(x, ones({3}, kInt64), {.weight = ones({3})}), Error);
  EXPECT_THROW(cross_entropy(x, ones({3}, kInt64), {.label_smoothing = 1.5}), Error);
  EXPECT_THROW(cross_entropy(x, ones({3}, kInt64), {.reduction = LossReduction::kBatchMean}),
               Error);
  EXPECT_THROW(cross_entropy(x.to(kInt64), ones({3}, kInt64)), Error);
  const Tensor weight = ones({4}).set_requires_grad();
  EXPECT_THROW(cross_entropy(x, ones({3}, kInt64), {.weight = weight}), Error);
  EXPECT_THROW(nll_loss(x, ones({3}, kInt64), weight), Error);
  EXPECT_TRUE(error_of([&] { mse_loss(x, ones({3})); }).starts_with("mse_loss: "));
  EXPECT_THROW(mse_loss(x, x.to(kFloat64)), Error);
  EXPECT_THROW(huber_loss(x, x, 0), Error);
}

TEST(Losses, AtTheEdges) {
  const Tensor x = tensor<float>({0, 1, 0, 1}).set_requires_grad();
  const Tensor target = tensor<float>({0, 1, 1, 0});
  const Tensor loss = binary_cross_entropy(x, target, {}, LossReduction::kNone);
  EXPECT_EQ(loss.to_vector<float>(), (std::vector<float>{0, 0, 100, 100}));
  loss.sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>()[0], 0);
  EXPECT_TRUE(std::isfinite(x.grad().to_vector<float>()[2]));
  const Tensor logits = tensor<float>({-200, 200, 200});
  const Tensor labels = tensor<float>({1, 0, 1});
  EXPECT_EQ(binary_cross_entropy_with_logits(logits, labels, {}, {}, LossReduction::kNone)
                .to_vector<float>(),
            (std::vector<float>{200, 200, 0}));
  EXPECT_EQ(kl_div(tensor<float>({-1, -2}), tensor<float>({0, 1}), false, LossReduction::kSum)
                .item<float>(),
            2);
  EXPECT_EQ(kl_div(ones({2, 3}), ones({2, 3}), false, LossReduction::kBatchMean).item<float>(), -3);
  EXPECT_EQ(kl_div(ones({}), ones({}), false, LossReduction::kBatchMean).item<float>(), -1);
  EXPECT_EQ(smooth_l1_loss(tensor<float>({3, -1}), zeros({2}), 0).item<float>(), 2);
}

}  // namespace
}  // namespace wick::testing
