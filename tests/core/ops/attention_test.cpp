#include "wick/core/ops/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "wick/core/amp.h"
#include "wick/core/base/detail/dynamic_library.h"
#include "wick/core/base/threads.h"
#include "wick/core/memory/stats.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/divide.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/stream.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/graph_ops.h"
#include "wick/tests/harness/host_array.h"
#include "wick/tests/harness/op_case.h"

namespace wick::testing {
namespace {

// Attention of [B, L, E], [B, S, E], [B, S, F] by plain loops; `bias(i, j)` is added to the scores.
// `factors`, [B, L, S] or empty: what dropout multiplies the weights by.
template <class Bias>
HostArray attention(const HostArray& q, const HostArray& k, const HostArray& v, double scale,
                    const Bias& bias, const std::vector<double>& factors = {}) {
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
        if (!factors.empty()) {
          weights[static_cast<size_t>(j)] *= factors[static_cast<size_t>((b * l + i) * s + j)];
        }
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
              scaled_dot_product_attention(x[0], x[1], x[2], {}, 0, true),
              scaled_dot_product_attention(x[0], x[1], x[2], x[3]),
              scaled_dot_product_attention(x[0], x[1], x[2], {}, 0, false, 0.25)};
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
HostArray attention_of_heads(const Arrays& x, const Bias& bias,
                             const std::vector<double>& factors = {}) {
  const auto joined = [](const HostArray& heads) {
    const Shape& s = heads.shape;
    return reshaped(heads, {s[0] * s[1], s[2], s[3]});
  };
  const HostArray y = attention(joined(x[0]), joined(x[1]), joined(x[2]), 0.5, bias, factors);
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
        return scaled_dot_product_attention(x[0], x[1], x[2], mask, 0, is_causal, 0.5);
      };
      return {
          attend({}),
          attend({}, true),
          attend(x[3]),
          attend(lt(arange(0, 7, 1, kInt64, x[0].device()), 4)),
          scaled_dot_product_attention(split(x[0]), split(x[1]), split(x[2]), {}, 0, false, 0.5),
          scaled_dot_product_attention(widened(x[0]), widened(x[1]), widened(x[2]), {}, 0, false,
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

// What the kernel of the CPU computes: queries and keys enough for it, and more axes or fewer.
WICK_OP_CASE(
    fused_attention,
    .samples = {{normal({2, 2, 9, 4}), normal({2, 2, 11, 4}), normal({2, 2, 11, 3}),
                 normal({9, 11}).constant()}},
    .call = [](const Tensors& x) -> Tensors {
      const auto attend = [&](const Tensor& mask, bool is_causal = false) {
        return scaled_dot_product_attention(x[0], x[1], x[2], mask, 0, is_causal, 0.5);
      };
      const auto split = [](const Tensor& t) {
        return t.transpose(1, 2).contiguous().transpose(1, 2);
      };
      const Tensor joined = scaled_dot_product_attention(x[0].flatten(0, 1), x[1].flatten(0, 1),
                                                         x[2].flatten(0, 1), {}, 0, false, 0.5);
      return {
          attend({}),
          attend({}, true),
          attend(x[3]),
          attend(lt(arange(0, 11, 1, kInt64, x[0].device()), 4)),
          scaled_dot_product_attention(split(x[0]), split(x[1]), split(x[2]), {}, 0, false, 0.5),
          joined.reshape({2, 2, 9, 3}),
          scaled_dot_product_attention(x[0].unsqueeze(0), x[1].unsqueeze(0), x[2], {}, 0, false,
                                       0.5)
              .squeeze(0)};
    },
    .reference = [](const Arrays& x) -> Arrays {
      const HostArray y = attention_of_heads(x, [](int64_t, int64_t) { return 0.0; });
      return {y,
              attention_of_heads(x, [](int64_t i, int64_t j) { return j > i ? kExcluded : 0; }),
              attention_of_heads(x,
                                 [&](int64_t i, int64_t j) {
                                   return x[3].values[static_cast<size_t>(i * 11 + j)];
                                 }),
              attention_of_heads(x, [](int64_t, int64_t j) { return j > 3 ? kExcluded : 0; }),
              y,
              y,
              y};
    },
    .tolerance = Tolerance::matmul(), .second_order = true);

WICK_OP_CASE(
    fused_attention_dropout,
    .samples = {{normal({1, 2, 9, 4}), normal({1, 2, 11, 4}), normal({1, 2, 11, 3})}},
    .call = [](const Tensors& x) -> Tensors {
      Generator generator(7);
      return {
          scaled_dot_product_attention(x[0], x[1], x[2], {}, 0.4, false, 0.5, false, &generator)};
    },
    .reference = [](const Arrays& x) -> Arrays {
      Generator generator(7);
      const Tensor factors = dropout(ones({2, 9, 11}, kFloat64), 0.4, true, &generator);
      return {attention_of_heads(
          x, [](int64_t, int64_t) { return 0.0; }, factors.to_vector<double>())};
    },
    .tolerance = Tolerance::matmul(), .second_order = true, .traceable = false);

// With and without the kernel: results and gradients.
Tensors attended(bool fused, const Tensors& inputs, const Tensor& mask, bool is_causal,
                 double dropout_p) {
  set_fused_attention(fused);
  Tensors leaves;
  for (const Tensor& x : inputs) {
    // As a projection that was split into heads has them.
    leaves.push_back(x.transpose(1, 2).contiguous().transpose(1, 2).set_requires_grad());
  }
  Generator generator(5);
  const bool is_grouped = inputs[0].size(1) != inputs[1].size(1);
  const Tensor y = scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], mask, dropout_p,
                                                is_causal, {}, is_grouped, &generator);
  const auto ops = graph_ops({y});
  const auto is_kernel = [](const std::string& op) { return op.starts_with("fused_attention"); };
  EXPECT_EQ(std::count_if(ops.begin(), ops.end(), is_kernel), fused ? 1 : 0);
  // Numbers that every dtype has.
  const Tensor numbers = arange(0, static_cast<double>(y.numel()), 1, kFloat64);
  const Tensor weights = (remainder(numbers * 7, 13) - 6) / 8;
  sum(y * weights.to(y.dtype()).reshape(y.shape())).backward();
  {
    const NoGrad no_grad;  // bfloat16 by another form of the kernel
    Generator again(5);
    const Tensor same = scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], mask,
                                                     dropout_p, is_causal, {}, is_grouped, &again);
    EXPECT_TRUE(bit_equal(same, y.detach())) << to_string(y.dtype()) << y.shape();
  }
  set_fused_attention(true);
  return {y.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
}

double largest_difference(const Tensor& a, const Tensor& b) {
  return max(abs(a.to(kFloat64) - b.to(kFloat64))).item<double>();
}

// Tiles that are whole and cut, in every combination with what excludes and drops.
TEST(FusedAttention, EqualsItsOpsForManySizes) {
  std::mt19937_64 random(3);
  const auto one_of = [&](std::initializer_list<int64_t> of) {
    return of.begin()[random() % of.size()];
  };
  for (int i = 0; i < 80; ++i) {
    const int64_t batch = one_of({1, 2}), shared = one_of({1, 2, 3});
    const int64_t heads = shared * one_of({1, 1, 2});
    const int64_t queries = one_of({8, 13, 96, 97, 200, 300, 530});
    const int64_t keys = one_of({1, 7, 16, 127, 128, 129, 260, 513, 1040});
    const int64_t features = one_of({1, 3, 8, 16, 33, 64}), values = one_of({1, 5, 16, 40, 64});
    const int kind = static_cast<int>(random() % 5);
    const Dtype dtype = std::array{kFloat64, kFloat32, kBFloat16}[random() % 3];
    // The ops compute in float32 what the kernel computes of bfloat16, in matrix units or not.
    const Dtype wide = dtype == kFloat64 ? kFloat64 : kFloat32;
    const Tensors inputs{randn({batch, heads, queries, features}, wide).to(dtype),
                         randn({batch, shared, keys, features}, wide).to(dtype),
                         randn({batch, shared, keys, values}, wide).to(dtype)};
    const Shape shape{one_of({1, batch}), one_of({1, heads}), one_of({1, queries}),
                      one_of({1, keys})};
    Tensor mask;
    if (kind == 1) mask = randn(shape, wide);
    if (kind == 2) mask = gt(randn(shape), -0.3);
    if (kind == 3) mask = masked_fill(zeros(shape, wide), gt(randn(shape), 0.3), kExcluded);
    const double dropout_p = random() % 3 == 0 ? 0.3 : 0;
    const Tensors got = attended(true, inputs, mask, kind == 4, dropout_p);
    Tensors as_wide;
    for (const Tensor& x : inputs) as_wide.push_back(x.to(wide));
    const Tensors want = attended(false, as_wide, mask, kind == 4, dropout_p);
    for (size_t j = 0; j < got.size(); ++j) {
      const double scale = 1 + max(abs(want[j].to(kFloat64))).item<double>();
      const double rounding = dtype == kBFloat16 ? 0x1p-8 : 0;
      // Results that were rounded more than once would often be others.
      if (dtype == kBFloat16 && j == 0) {
        const Tensor others = ne(got[j], want[j].to(kBFloat16)).to(kFloat64);
        EXPECT_LT(mean(others).item<double>(), 0.05) << inputs[0].shape() << inputs[1].shape();
      }
      EXPECT_LE(largest_difference(got[j], want[j]) / scale,
                (dtype == kFloat64 ? 1e-13 : 2e-5) + rounding)
          << j << " of " << to_string(dtype) << " " << inputs[0].shape() << inputs[1].shape()
          << inputs[2].shape() << " kind " << kind << " mask " << shape << " p " << dropout_p;
    }
  }
}

TEST(FusedAttention, HasTheSameBitsForAnyNumberOfThreads) {
  const int before = num_threads();
  for (const Dtype dtype : {kFloat32, kBFloat16}) {
    const Tensors inputs{randn({2, 3, 200, 24}).to(dtype), randn({2, 3, 150, 24}).to(dtype),
                         randn({2, 3, 150, 40}).to(dtype)};
    Tensors first;
    for (const int threads : {1, 2, 3, 7}) {
      set_num_threads(threads);
      const Tensors got = attended(true, inputs, {}, true, 0.2);
      if (first.empty()) first = got;
      for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(equal(got[i], first[i])) << threads;
    }
  }
  set_num_threads(before);
}

TEST(FusedAttention, KeepsNoScores) {
  const int64_t length = 1024;
  const Tensor x = randn({1, 2, length, 8}).set_requires_grad();
  const auto peak_of = [&](bool fused) {
    set_fused_attention(fused);
    reset_peak_memory_stats(kCpu);
    const size_t before = memory_allocated(kCpu);
    sum(scaled_dot_product_attention(x, x, x)).backward();
    set_fused_attention(true);
    return max_memory_allocated(kCpu) - before;
  };
  const size_t scores = 2 * length * length * sizeof(float);
  EXPECT_GT(peak_of(false), scores);
  EXPECT_LT(peak_of(true), scores / 4);
}

TEST(FusedAttention, IsNanWhereAnOperandIs) {
  for (int i = 0; i < 6; ++i) {
    const int which = i % 3;
    const auto operand = [&] { return randn({1, 1, 9, 4}).to(i < 3 ? kFloat32 : kBFloat16); };
    const Tensors inputs{operand(), operand(), operand()};
    inputs[static_cast<size_t>(which)].select(2, 3).fill_(std::nan(""));
    const Tensor y = scaled_dot_product_attention(inputs[0], inputs[1], inputs[2]);
    const Tensor rows = any(isnan(y.select(0, 0).select(0, 0)), {1});
    EXPECT_TRUE(rows.select(0, 3).item<bool>()) << which;
    EXPECT_EQ(rows.select(0, 4).item<bool>(), which > 0) << which;
  }
}

TEST(FusedAttention, KeepsInfiniteValues) {
  const Tensor none = zeros({1, 1, 9, 1}, kBFloat16);
  for (const int64_t keys : {1, 3}) {
    const Tensor value = full({1, 1, keys, 1}, INFINITY, kBFloat16);
    const Tensor y = scaled_dot_product_attention(none, zeros({1, 1, keys, 1}, kBFloat16), value);
    EXPECT_TRUE(all(eq(y, INFINITY)).item<bool>()) << keys;
  }
}

TEST(Attention, IsTheLibrarysOnAGpuWhereThatHasIt) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  if (!device_properties(kGpu).simulated) {
    size_t (*version)() = nullptr;
    DynamicLibrary("cuDNN", "libcudnn.so.9").find(version, "cudnnGetVersion");
    if (version() < 91600) GTEST_SKIP() << "cuDNN is older than 9.16: " << version();
  }
  const auto uses_library = [](const Tensor& q, const Tensor& mask = {}, bool is_causal = false,
                               double dropout_p = 0) {
    q.set_requires_grad();
    const Tensor y = scaled_dot_product_attention(q, q, q, mask, dropout_p, is_causal, {});
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
  EXPECT_FALSE(uses_library(heads(kFloat16), mask({5, 5}).set_requires_grad()));
  {
    const amp::Autocast autocast(kGpu, kBFloat16);
    EXPECT_TRUE(uses_library(heads(kFloat32)));
    EXPECT_TRUE(uses_library(heads(kFloat16), mask({5, 5})));
    const Tensor q = heads(kFloat16), v = heads(kFloat32);
    EXPECT_EQ(scaled_dot_product_attention(q, v, v).dtype(), kBFloat16);
  }
  set_fused_attention(false);
  EXPECT_FALSE(uses_library(heads(kBFloat16)));
  set_fused_attention(true);
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
  EXPECT_THROW(scaled_dot_product_attention(q, k, v, ones({3, 5}), 0, true), Error);
}

template <class... Arguments>
concept Attends = requires(Arguments... arguments) {
  scaled_dot_product_attention(arguments...);
};

// is_causal in the place of dropout_p would drop all weights.
static_assert(Attends<Tensor, Tensor, Tensor, Tensor, double, bool>);
static_assert(!Attends<Tensor, Tensor, Tensor, Tensor, bool>);

}  // namespace
}  // namespace wick::testing
