// Functions for layers that are made of other ops.
#include <gtest/gtest.h>

#include <cmath>

#include "wick/core/ops/einsum.h"
#include "wick/core/ops/norm.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/op_case.h"

namespace wick::testing {
namespace {

HostArray normed_by_neighbours(const HostArray& x, int64_t size, double alpha, double beta,
                               double k) {
  HostArray y = x;
  const int64_t channels = x.shape[1], inner = x.shape.numel() / (x.shape[0] * channels);
  for (int64_t i = 0; i < x.shape.numel(); ++i) {
    const int64_t c = i / inner % channels;
    double sum = 0;
    for (int64_t from = c - size / 2; from < c - size / 2 + size; ++from) {
      if (from < 0 || from >= channels) continue;
      const double value = x.values[static_cast<size_t>(i + (from - c) * inner)];
      sum += value * value;
    }
    y.values[static_cast<size_t>(i)] /= std::pow(k + alpha * sum / static_cast<double>(size), beta);
  }
  return y;
}

WICK_OP_CASE(
    local_response_norm, .samples = {{normal({2, 5, 3})}, {normal({1, 7, 2, 3, 2})}},
    .call = [](const Tensors& x) -> Tensors {
      return {local_response_norm(x[0], 4, 0.5, 0.75, 2), local_response_norm(x[0], 3, 0.5, 1)};
    },
    .reference = [](const Arrays& x) -> Arrays {
      return {normed_by_neighbours(x[0], 4, 0.5, 0.75, 2),
              normed_by_neighbours(x[0], 3, 0.5, 1, 1)};
    },
    .tolerance = Tolerance::matmul(), .second_order = true);

WICK_OP_CASE(
    bilinear,
    .samples = {{normal({2, 3, 4}), normal({2, 3, 5}), normal({6, 4, 5}), normal({6})},
                {normal({1}), normal({2}), normal({3, 1, 2}), normal({3})}},
    .call = [](const Tensors& x) -> Tensors { return {bilinear(x[0], x[1], x[2], x[3])}; },
    .reference = [](const Arrays& in) -> Arrays {
      const int64_t o = in[2].shape[0], a = in[2].shape[1], b = in[2].shape[2];
      HostArray y{in[0].shape, {}};
      y.shape[y.shape.rank() - 1] = o;
      for (int64_t i = 0; i < y.shape.numel(); ++i) {
        double sum = in[3].values[static_cast<size_t>(i % o)];
        for (int64_t j = 0; j < a * b; ++j) {
          sum += in[0].values[static_cast<size_t>(i / o * a + j / b)] *
                 in[1].values[static_cast<size_t>(i / o * b + j % b)] *
                 in[2].values[static_cast<size_t>(i % o * a * b + j)];
        }
        y.values.push_back(sum);
      }
      return {y};
    },
    .tolerance = Tolerance::matmul(), .second_order = true);

TEST(LocalResponseNorm, RejectsWhatDoesNotFit) {
  EXPECT_EQ(error_of([] {
              local_response_norm(ones({2, 3}), 2);
            }),
            "local_response_norm: needs [N, C, ...], floating: got float32 of shape [2, 3]");
  EXPECT_EQ(error_of([] {
              local_response_norm(ones({2, 3, 4}), 0);
            }),
            "local_response_norm: size: got 0, expected 1 or more");
}

}  // namespace
}  // namespace wick::testing
