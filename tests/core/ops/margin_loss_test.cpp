#include "wick/core/ops/margin_loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/reduce.h"
#include "wick/tests/core/ops/remap.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

constexpr LossReduction kNone = LossReduction::kNone;

// Targets 1 and -1, from a mask.
Tensor signs(const Tensor& mask, const Tensor& like) { return mask.to(like.dtype()) * 2 - 1; }

// `reference` of a loss of each pair x, target, of which the mean is taken.
std::function<Arrays(const Arrays&)> mean_of(double (*loss)(double, double)) {
  return [loss](const Arrays& in) -> Arrays {
    double sum = 0;
    for (size_t i = 0; i < in[0].values.size(); ++i) {
      sum += loss(in[0].values[i], in[1].values[i]);
    }
    return {HostArray{{}, {sum / static_cast<double>(in[0].values.size())}}};
  };
}

double max0(double x) { return std::max(x, 0.0); }

const Samples kTwo = {{uniform({31, 33}, 0.2, 2), uniform({31, 33}, 0.2, 2).constant()},
                      {uniform({}, 0.2, 2), uniform({}, 0.2, 2).constant()}};

WICK_OP_CASE(
    poisson_nll_loss, .samples = kTwo,
    .call = [](const Tensors& x) -> Tensors { return {poisson_nll_loss(x[0], x[1])}; },
    .reference = mean_of([](double x, double t) { return std::exp(x) - t * x; }),
    .tolerance = Tolerance::reduction());
WICK_OP_CASE(
    poisson_nll_loss_full,
    .samples = {{uniform({31, 7}, 0.2, 2), uniform({31, 7}, 1.5, 4).constant()}},
    .call = [](const Tensors& x) -> Tensors { return {poisson_nll_loss(x[0], x[1], false, true)}; },
    .reference = mean_of([](double x, double t) {
      return x - t * std::log(x + 1e-8) + t * std::log(t) - t + 0.5 * std::log(2 * M_PI * t);
    }),
    .tolerance = Tolerance::reduction());
WICK_OP_CASE(
    gaussian_nll_loss,
    .samples = {{normal({31, 33}), normal({31, 33}), uniform({31}, 0.3, 2)},
                {normal({2, 5}), normal({2, 5}), uniform({2, 1}, 0.3, 2)}},
    .call = [](const Tensors& x) -> Tensors {
      return {gaussian_nll_loss(x[0], x[1], x[2], true, 1e-6, kNone)};
    },
    .reference = [](const Arrays& in) -> Arrays {
      HostArray y = in[0];
      for_each_coordinate(y.shape, [&](const Shape& c) {
        const double var = in[2].values[static_cast<size_t>(c[0])], d = at(y, c) - at(in[1], c);
        at(y, c) = 0.5 * (std::log(var) + d * d / var + std::log(2 * M_PI));
      });
      return {y};
    },
    .tolerance = Tolerance::reduction(), .second_order = true, .traceable = false);
WICK_OP_CASE(
    margin_ranking_loss, .samples = {{uniform({33}, 1, 2), uniform({33}, -2, -1), mask({33})}},
    .call = [](const Tensors& x) -> Tensors {
      return {margin_ranking_loss(x[0], x[1], signs(x[2], x[0]), 0.5, kNone)};
    },
    .reference = [](const Arrays& in) -> Arrays {
      HostArray y = in[0];
      for (size_t i = 0; i < y.values.size(); ++i) {
        y.values[i] = max0(0.5 - (2 * in[2].values[i] - 1) * (y.values[i] - in[1].values[i]));
      }
      return {y};
    });
WICK_OP_CASE(
    hinge_embedding_loss, .samples = {{uniform({31, 5}, -2, 2).avoiding({1}), mask({31, 5})}},
    .call = [](const Tensors& x) -> Tensors {
      return {hinge_embedding_loss(x[0], signs(x[1], x[0]))};
    },
    .reference = mean_of([](double x, double m) { return m == 1 ? x : max0(1 - x); }),
    .tolerance = Tolerance::reduction());
WICK_OP_CASE(
    soft_margin_loss, .samples = {{normal({31, 5}), mask({31, 5})}},
    .call = [](const Tensors& x) -> Tensors { return {soft_margin_loss(x[0], signs(x[1], x[0]))}; },
    .reference = mean_of([](double x, double m) { return std::log1p(std::exp(-(2 * m - 1) * x)); }),
    .tolerance = Tolerance::reduction(), .second_order = true);
WICK_OP_CASE(
    cosine_embedding_loss, .samples = {{normal({7, 9}), normal({7, 9}), mask({7})}},
    .call = [](const Tensors& x) -> Tensors {
      return {cosine_embedding_loss(x[0], x[1], signs(x[2], x[0]), -2, kNone)};
    },
    .reference = [](const Arrays& in) -> Arrays {
      HostArray y = filled({7});
      for (int64_t n = 0; n < 7; ++n) {
        double xy = 0, xx = 1e-12, yy = 1e-12;
        for (int64_t d = 0; d < 9; ++d) {
          const double a = at(in[0], {n, d}), b = at(in[1], {n, d});
          xy += a * b, xx += a * a, yy += b * b;
        }
        const double cosine = xy / std::sqrt(xx * yy);
        at(y, {n}) = at(in[2], {n}) == 1 ? 1 - cosine : max0(cosine + 2);
      }
      return {y};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);

double distance(const HostArray& a, const HostArray& b, int64_t n, double p) {
  double sum = 0;
  for (int64_t d = 0; d < a.shape[1]; ++d) {
    sum += std::pow(std::fabs(at(a, {n, d}) - at(b, {n, d}) + 1e-6), p);
  }
  return std::pow(sum, 1 / p);
}
const Samples kTriplets = {
    {uniform({7, 9}, 0, 1), uniform({7, 9}, 2, 3), uniform({7, 9}, -1.5, -0.5)}};
WICK_OP_CASE(
    triplet_margin_loss, .samples = kTriplets,
    .call = [](const Tensors& x) -> Tensors {
      return {triplet_margin_loss(x[0], x[1], x[2], 4, 3, 1e-6, false, kNone)};
    },
    .reference = [](const Arrays& in) -> Arrays {
      HostArray y = filled({7});
      for (int64_t n = 0; n < 7; ++n) {
        at(y, {n}) = max0(distance(in[0], in[1], n, 3) - distance(in[0], in[2], n, 3) + 4);
      }
      return {y};
    },
    .tolerance = Tolerance::reduction());
WICK_OP_CASE(
    triplet_margin_loss_swap,
    .samples = {{uniform({7, 9}, 0, 1), uniform({7, 9}, 2, 3), uniform({7, 9}, 2.5, 4.5)}},
    .call = [](const Tensors& x) -> Tensors {
      return {triplet_margin_loss(x[0], x[1], x[2], 9, 2, 1e-6, true)};
    },
    .reference = [](const Arrays& in) -> Arrays {
      double sum = 0;
      for (int64_t n = 0; n < 7; ++n) {
        const double far = std::min(distance(in[0], in[2], n, 2), distance(in[1], in[2], n, 2));
        sum += max0(distance(in[0], in[1], n, 2) - far + 9);
      }
      return {HostArray{{}, {sum / 7}}};
    },
    .tolerance = Tolerance::reduction());
WICK_OP_CASE(
    multilabel_soft_margin_loss,
    .samples = {{normal({7, 9}), mask({7, 9}), uniform({9}, 0.5, 2).constant()}},
    .call = [](const Tensors& x) -> Tensors {
      return {multilabel_soft_margin_loss(x[0], x[1].to(x[0].dtype()), x[2], kNone)};
    },
    .reference = [](const Arrays& in) -> Arrays {
      HostArray y = filled({7});
      for_each_coordinate(in[0].shape, [&](const Shape& c) {
        const double x = at(in[0], c), sign = 2 * at(in[1], c) - 1;
        at(y, {c[0]}) += at(in[2], {c[1]}) * std::log1p(std::exp(-sign * x)) / 9;
      });
      return {y};
    },
    .tolerance = Tolerance::reduction());

// The classes of the row above what is asked: by loops over pairs.
Arrays reference_multi_margin(const Arrays& in, int64_t p) {
  HostArray y = filled({in[0].shape[0]});
  for_each_coordinate(in[0].shape, [&](const Shape& c) {
    const auto target = static_cast<int64_t>(at(in[1], {c[0]}));
    if (c[1] == target) return;
    const double z = max0(3 - at(in[0], {c[0], target}) + at(in[0], c));
    at(y, {c[0]}) += at(in[2], {target}) * std::pow(z, static_cast<double>(p)) /
                     static_cast<double>(in[0].shape[1]);
  });
  return {y};
}
const Samples kClassTargets = {
    {uniform({7, 9}, -1, 1), index({7}, 0, 9), uniform({9}, 0.5, 2).constant()}};
WICK_OP_CASE(
    multi_margin_loss, .samples = kClassTargets,
    .call = [](const Tensors& x) -> Tensors {
      return {multi_margin_loss(x[0], x[1], 1, 3, x[2], kNone)};
    },
    .reference = [](const Arrays& in) { return reference_multi_margin(in, 1); },
    .tolerance = Tolerance::reduction());
WICK_OP_CASE(
    multi_margin_loss_squared, .samples = kClassTargets,
    .call = [](const Tensors& x) -> Tensors {
      return {multi_margin_loss(x[0], x[1], 2, 3, x[2], kNone)};
    },
    .reference = [](const Arrays& in) { return reference_multi_margin(in, 2); },
    .tolerance = Tolerance::reduction(), .second_order = true);

TEST(MultilabelMarginLoss, EndsTargetsAtTheFirstMinusOne) {
  const Tensor x = tensor({0.1, 0.2, 0.4, 0.8}, Shape{1, 4});
  const Tensor target = tensor<int64_t>({3, 0, -1, 1}, Shape{1, 4});
  // PyTorch's documentation has this example.
  EXPECT_NEAR(multilabel_margin_loss(x, target).item(), 0.85, 1e-12);
  EXPECT_NEAR(multilabel_margin_loss(x[0], target[0], kNone).item(), 0.85, 1e-12);
  EXPECT_EQ(multilabel_margin_loss(x, target, kNone).shape(), (Shape{1}));
  const Tensor none = tensor<int64_t>({-1, 0, 0, 0}, Shape{1, 4});
  EXPECT_EQ(multilabel_margin_loss(x, none).item(), 0);
  const Tensor leaf = x.clone().set_requires_grad();
  multilabel_margin_loss(leaf, target).backward();
  EXPECT_TRUE(allclose(leaf.grad(), tensor({-0.5, 0.5, 0.5, -0.5}, Shape{1, 4})));
}

TEST(MarginLosses, TakeBothPartsOfTargetsThatAreNoSign) {
  const Tensor x = tensor({0.25, -3.0, 5.0}), none = zeros({3}, kFloat64);
  EXPECT_EQ(hinge_embedding_loss(x, none, 1, kNone).to_vector<double>(),
            (std::vector<double>{1, 1, 5}));
}

TEST(MarginLosses, TakeSingleSamplesAndCheckShapes) {
  const Tensor x = tensor({0.1, 0.2, 0.7});
  EXPECT_EQ(multi_margin_loss(x, tensor<int64_t>({2})).rank(), 0);
  EXPECT_EQ(multi_margin_loss(x, scalar_tensor(2, kInt64), 1, 1, {}, kNone).rank(), 0);
  EXPECT_EQ(triplet_margin_loss(x, x, x).item(), 1);
  EXPECT_EQ(pairwise_distance(ones({2, 4}), zeros({2, 4}), 1, 0).to_vector<float>(),
            (std::vector<float>{4, 4}));
  EXPECT_EQ(error_of([&] { multi_margin_loss(x, tensor<int64_t>({2}), 3); }),
            "multi_margin_loss: p: got 3, expected 1 or 2");
  EXPECT_EQ(error_of([&] { triplet_margin_loss(x, x, x, 0); }),
            "triplet_margin_loss: margin: got 0, expected more than 0");
  EXPECT_EQ(error_of([&] { gaussian_nll_loss(x, x, -x); }),
            "gaussian_nll_loss: var: got a negative number, expected 0 or more");
  EXPECT_EQ(error_of([&] { soft_margin_loss(x, ones({2})); }),
            "soft_margin_loss: target has the wrong shape: got [2], expected [3]");
  EXPECT_THROW(cosine_embedding_loss(x, x, x), Error);
  const Tensor rows = ones({2, 3});
  EXPECT_EQ(error_of([&] { cosine_embedding_loss(rows, rows, x); }),
            "cosine_embedding_loss: shapes do not broadcast: got [2] and [3]");
  EXPECT_EQ(error_of([&] {
              cosine_embedding_loss(rows, ones({2, 4}), ones({2}));
            }),
            "cosine_embedding_loss: shapes do not broadcast: got [2, 3] and [2, 4]");
  EXPECT_THROW(multilabel_margin_loss(ones({2, 2, 2}), ones({2, 2, 2})), Error);
}

}  // namespace
}  // namespace wick::testing
