#include "wick/core/ops/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "wick/core/amp.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/stream.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/graph_ops.h"
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
    .samples = {{normal({2, 3, 4}), normal({2, 5, 4}), normal({2, 5, 6}), normal({3, 5})},
                // Scores whose last place is many times that of the weights.
                {uniform({2, 3, 4}, -4, 4), uniform({2, 5, 4}, -4, 4), normal({2, 5, 6}),
                 uniform({3, 5}, -9, 9)}},
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
    .tolerance = Tolerance::matmul(), .second_order = true);

HostArray reshaped(HostArray x, const Shape& shape) {
  x.shape = shape;
  return x;
}

// Of each head.
template <class Bias>
HostArray attention_of_heads(const Arrays& x, const Bias& bias) {
  const auto joined = [](const HostArray& heads) {
    const Shape& s = heads.shape;
    return reshaped(heads, {s[0] * s[1], s[2], s[3]});
  };
  const HostArray y = attention(joined(x[0]), joined(x[1]), joined(x[2]), 0.5, bias);
  return reshaped(y, {x[0].shape[0], x[0].shape[1], x[0].shape[2], x[2].shape[3]});
}

// What a GPU's library computes in 16 bits: also with the heads as a projection leaves them, of
// rows that it cannot take where they are, and with masks.
WICK_OP_CASE(
    scaled_dot_product_attention_of_heads, .covers = {"library_attention"},
    .samples = {{normal({2, 3, 5, 8}), normal({2, 3, 7, 8}), uniform({2, 3, 7, 16}, 0.5, 2),
                 normal({5, 7}).constant()}},
    .call = [](const Tensors& x) -> Tensors {
      const auto split = [](const Tensor& t) {
        return t.transpose(1, 2).contiguous().transpose(1, 2);
      };
      const auto widened = [](const Tensor& t) {
        return cat({t, t.narrow(-1, 0, 3)}, -1).narrow(-1, 0, t.size(-1));
      };
      const auto attend = [&](const Tensor& mask, bool is_causal = false) {
        return scaled_dot_product_attention(x[0], x[1], x[2], mask, is_causal, 0.5);
      };
      return {attend({}),
              attend({}, true),
              attend(x[3]),
              attend(lt(arange(0, 7, 1, kInt64, x[0].device()), 4)),
              scaled_dot_product_attention(split(x[0]), split(x[1]), split(x[2]), {}, false, 0.5),
              scaled_dot_product_attention(widened(x[0]), widened(x[1]), widened(x[2]), {}, false,
                                           0.5)};
    },
    .reference = [](const Arrays& x) -> Arrays {
      const HostArray y = attention_of_heads(x, [](int64_t, int64_t) { return 0.0; });
      return {
          y,
          attention_of_heads(x, [](int64_t i, int64_t j) { return j > i ? kExcluded : 0; }),
          attention_of_heads(
              x, [&](int64_t i, int64_t j) { return x[3].values[static_cast<size_t>(i * 7 + j)]; }),
          attention_of_heads(x, [](int64_t, int64_t j) { return j > 3 ? kExcluded : 0; }),
          y,
          y};
    },
    .tolerance = Tolerance::matmul(), .second_order = true);

TEST(Attention, IsTheLibrarysOnAGpuWhereThatHasIt) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  const auto uses_library = [](const Tensor& q, const Tensor& mask = {}, bool is_causal = false,
                               double dropout_p = 0) {
    q.set_requires_grad();
    const Tensor y = scaled_dot_product_attention(q, q, q, mask, is_causal, {}, dropout_p);
    const auto ops = graph_ops({y});
    return std::count(ops.begin(), ops.end(), "library_attention") > 0;
  };
  const auto heads = [](Dtype dtype) { return randn({2, 3, 5, 16}).to(dtype).to(kGpu); };
  const auto mask = [](const Shape& shape) { return zeros(shape, kFloat32, kGpu); };
  EXPECT_TRUE(uses_library(heads(kBFloat16)));
  EXPECT_FALSE(uses_library(heads(kFloat32)));
  EXPECT_TRUE(uses_library(heads(kFloat16), {}, true));
  EXPECT_FALSE(uses_library(heads(kFloat16), {}, true, 0.5));
  for (const Shape& shape : {Shape{5, 5}, Shape{5}, Shape{2, 1, 1, 5}, Shape{1, 3, 5, 5},
                             Shape{5, 1}, Shape{2, 1, 1, 1}, Shape{}}) {
    EXPECT_TRUE(uses_library(heads(kFloat16), mask(shape))) << shape;
    EXPECT_TRUE(uses_library(heads(kFloat16), eq(mask(shape), 0))) << shape;
  }
  EXPECT_FALSE(uses_library(heads(kFloat16), mask({1, 2, 3, 5, 5})));
  EXPECT_FALSE(uses_library(heads(kFloat16), mask({5, 5}).set_requires_grad()));
  {
    const amp::Autocast autocast(kGpu, kBFloat16);
    EXPECT_TRUE(uses_library(heads(kFloat32)));
    EXPECT_TRUE(uses_library(heads(kFloat16), mask({5, 5})));
    const Tensor q = heads(kFloat16), v = heads(kFloat32);
    EXPECT_EQ(scaled_dot_product_attention(q, v, v).dtype(), kBFloat16);
  }
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

void expect_excluded_rows_zero(Device device, Dtype dtype) {
  const auto copies = [&](const Tensor& x) {  // of a column, one head
    return x.view({1, 1, -1, 1}).expand({1, 1, x.size(0), 8}).to(dtype).to(device).detach();
  };
  const Tensor allowed = gt(tensor<int64_t>({1, 1, 0, 0, 0, 0}, Shape{2, 3}), 0).to(device);
  const Tensor bias = masked_fill(zeros({2, 3}, dtype, device), logical_not(allowed), kExcluded);
  for (const Tensor& mask : {allowed, bias}) {
    const Tensor q = copies(ones({2})).set_requires_grad();
    const Tensor k = copies(ones({3})).set_requires_grad();
    const Tensor v = copies(tensor<float>({1, 2, 4})).set_requires_grad();
    const Tensor y = scaled_dot_product_attention(q, k, v, mask);
    EXPECT_TRUE(
        equal(y.detach().to(kFloat32).cpu(), copies(tensor<float>({1.5, 0})).to(kFloat32).cpu()));
    sum(y).backward();
    for (const Tensor& x : {q, k, v}) EXPECT_TRUE(all(isfinite(x.grad())).item<bool>());
    EXPECT_TRUE(equal(v.grad().to(kFloat32).cpu(),
                      copies(tensor<float>({0.5, 0.5, 0})).to(kFloat32).cpu()));
  }
}

TEST(Attention, RowsWhoseKeysAreAllExcludedAreZero) {
  expect_excluded_rows_zero(kCpu, kFloat32);
  if (!cuda_is_available()) return;
  expect_excluded_rows_zero(kGpu, kFloat32);
  expect_excluded_rows_zero(kGpu, kBFloat16);  // the library's
}

TEST(Attention, AMaskIsAsGoodAsItsExpansion) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  const Shape scores = {2, 3, 5, 7};
  const auto heads = [](int64_t length) { return randn({2, 3, length, 8}).to(kBFloat16).to(kGpu); };
  const Tensor q = heads(5), k = heads(7), v = heads(7);
  for (const Shape& shape :
       {Shape{}, Shape{1}, Shape{7}, Shape{5, 1}, Shape{5, 7}, Shape{2, 1, 1, 7}, Shape{2, 1, 5, 1},
        Shape{1, 3, 1, 1}, Shape{1, 3, 5, 7}}) {
    for (const double least : {-1e9, 0.0, 1e9}) {  // of which none, some and all are excluded
      const Tensor mask = gt(randn(shape), least).to(kGpu);
      for (const Tensor& given :
           {mask, masked_fill(zeros(shape, kFloat32, kGpu), logical_not(mask), kExcluded)}) {
        const Tensor y = scaled_dot_product_attention(q, k, v, given);
        const Tensor want =
            scaled_dot_product_attention(q, k, v, given.expand(scores).contiguous());
        EXPECT_TRUE(equal(y.to(kFloat32).cpu(), want.to(kFloat32).cpu())) << shape << " " << least;
      }
    }
  }
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
