#include "wick/core/ops/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "wick/core/ops/compare.h"
#include "wick/tests/harness/op_case.h"

namespace wick::testing {
namespace {

// Attention of [B, L, E], [B, S, E], [B, S, F] by plain loops; `bias(i, j)` is added to the scores.
template <class Bias>
HostArray attention(const HostArray& q, const HostArray& k, const HostArray& v, double scale,
                    const Bias& bias) {
  const int64_t batch = q.shape[0], l = q.shape[1], e = q.shape[2], s = k.shape[1], f = v.shape[2];
  HostArray y{{batch, l, f}, std::vector<double>(static_cast<size_t>(batch * l * f))};
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < l; ++i) {
      std::vector<double> weights;
      double total = 0;
      for (int64_t j = 0; j < s; ++j) {
        double score = 0;
        for (int64_t c = 0; c < e; ++c) {
          score += q.values[static_cast<size_t>((b * l + i) * e + c)] *
                   k.values[static_cast<size_t>((b * s + j) * e + c)];
        }
        weights.push_back(std::exp(score * scale + bias(i, j)));
        total += weights.back();
      }
      for (int64_t j = 0; j < s; ++j) {
        for (int64_t c = 0; c < f; ++c) {
          y.values[static_cast<size_t>((b * l + i) * f + c)] +=
              weights[static_cast<size_t>(j)] / total *
              v.values[static_cast<size_t>((b * s + j) * f + c)];
        }
      }
    }
  }
  return y;
}

constexpr double kExcluded = -HUGE_VAL;

WICK_OP_CASE(
    scaled_dot_product_attention,
    .samples = {{normal({2, 3, 4}), normal({2, 5, 4}), normal({2, 5, 6}), normal({3, 5})}},
    .call = [](const Tensors& x) -> Tensors {
      return {scaled_dot_product_attention(x[0], x[1], x[2]),
              scaled_dot_product_attention(x[0], x[1], x[2], {}, true),
              scaled_dot_product_attention(x[0], x[1], x[2], x[3]),
              scaled_dot_product_attention(x[0], x[1], x[2], {}, false, 0.25)};
    },
    .reference = [](const Arrays& x) -> Arrays {
      const auto none = [](int64_t, int64_t) { return 0.0; };
      return {attention(x[0], x[1], x[2], 0.5, none),
              attention(x[0], x[1], x[2], 0.5,
                        [](int64_t i, int64_t j) { return j > i ? kExcluded : 0; }),
              attention(x[0], x[1], x[2], 0.5,
                        [&](int64_t i, int64_t j) {
                          return x[3].values[static_cast<size_t>(i * 5 + j)];
                        }),
              attention(x[0], x[1], x[2], 0.25, none)};
    },
    // Scores, weights and their sum are rounded to the dtype one after the other.
    .tolerance = {.factor = 64, .floor = 32, .roundings = 12}, .second_order = true,
    .same_for_any_threads = false);

TEST(Attention, LeavesOutWhatABoolMaskExcludes) {
  const Tensor q = ones({1, 2, 4}), k = ones({1, 3, 4});
  const Tensor v = tensor<float>({1, 2, 4}, Shape{1, 3, 1});
  const Tensor mask = gt(tensor<int64_t>({1, 1, 0, 0, 0, 1}, Shape{2, 3}), 0);
  const Tensor y = scaled_dot_product_attention(q, k, v, mask);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1.5, 4}));
}

TEST(Attention, RejectsWhatDoesNotFit) {
  const Tensor q = ones({2, 3, 4}), k = ones({2, 5, 4}), v = ones({2, 5, 6});
  EXPECT_THROW(scaled_dot_product_attention(q, v, v), Error);
  EXPECT_THROW(scaled_dot_product_attention(q, k, q), Error);
  EXPECT_THROW(scaled_dot_product_attention(ones({4}), k, v), Error);
  EXPECT_THROW(scaled_dot_product_attention(q, k, v, ones({3, 5}), true), Error);
}

}  // namespace
}  // namespace wick::testing
