#include "wick/nn/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "wick/core/core.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/gradcheck.h"
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
  MultiheadAttention layer(12, 3);
  randomize(layer);
  const Tensor x = randn({2, 5, 12}, kFloat64);
  std::vector<Matrix> plain, causal;
  for (const size_t n : {0u, 1u}) {
    plain.push_back(reference(layer, 3, x, x, x, n, no_mask(5, 5)));
    causal.push_back(reference(layer, 3, x, x, x, n, causal_mask(5)));
  }
  expect_near(layer(x), plain);
  expect_near(layer.forward(x, x, x, {}, true), causal);
}

TEST(MultiheadAttention, AttendsToOtherSequencesUnderAMask) {
  MultiheadAttention layer(8, 2);
  randomize(layer);
  const Tensor query = randn({2, 3, 8}, kFloat64), key = randn({2, 4, 8}, kFloat64);
  const Tensor value = randn({2, 4, 8}, kFloat64), mask = randn({3, 4}, kFloat64);
  const Matrix added = rows(read(mask), 0, 3, 4);
  expect_near(layer.forward(query, key, value, mask),
              {reference(layer, 2, query, key, value, 0, added),
               reference(layer, 2, query, key, value, 1, added)});
}

TEST(MultiheadAttention, DropsWeightsInTrainingOnly) {
  MultiheadAttention layer(8, 2, 0.5);
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
            "MultiheadAttention: wrong shape: got [2, 3, 6], expected [N, L, 8]");
  EXPECT_NE(error_of([&] {
              layer.forward(randn({2, 3, 8}), randn({2, 4, 8}), randn({2, 5, 8}));
            }),
            "no error");
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
  const Tensor x = randn({1, 4, 8}), changed = x.clone();
  changed[0][3].fill_(5);
  const Tensor a = layer.forward(x, {}, true), b = layer.forward(changed, {}, true);
  EXPECT_TRUE(bit_equal(a.narrow(1, 0, 3).detach(), b.narrow(1, 0, 3).detach()));
  EXPECT_FALSE(bit_equal(a.detach(), b.detach()));
}

TEST(TransformerEncoderLayer, PassesTheGradientCheck) {
  TransformerEncoderLayer layer(
      4, 2, {.dim_feedforward = 6, .dropout = 0, .activation = nn::FeedForwardActivation::kGelu});
  randomize(layer);
  Tensors inputs{randn({2, 3, 4}, kFloat64)};
  const auto call = [&](const Tensors& x) -> Tensors { return {layer(x[0])}; };
  EXPECT_EQ(gradcheck(call, inputs, {true}), "");
}

}  // namespace
}  // namespace wick::testing
