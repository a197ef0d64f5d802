#include "wick/core/ops/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "wick/core/ops/compare.h"
#include "wick/core/ops/random.h"
#include "wick/core/stream.h"
#include "wick/tests/harness/devices.h"
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

HostArray reshaped(HostArray x, const Shape& shape) {
  x.shape = shape;
  return x;
}

// What a GPU's library computes in 16 bits: also with the heads as a projection leaves them.
WICK_OP_CASE(
    scaled_dot_product_attention_of_heads, .covers = {"library_attention"},
    .samples = {{normal({2, 3, 5, 8}), normal({2, 3, 7, 8}), uniform({2, 3, 7, 16}, 0.5, 2)}},
    .call = [](const Tensors& x) -> Tensors {
      const auto split = [](const Tensor& t) {
        return t.transpose(1, 2).contiguous().transpose(1, 2);
      };
      return {scaled_dot_product_attention(x[0], x[1], x[2], {}, false, 0.5),
              scaled_dot_product_attention(split(x[0]), split(x[1]), split(x[2]), {}, false, 0.5)};
    },
    .reference = [](const Arrays& x) -> Arrays {
      const HostArray y =
          attention(reshaped(x[0], {6, 5, 8}), reshaped(x[1], {6, 7, 8}),
                    reshaped(x[2], {6, 7, 16}), 0.5, [](int64_t, int64_t) { return 0.0; });
      return {reshaped(y, {2, 3, 5, 16}), reshaped(y, {2, 3, 5, 16})};
    },
    .tolerance = {.factor = 64, .floor = 32, .roundings = 12}, .second_order = true,
    .same_for_any_threads = false);

TEST(Attention, IsTheLibrarysOnAGpuWhereThatHasIt) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  const auto uses_library = [](const Tensor& q, const Tensor& mask = {}, bool is_causal = false) {
    q.set_requires_grad();
    const auto ops = graph_ops({scaled_dot_product_attention(q, q, q, mask, is_causal)});
    return std::count(ops.begin(), ops.end(), "library_attention") > 0;
  };
  const auto heads = [](Dtype dtype) { return randn({2, 3, 5, 16}).to(dtype).to(kGpu); };
  EXPECT_TRUE(uses_library(heads(kBFloat16)));
  EXPECT_FALSE(uses_library(heads(kFloat32)));
  EXPECT_FALSE(uses_library(heads(kFloat16), {}, true));
  EXPECT_FALSE(uses_library(heads(kFloat16), zeros({5, 5}, kFloat16, kGpu)));
  set_library_attention(false);
  EXPECT_FALSE(uses_library(heads(kBFloat16)));
  set_library_attention(true);
}

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
