#include "wick/nn/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "wick/core/core.h"
#include "wick/nn/transformer.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/host_array.h"

// Attention and the encoder layer against plain loops in double.

namespace wick::testing {
namespace {

using nn::MultiheadAttention;
using nn::TransformerEncoderLayer;
using Matrix = std::vector<std::vector<double>>;  // [rows][columns]

Matrix rows(const HostArray& a, size_t first, size_t count, size_t width) {
  Matrix m;
  for (size_t i = 0; i < count; ++i) {
    const auto begin = a.values.begin() + static_cast<int64_t>((first + i) * width);
    m.emplace_back(begin, begin + static_cast<int64_t>(width));
  }
  return m;
}

// x W^T + b
Matrix affine(const Matrix& x, const Matrix& w, const std::vector<double>& b) {
  Matrix y(x.size(), std::vector<double>(w.size()));
  for (size_t i = 0; i < x.size(); ++i) {
    for (size_t j = 0; j < w.size(); ++j) {
      y[i][j] = b[j];
      for (size_t k = 0; k < w[j].size(); ++k) y[i][j] += x[i][k] * w[j][k];
    }
  }
  return y;
}

// One sequence: softmax(q k^T / sqrt(d) + mask) v in each head, mask [L][S].
Matrix attend(const Matrix& q, const Matrix& k, const Matrix& v, size_t heads, const Matrix& mask) {
  const size_t width = q[0].size(), d = width / heads;
  Matrix y(q.size(), std::vector<double>(width, 0));
  for (size_t h = 0; h < heads; ++h) {
    for (size_t i = 0; i < q.size(); ++i) {
      std::vector<double> weight(k.size());
      double total = 0;
      for (size_t j = 0; j < k.size(); ++j) {
        double score = 0;
        for (size_t c = h * d; c < (h + 1) * d; ++c) score += q[i][c] * k[j][c];
        weight[j] = std::exp(score / std::sqrt(static_cast<double>(d)) + mask[i][j]);
        total += weight[j];
      }
      for (size_t j = 0; j < k.size(); ++j) {
        for (size_t c = h * d; c < (h + 1) * d; ++c) y[i][c] += weight[j] / total * v[j][c];
      }
    }
  }
  return y;
}

Matrix no_mask(size_t l, size_t s) { return Matrix(l, std::vector<double>(s, 0)); }
Matrix causal_mask(size_t l) {
  Matrix mask = no_mask(l, l);
  for (size_t i = 0; i < l; ++i) {
    for (size_t j = i + 1; j < l; ++j) mask[i][j] = -HUGE_VAL;
  }
  return mask;
}

// What the layer should make of sequence n.
Matrix reference(const MultiheadAttention& layer, size_t heads, const Tensor& query,
                 const Tensor& key, const Tensor& value, size_t n, const Matrix& mask) {
  const auto width = static_cast<size_t>(query.size(2));
  const HostArray w = read(layer.in_proj_weight.detach());
  const std::vector<double> b = read(layer.in_proj_bias.detach()).values;
  const Tensor inputs[] = {query, key, value};
  Matrix projected[3];
  for (size_t i = 0; i < 3; ++i) {
    const auto length = static_cast<size_t>(inputs[i].size(1));
    const auto bias = b.begin() + static_cast<int64_t>(i * width);
    projected[i] =
        affine(rows(read(inputs[i]), n * length, length, width), rows(w, i * width, width, width),
               std::vector<double>(bias, bias + static_cast<int64_t>(width)));
  }
  return affine(attend(projected[0], projected[1], projected[2], heads, mask),
                rows(read(layer.out_proj->weight.detach()), 0, width, width),
                read(layer.out_proj->bias.detach()).values);
}

void expect_near(const Tensor& got, const std::vector<Matrix>& want) {
  HostArray expected{got.shape(), {}};
  for (const Matrix& sequence : want) {
    for (const auto& row : sequence) {
      expected.values.insert(expected.values.end(), row.begin(), row.end());
    }
  }
  EXPECT_EQ(difference(read(got.detach()), expected, 1e-10, 1e-10), "");
}

void randomize(nn::Module& module) {
  module.to(kFloat64);
  for (const Tensor& parameter : module.parameters()) parameter.detach().uniform_(-0.5, 0.5);
}

TEST(MultiheadAttention, AttendsToItself) {
  MultiheadAttention layer(12, 3, {.batch_first = true});
  randomize(layer);
  const Tensor x = randn({2, 5, 12}, kFloat64);
  std::vector<Matrix> plain, causal;
  for (const size_t n : {0u, 1u}) {
    plain.push_back(reference(layer, 3, x, x, x, n, no_mask(5, 5)));
    causal.push_back(reference(layer, 3, x, x, x, n, causal_mask(5)));
  }
  expect_near(layer(x), plain);
  expect_near(layer.forward(x, x, x, {}, {}, true), causal);
}

TEST(MultiheadAttention, AttendsToOtherSequencesUnderAMask) {
  MultiheadAttention layer(8, 2, {.batch_first = true});
  randomize(layer);
  const Tensor query = randn({2, 3, 8}, kFloat64), key = randn({2, 4, 8}, kFloat64);
  const Tensor value = randn({2, 4, 8}, kFloat64), mask = randn({3, 4}, kFloat64);
  const Matrix added = rows(read(mask), 0, 3, 4);
  expect_near(layer.forward(query, key, value, {}, mask),
              {reference(layer, 2, query, key, value, 0, added),
               reference(layer, 2, query, key, value, 1, added)});
}

TEST(MultiheadAttention, DropsWeightsInTrainingOnly) {
  MultiheadAttention layer(8, 2, {.dropout = 0.5});
  const Tensor x = randn({1, 6, 8});
  EXPECT_FALSE(bit_equal(layer(x).detach(), layer(x).detach()));
  layer.eval();
  EXPECT_TRUE(bit_equal(layer(x).detach(), layer(x).detach()));
}

TEST(MultiheadAttention, RefusesWrongShapes) {
  EXPECT_EQ(error_of([] { MultiheadAttention(10, 3); }),
            "MultiheadAttention: heads must divide the width: got 3 for 10");
  MultiheadAttention layer(8, 2);
  EXPECT_EQ(error_of([&] {
              layer(randn({2, 3, 6}));
            }),
            "MultiheadAttention: wrong shape: got [2, 3, 6], expected [L, N, 8], or without N");
  const Tensor x = randn({3, 2, 8});
  EXPECT_EQ(error_of([&] {
              layer.forward(x, x, x, zeros({3, 2}, kBool));
            }),
            "MultiheadAttention: key_padding_mask: wrong shape: got [3, 2], expected [2, 3]");
  EXPECT_EQ(error_of([&] {
              layer.forward(x, x, x, {}, zeros({2, 3, 3}, kBool));
            }),
            "MultiheadAttention: attn_mask: wrong shape: got [2, 3, 3], expected [3, 3] or [4, 3, "
            "3]");
  EXPECT_EQ(error_of([&] {
              layer.forward(x, x, x, {}, zeros({3, 3}, kInt64));
            }),
            "MultiheadAttention: attn_mask: got int64, expected bool or a floating dtype");
  EXPECT_NE(error_of([&] {
              layer.forward(randn({2, 3, 8}), randn({2, 4, 8}), randn({2, 5, 8}));
            }),
            "no error");
}

// Where bool masks are true, no attention goes: as in PyTorch's class, not as in
// scaled_dot_product_attention.
TEST(MultiheadAttention, TrueExcludes) {
  MultiheadAttention layer(8, 2, {.batch_first = true});
  randomize(layer);
  const Tensor query = randn({2, 3, 8}, kFloat64), key = randn({2, 4, 8}, kFloat64);
  const Tensor attn = tensor<int64_t>({0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}, Shape{3, 4}).to(kBool);
  const Tensor padding = tensor<int64_t>({0, 0, 0, 0, 1, 0, 0, 0}, Shape{2, 4}).to(kBool);
  const Tensor added = randn({2 * 2, 3, 4}, kFloat64);
  std::vector<Matrix> want;
  for (const size_t n : {0u, 1u}) {
    Matrix mask = no_mask(3, 4);
    for (size_t i = 0; i < 3; ++i) {
      for (size_t j = 0; j < 4; ++j) {
        const bool out =
            (i == 0 && j == 1) || (i == 1 && j == 2) || (i == 2 && j == 3) || (n == 1 && j == 0);
        if (out) mask[i][j] = -HUGE_VAL;
      }
    }
    want.push_back(reference(layer, 2, query, key, key, n, mask));
  }
  expect_near(layer.forward(query, key, key, padding, attn), want);
  const auto as_floats = [](const Tensor& mask) {
    return masked_fill(zeros(mask.shape(), kFloat64), mask, -HUGE_VAL);
  };
  expect_near(layer.forward(query, key, key, as_floats(padding), attn), want);
  expect_near(layer.forward(query, key, key, padding, as_floats(attn)), want);
  expect_near(layer.forward(query, key, key, as_floats(padding), as_floats(attn)), want);
  // A mask for each sequence and head, those of a sequence one after the other.
  const Tensor each = attn.expand({4, 3, 4}).contiguous();
  expect_near(layer.forward(query, key, key, padding, each), want);
  const Tensor alone = layer.forward(query[1], key[1], key[1], {}, added.narrow(0, 2, 2));
  const Tensor both = layer.forward(query, key, key, {}, added);
  EXPECT_EQ(difference(read(alone.detach()), read(both[1].detach()), 1e-12, 1e-12), "");
}

TEST(MultiheadAttention, IsCausalBesideMasks) {
  MultiheadAttention layer(8, 2, {.batch_first = true});
  randomize(layer);
  const Tensor x = randn({2, 4, 8}, kFloat64);
  const Tensor padding = tensor<int64_t>({0, 0, 0, 0, 0, 1, 0, 0}, Shape{2, 4}).to(kBool);
  std::vector<Matrix> want;
  for (const size_t n : {0u, 1u}) {
    Matrix mask = causal_mask(4);
    if (n == 1) {
      for (auto& row : mask) row[1] = -HUGE_VAL;
    }
    want.push_back(reference(layer, 2, x, x, x, n, mask));
  }
  expect_near(layer.forward(x, x, x, padding, {}, true), want);
  // The mask that PyTorch wants beside is_causal.
  const Tensor later = gt(arange(4), arange(4).unsqueeze(1));
  expect_near(layer.forward(x, x, x, padding, later, true), want);
  expect_near(layer.forward(x, x, x, padding, later), want);
}

TEST(MultiheadAttention, HasTheBatchSecondUnlessTold) {
  MultiheadAttention first(8, 2, {.batch_first = true}), second(8, 2);
  second.load_state_dict(first.state_dict());
  const Tensor q = randn({2, 3, 8}), k = randn({2, 5, 8});
  const Tensor want = first.forward(q, k, k);
  const Tensor got = second.forward(q.transpose(0, 1), k.transpose(0, 1), k.transpose(0, 1));
  EXPECT_EQ(got.shape(), (Shape{3, 2, 8}));
  EXPECT_EQ(difference(read(got.transpose(0, 1).detach()), read(want.detach()), 1e-6, 1e-6), "");
  const Tensor one = second.forward(q[1], k[1], k[1]);
  EXPECT_EQ(difference(read(one.detach()), read(want[1].detach()), 1e-6, 1e-6), "");
}

TEST(MultiheadAttention, GivesItsWeights) {
  MultiheadAttention layer(8, 2, {.batch_first = true});
  randomize(layer);
  const Tensor q = randn({2, 3, 8}, kFloat64), k = randn({2, 5, 8}, kFloat64);
  const Tensor mask = gt(arange(5), arange(3).unsqueeze(1));
  for (const bool is_causal : {false, true}) {
    const Tensor given = is_causal ? Tensor() : mask;
    const auto mean = layer.forward_with_weights(q, k, k, {}, given, is_causal);
    const auto each = layer.forward_with_weights(q, k, k, {}, given, is_causal, false);
    const Tensor want = layer.forward(q, k, k, {}, given, is_causal);
    EXPECT_EQ(difference(read(mean.output.detach()), read(want.detach()), 1e-12, 1e-12), "");
    EXPECT_EQ(each.weights.shape(), (Shape{2, 2, 3, 5}));
    EXPECT_TRUE(bit_equal(each.weights.mean({1}).detach(), mean.weights.detach()));
    EXPECT_NEAR((mean.weights.sum({-1}) - 1).abs().amax().item(), 0, 1e-12);
    EXPECT_EQ(masked_fill(mean.weights, logical_not(mask), 0).sum().item(), 0);
  }
  EXPECT_EQ(layer.forward_with_weights(q[0], k[0], k[0]).weights.shape(), (Shape{3, 5}));
}

// Scores of hundreds, which 16-bit numbers round by as much as they differ.
TEST(MultiheadAttention, HasNo16BitScores) {
  Generator generator(3);
  for (const Dtype dtype : {kFloat16, kBFloat16}) {
    MultiheadAttention layer(8, 2, {.batch_first = true});
    randomize(layer);
    layer.to(dtype);
    const auto random = [&](const Shape& shape) {
      return randn(shape, kFloat32, kCpu, &generator);
    };
    const Tensor x = (random({2, 1, 8}) * 20 + random({2, 3, 8}) / 8).to(dtype);
    const Tensor v = random({2, 3, 8}).to(dtype), mask = random({3, 3}).to(dtype);
    const Tensor got = layer.forward_with_weights(x, x, v, {}, mask).output.detach();
    const Tensor want = layer.forward(x, x, v, {}, mask).detach();
    const double unit = dtype == kFloat16 ? 0x1p-10 : 0x1p-7;
    EXPECT_LT((got - want).abs().amax().item(), 4 * unit * want.abs().amax().item()) << dtype;
  }
}

TEST(MultiheadAttention, TakesKeysAndValuesOfOtherWidths) {
  MultiheadAttention layer(8, 2, {.kdim = 6, .vdim = 4, .batch_first = true});
  std::string names;
  for (const auto& [name, tensor] : layer.state_dict()) names += name + " ";
  EXPECT_EQ(
      names,
      "in_proj_bias k_proj_weight out_proj.bias out_proj.weight q_proj_weight v_proj_weight ");
  randomize(layer);
  const Tensor q = randn({1, 3, 8}, kFloat64), k = randn({1, 5, 6}, kFloat64);
  const Tensor v = randn({1, 5, 4}, kFloat64);
  // The same by a layer of one width, whose other columns meet zeros.
  MultiheadAttention wide(8, 2, {.batch_first = true});
  wide.to(kFloat64);
  const auto widened = [](const Tensor& x) {
    Shape behind = x.shape();
    behind[x.rank() - 1] = 8 - x.size(-1);
    return behind[x.rank() - 1] == 0 ? x : cat({x, zeros(behind, kFloat64)}, -1);
  };
  {
    const NoGrad no_grad;
    wide.in_proj_weight.copy_(
        cat({layer.q_proj_weight, widened(layer.k_proj_weight), widened(layer.v_proj_weight)}));
    wide.in_proj_bias.copy_(layer.in_proj_bias);
    wide.out_proj->weight.copy_(layer.out_proj->weight);
    wide.out_proj->bias.copy_(layer.out_proj->bias);
  }
  const Tensor want = wide.forward(q, widened(k), widened(v));
  EXPECT_EQ(difference(read(layer.forward(q, k, v).detach()), read(want.detach()), 1e-12, 1e-12),
            "");
}

TEST(MultiheadAttention, AppendsKeysOfItsOwn) {
  MultiheadAttention layer(
      8, 2, {.bias = false, .add_bias_kv = true, .add_zero_attn = true, .batch_first = true});
  std::string names;
  for (const auto& [name, tensor] : layer.state_dict()) names += name + " ";
  EXPECT_EQ(names, "bias_k bias_v in_proj_weight out_proj.weight ");
  randomize(layer);
  const Tensor x = randn({2, 3, 8}, kFloat64);
  const auto plain = layer.forward_with_weights(x, x, x);
  EXPECT_EQ(plain.weights.shape(), (Shape{2, 3, 5}));
  // Nothing masks them, and is_causal does not count them.
  const auto causal = layer.forward_with_weights(x, x, x, ones({2, 3}, kBool), {}, true, false);
  EXPECT_EQ(causal.weights.narrow(-1, 0, 3).abs().sum().item(), 0);
  EXPECT_NEAR((causal.weights.narrow(-1, 3, 2).sum({-1}) - 1).abs().amax().item(), 0, 1e-12);
  const auto later = layer.forward_with_weights(x, x, x, {}, {}, true);
  EXPECT_GT(later.weights.narrow(1, 0, 1).narrow(2, 3, 2).amin().item(), 0);
  EXPECT_EQ(later.weights.narrow(1, 0, 1).narrow(2, 1, 2).amax().item(), 0);
  layer.bias_v.detach().fill_(3);
  EXPECT_FALSE(bit_equal(layer(x).detach(), plain.output.detach()));
  // The score of a key of zeros is 0.
  const Tensor zero_share = plain.weights.select(-1, 4);
  EXPECT_GT(zero_share.amin().item(), 0);
}

// Each head of key and value serves as many of query's, one after the other.
TEST(GroupedQueryAttention, SharesKeysAndValues) {
  const Tensor q = randn({2, 6, 3, 4}, kFloat64), mask = randn({3, 5}, kFloat64);
  const Tensor k = randn({2, 2, 5, 4}, kFloat64), v = randn({2, 3, 5, 4}, kFloat64);
  const auto grouped = [&](const Tensor& of_k, const Tensor& of_v) {
    return scaled_dot_product_attention(q, of_k, of_v, mask, 0, false, {}, true);
  };
  const Tensor got = grouped(k, v);
  for (int64_t h = 0; h < 6; ++h) {
    const Tensor want =
        scaled_dot_product_attention(q.select(1, h), k.select(1, h / 3), v.select(1, h / 2), mask);
    EXPECT_EQ(difference(read(got.select(1, h)), read(want), 1e-12, 1e-12), "") << h;
  }
  EXPECT_EQ(error_of([&] {
              grouped(randn({2, 4, 5, 4}, kFloat64), v);
            }),
            "scaled_dot_product_attention: enable_gqa: heads of key or value, 4, do not divide "
            "those of query: got 6");
  EXPECT_NE(error_of([&] { scaled_dot_product_attention(q, k, k); }), "no error");
}

double gelu_of(double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); }

Matrix sum(Matrix a, const Matrix& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < a[i].size(); ++j) a[i][j] += b[i][j];
  }
  return a;
}

// Parts of an encoder layer by their names in its state, in plain loops.
struct PlainEncoderLayer {
  std::map<std::string, HostArray> state;
  size_t heads;
  bool gelu;

  Matrix matrix(const std::string& name) const {
    const HostArray& a = state.at(name);
    return rows(a, 0, static_cast<size_t>(a.shape[0]), static_cast<size_t>(a.shape[1]));
  }
  Matrix part(const std::string& name, const Matrix& x) const {
    return affine(x, matrix(name + ".weight"), state.at(name + ".bias").values);
  }
  Matrix norm(const std::string& name, Matrix x) const {
    for (auto& row : x) {
      double mean = 0, variance = 0;
      for (const double v : row) mean += v / static_cast<double>(row.size());
      for (const double v : row)
        variance += (v - mean) * (v - mean) / static_cast<double>(row.size());
      for (size_t j = 0; j < row.size(); ++j) {
        row[j] =
            (row[j] - mean) / std::sqrt(variance + 1e-5) * state.at(name + ".weight").values[j] +
            state.at(name + ".bias").values[j];
      }
    }
    return x;
  }
  Matrix attention(const Matrix& x) const {
    const Matrix all =
        affine(x, matrix("self_attn.in_proj_weight"), state.at("self_attn.in_proj_bias").values);
    Matrix q, k, v;
    const auto width = static_cast<int64_t>(x[0].size());
    for (const auto& row : all) {
      q.emplace_back(row.begin(), row.begin() + width);
      k.emplace_back(row.begin() + width, row.begin() + 2 * width);
      v.emplace_back(row.begin() + 2 * width, row.end());
    }
    return part("self_attn.out_proj", attend(q, k, v, heads, no_mask(x.size(), x.size())));
  }
  Matrix feed_forward(const Matrix& x) const {
    Matrix hidden = part("linear1", x);
    for (auto& row : hidden) {
      for (double& value : row) value = gelu ? gelu_of(value) : std::max(value, 0.0);
    }
    return part("linear2", hidden);
  }
};

TEST(TransformerEncoderLayer, NormalisesBeforeOrAfterEachPart) {
  for (const bool norm_first : {false, true}) {
    TransformerEncoderLayer layer(8, 2,
                                  {.dim_feedforward = 11,
                                   .dropout = 0,
                                   .activation = norm_first ? nn::FeedForwardActivation::kGelu
                                                            : nn::FeedForwardActivation::kRelu,
                                   .batch_first = true,
                                   .norm_first = norm_first});
    randomize(layer);
    PlainEncoderLayer plain{{}, 2, norm_first};
    for (const auto& [name, tensor] : layer.state_dict()) plain.state[name] = read(tensor);
    const Tensor x = randn({2, 5, 8}, kFloat64);
    std::vector<Matrix> want;
    for (const size_t n : {0u, 1u}) {
      const Matrix in = rows(read(x), n * 5, 5, 8);
      if (norm_first) {
        const Matrix y = sum(in, plain.attention(plain.norm("norm1", in)));
        want.push_back(sum(y, plain.feed_forward(plain.norm("norm2", y))));
      } else {
        const Matrix y = plain.norm("norm1", sum(in, plain.attention(in)));
        want.push_back(plain.norm("norm2", sum(y, plain.feed_forward(y))));
      }
    }
    expect_near(layer(x), want);
  }
}

TEST(TransformerEncoderLayer, HasPyTorchsStateNames) {
  std::string names;
  TransformerEncoderLayer layer(8, 2, {.dim_feedforward = 16});
  for (const auto& [name, tensor] : layer.state_dict()) names += name + " ";
  EXPECT_EQ(names,
            "linear1.bias linear1.weight linear2.bias linear2.weight norm1.bias norm1.weight "
            "norm2.bias norm2.weight self_attn.in_proj_bias self_attn.in_proj_weight "
            "self_attn.out_proj.bias self_attn.out_proj.weight ");
}

TEST(TransformerEncoderLayer, PassesTheMaskOn) {
  TransformerEncoderLayer layer(8, 2, {.dim_feedforward = 16, .dropout = 0});
  const Tensor x = randn({4, 1, 8}), changed = x.clone();
  changed[3].fill_(5);
  const Tensor later = gt(arange(4), arange(4).unsqueeze(1));
  const Tensor last = ge(arange(4), 3).unsqueeze(0);  // of one sequence
  const std::vector<std::function<Tensor(const Tensor&)>> ways = {
      [&](const Tensor& in) { return layer.forward(in, {}, {}, true); },
      [&](const Tensor& in) { return layer.forward(in, later); },
      [&](const Tensor& in) { return layer.forward(in, {}, last); }};
  for (const auto& call : ways) {
    const Tensor a = call(x), b = call(changed);
    EXPECT_TRUE(bit_equal(a.narrow(0, 0, 3).detach(), b.narrow(0, 0, 3).detach()));
    EXPECT_FALSE(bit_equal(a.detach(), b.detach()));
  }
}

TEST(TransformerEncoderLayer, PassesTheGradientCheck) {
  TransformerEncoderLayer layer(
      4, 2, {.dim_feedforward = 6, .dropout = 0, .activation = nn::FeedForwardActivation::kGelu});
  randomize(layer);
  const auto call = [&](const Tensors& x) -> Tensors { return {layer(x[0])}; };
  EXPECT_TRUE(gradcheck(call, {randn({2, 3, 4}, kFloat64).set_requires_grad()}));
}

}  // namespace
}  // namespace wick::testing
