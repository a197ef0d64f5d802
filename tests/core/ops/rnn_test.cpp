#include "wick/core/ops/rnn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "wick/core/amp.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/detail/rnn_composed.h"
#include "wick/core/ops/detail/rnn_library.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/reduce.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/op_case.h"

namespace wick::testing {
namespace {

constexpr int64_t kInputs = 5;

// Inputs: x, h_0, c_0, w_ih, w_hh, b_ih, b_hh, w_hr, of one layer over a packed batch. What the
// kind lacks is of one element and does not count.
struct Layer {
  RnnKind kind;
  std::vector<int64_t> batch_sizes;
  int64_t units = 3;
  int64_t projected = 0;
  bool reverse = false;

  int64_t width() const { return projected > 0 ? projected : units; }
  int64_t gates() const { return gates_of(kind) * units; }
  bool is_lstm() const { return kind == RnnKind::kLstm; }

  Sample sample() const {
    const int64_t rows = std::accumulate(batch_sizes.begin(), batch_sizes.end(), int64_t{0});
    const int64_t batch = batch_sizes[0];
    const Input unused = uniform({1}).constant();
    return {normal({rows, kInputs}),
            uniform({batch, width()}, -1, 1),
            is_lstm() ? uniform({batch, units}, -1, 1) : unused,
            uniform({gates(), kInputs}, -0.7, 0.7),
            uniform({gates(), width()}, -0.7, 0.7),
            uniform({gates()}, -0.5, 0.5),
            uniform({gates()}, -0.5, 0.5),
            projected > 0 ? uniform({projected, units}, -0.7, 0.7) : unused};
  }

  template <class Function>
  Tensors call(const Function& function, const Tensors& x) const {
    const Tensor c_0 = is_lstm() ? x[2] : Tensor(), w_hr = projected > 0 ? x[7] : Tensor();
    const RnnResult all = function(kind, x[0], batch_sizes, reverse, x[1], c_0,
                                   RnnWeights{x[3], x[4], x[5], x[6], w_hr});
    return is_lstm() ? Tensors{all.y, all.h_n, all.c_n} : Tensors{all.y, all.h_n};
  }

  // One row's gates from input and state, by plain loops.
  std::vector<double> product(const HostArray& w, const double* x, const HostArray& bias) const {
    const int64_t columns = w.shape[1];
    std::vector<double> y(bias.values);
    for (int64_t i = 0; i < w.shape[0]; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        y[static_cast<size_t>(i)] += w.values[static_cast<size_t>(i * columns + j)] * x[j];
      }
    }
    return y;
  }

  // h after a step, and c in place.
  std::vector<double> step(const std::vector<double>& x, const std::vector<double>& h_gates,
                           const double* h, double* c) const {
    const auto n = static_cast<size_t>(units);
    const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
    std::vector<double> y(n);
    for (size_t j = 0; j < n; ++j) {
      const auto gate = [&](size_t k) { return x[k * n + j] + h_gates[k * n + j]; };
      if (kind == RnnKind::kTanh) y[j] = std::tanh(gate(0));
      if (kind == RnnKind::kRelu) y[j] = std::max(gate(0), 0.0);
      if (kind == RnnKind::kLstm) {
        c[j] = sigmoid(gate(1)) * c[j] + sigmoid(gate(0)) * std::tanh(gate(2));
        y[j] = sigmoid(gate(3)) * std::tanh(c[j]);
      }
      if (kind == RnnKind::kGru) {
        const double z = sigmoid(gate(1));
        const double new_h = std::tanh(x[2 * n + j] + sigmoid(gate(0)) * h_gates[2 * n + j]);
        y[j] = (1 - z) * new_h + z * h[j];
      }
    }
    return y;
  }

  // Sequence by sequence, each row found through the packing.
  Arrays reference(const Arrays& in) const {
    const HostArray &x = in[0], &w_hr = in[7];
    HostArray y{{x.shape[0], width()}, {}}, h = in[1], c = in[2];
    y.values.resize(static_cast<size_t>(x.shape[0] * width()));
    for (int64_t b = 0; b < batch_sizes[0]; ++b) {
      std::vector<int64_t> rows;
      int64_t first = 0;
      for (const int64_t count : batch_sizes) {
        if (b < count) rows.push_back(first + b);
        first += count;
      }
      if (reverse) std::reverse(rows.begin(), rows.end());
      double* const h_b = &h.values[static_cast<size_t>(b * width())];
      double* const c_b = is_lstm() ? &c.values[static_cast<size_t>(b * units)] : nullptr;
      for (const int64_t row : rows) {
        const double* const x_row = &x.values[static_cast<size_t>(row * kInputs)];
        std::vector<double> out =
            step(product(in[3], x_row, in[5]), product(in[4], h_b, in[6]), h_b, c_b);
        if (projected > 0) {
          const HostArray none{{projected}, std::vector<double>(static_cast<size_t>(projected))};
          out = product(w_hr, out.data(), none);
        }
        std::copy(out.begin(), out.end(), h_b);
        std::copy(out.begin(), out.end(), &y.values[static_cast<size_t>(row * width())]);
      }
    }
    return is_lstm() ? Arrays{y, h, c} : Arrays{y, h};
  }

  double flops() const {
    const int64_t rows = std::accumulate(batch_sizes.begin(), batch_sizes.end(), int64_t{0});
    return 2.0 * static_cast<double>(rows) *
           static_cast<double>(gates() * (kInputs + width()) + projected * units);
  }
};

// Both directions of a layer. Inputs: x, h_0, c_0 of both, the weights of one, those of the other.
struct BothWays {
  Layer layer;

  Sample sample() const {
    Sample all = layer.sample();
    for (const size_t state : {1, 2}) {
      Shape& shape = all[state].shape;
      if (shape.rank() == 2) shape = {2, shape[0], shape[1]};
    }
    const Sample weights(all.begin() + 3, all.end());
    all.insert(all.end(), weights.begin(), weights.end());
    return all;
  }

  Tensors call(const Tensors& x) const {
    const RnnResult all =
        bidirectional_rnn_layer(layer.kind, x[0], layer.batch_sizes, x[1],
                                layer.is_lstm() ? x[2] : Tensor(), weights(x, 3), weights(x, 8));
    return layer.is_lstm() ? Tensors{all.y, all.h_n, all.c_n} : Tensors{all.y, all.h_n};
  }
  Tensors composed(const Tensors& x) const {
    const auto one = [&](int64_t d) {
      return composed_rnn_layer(layer.kind, x[0], layer.batch_sizes, d == 1, x[1][d],
                                layer.is_lstm() ? x[2][d] : Tensor(),
                                weights(x, 3 + 5 * static_cast<size_t>(d)));
    };
    const RnnResult all = side_by_side(one(0), one(1));
    return layer.is_lstm() ? Tensors{all.y, all.h_n, all.c_n} : Tensors{all.y, all.h_n};
  }

  Arrays reference(const Arrays& in) const {
    std::vector<Arrays> results;
    for (size_t d = 0; d < 2; ++d) {
      Arrays own{in[0], half(in[1], d), layer.is_lstm() ? half(in[2], d) : in[2]};
      own.insert(own.end(), in.begin() + 3 + 5 * static_cast<int>(d),
                 in.begin() + 8 + 5 * static_cast<int>(d));
      Layer one = layer;
      one.reverse = d == 1;
      results.push_back(one.reference(own));
    }
    const HostArray &a = results[0][0], &b = results[1][0];
    const auto width = static_cast<size_t>(layer.width());
    Arrays all{{{a.shape[0], 2 * layer.width()}, {}}};
    for (size_t at = 0; at < a.values.size(); at += width) {
      for (const HostArray* y : {&a, &b}) {
        all[0].values.insert(all[0].values.end(), y->values.begin() + static_cast<ptrdiff_t>(at),
                             y->values.begin() + static_cast<ptrdiff_t>(at + width));
      }
    }
    for (size_t i = 1; i < results[0].size(); ++i) {
      HostArray state = results[0][i];
      const HostArray& other = results[1][i];
      state.shape = {2, state.shape[0], state.shape[1]};
      state.values.insert(state.values.end(), other.values.begin(), other.values.end());
      all.push_back(state);
    }
    return all;
  }

 private:
  RnnWeights weights(const Tensors& x, size_t first) const {
    return {x[first], x[first + 1], x[first + 2], x[first + 3],
            layer.projected > 0 ? x[first + 4] : Tensor()};
  }
  static HostArray half(const HostArray& state, size_t d) {
    const auto size = static_cast<ptrdiff_t>(state.values.size() / 2);
    const auto begin = state.values.begin() + static_cast<ptrdiff_t>(d) * size;
    return {{state.shape[1], state.shape[2]}, std::vector<double>(begin, begin + size)};
  }
};

const std::vector<int64_t> kPadded{3, 3, 3, 3}, kPacked{4, 3, 3, 1};

const Layer kTanhLayer{RnnKind::kTanh, kPadded, 17};
const Layer kReluLayer{RnnKind::kRelu, {2, 2}, 3, 0, true};
const Layer kLstmLayer{RnnKind::kLstm, kPadded, 17};
const Layer kLstmPacked{RnnKind::kLstm, kPacked};
const Layer kLstmReverse{RnnKind::kLstm, kPacked, 3, 0, true};
const Layer kLstmProjected{RnnKind::kLstm, kPacked, 5, 2, true};
const Layer kLstmStep{RnnKind::kLstm, {1}, 1};
const Layer kLstmEmpty{RnnKind::kLstm, {0, 0}};
const Layer kGruLayer{RnnKind::kGru, kPadded, 17};
const Layer kGruWide{RnnKind::kGru, {13, 12, 12, 6, 1}};
const Layer kGruReverse{RnnKind::kGru, kPacked, 3, 0, true};

// clang-format off
#define WICK_RNN_CASE(id, layer, second)                                                        \
  WICK_OP_CASE(id, .samples = {layer.sample()},                                                 \
               .call = [](const Tensors& x) { return layer.call(rnn_layer, x); },               \
               .reference = [](const Arrays& x) { return layer.reference(x); },                 \
               .composed = [](const Tensors& x) { return layer.call(composed_rnn_layer, x); },  \
               .tolerance = Tolerance::matmul(), .second_order = second,                        \
               .flops = [](const Tensors&) { return layer.flops(); })
// clang-format on
WICK_RNN_CASE(rnn_tanh, kTanhLayer, false);
WICK_RNN_CASE(rnn_relu_reverse, kReluLayer, false);
WICK_RNN_CASE(lstm, kLstmLayer, false);
WICK_RNN_CASE(lstm_packed, kLstmPacked, true);
WICK_RNN_CASE(lstm_packed_reverse, kLstmReverse, true);
WICK_RNN_CASE(lstm_projected, kLstmProjected, true);
WICK_RNN_CASE(lstm_step, kLstmStep, true);
WICK_RNN_CASE(lstm_empty, kLstmEmpty, false);
WICK_RNN_CASE(gru, kGruLayer, false);
WICK_RNN_CASE(gru_of_many, kGruWide, false);
WICK_RNN_CASE(gru_packed_reverse, kGruReverse, true);
#undef WICK_RNN_CASE

const BothWays kTanhBoth{{RnnKind::kTanh, kPacked}};
const BothWays kReluBoth{{RnnKind::kRelu, {2, 2}}};
const BothWays kLstmBoth{{RnnKind::kLstm, kPacked}};
const BothWays kLstmProjectedBoth{{RnnKind::kLstm, {3, 3, 1, 0}, 5, 2}};
const BothWays kGruBoth{{RnnKind::kGru, kPacked}};

// clang-format off
#define WICK_RNN_CASE(id, both)                                                  \
  WICK_OP_CASE(id, .covers = {"library_rnn_layer"}, .samples = {both.sample()},  \
               .call = [](const Tensors& x) { return both.call(x); },            \
               .reference = [](const Arrays& x) { return both.reference(x); },   \
               .composed = [](const Tensors& x) { return both.composed(x); },    \
               .tolerance = Tolerance::matmul(), .second_order = true)
// clang-format on
WICK_RNN_CASE(rnn_tanh_both_ways, kTanhBoth);
WICK_RNN_CASE(rnn_relu_both_ways, kReluBoth);
WICK_RNN_CASE(lstm_both_ways, kLstmBoth);
WICK_RNN_CASE(lstm_projected_both_ways, kLstmProjectedBoth);
WICK_RNN_CASE(gru_both_ways, kGruBoth);
#undef WICK_RNN_CASE

RnnWeights lstm_weights(int64_t units = 4) {
  return {randn({4 * units, kInputs}), randn({4 * units, units}), {}, {}, {}};
}

TEST(RnnLayer, StartsFromZerosWithoutAState) {
  const RnnWeights w = lstm_weights();
  const Tensor x = randn({6, kInputs});
  const RnnResult got = rnn_layer(RnnKind::kLstm, x, {3, 3}, false, {}, {}, w);
  const RnnResult want =
      rnn_layer(RnnKind::kLstm, x, {3, 3}, false, zeros({3, 4}), zeros({3, 4}), w);
  EXPECT_TRUE(eq(got.y, want.y).all().item<bool>());
  EXPECT_TRUE(eq(got.c_n, want.c_n).all().item<bool>());
}

TEST(RnnLayer, DifferentiatesWhatIsUsedAlone) {
  const RnnWeights w = lstm_weights();
  w.w_hh.set_requires_grad();
  const Tensor x = randn({6, kInputs});
  const auto gradient = [&](Tensor RnnResult::*member, bool by_ops) {
    const RnnResult all =
        (by_ops ? composed_rnn_layer : rnn_layer)(RnnKind::kLstm, x, {3, 2, 1}, false, {}, {}, w);
    return grad({(all.*member).sum()}, {w.w_hh})[0];
  };
  for (const auto member : {&RnnResult::y, &RnnResult::h_n, &RnnResult::c_n}) {
    const Tensor difference = gradient(member, false) - gradient(member, true);
    EXPECT_LT(difference.abs().max().item<float>(), 1e-4f);
    EXPECT_GT(gradient(member, false).abs().max().item<float>(), 1e-3f);
  }
}

TEST(RnnLayer, LeavesItsStateAlone) {
  const Tensor h = randn({2, 4}), c = randn({2, 4});
  const Tensor h_before = h.clone(), c_before = c.clone();
  rnn_layer(RnnKind::kLstm, randn({4, kInputs}), {2, 2}, false, h, c, lstm_weights());
  EXPECT_TRUE(eq(h, h_before).all().item<bool>());
  EXPECT_TRUE(eq(c, c_before).all().item<bool>());
}

TEST(RnnLayer, IsOfTheLowerPrecisionUnderAutocast) {
  const RnnWeights w = lstm_weights();
  for (const Tensor& weight : {w.w_ih, w.w_hh}) weight.set_requires_grad();
  const Tensor x = randn({4, kInputs});
  RnnResult got;
  {
    const amp::Autocast autocast(kCpu);
    got = rnn_layer(RnnKind::kLstm, x, {2, 2}, false, {}, {}, w);
  }
  EXPECT_EQ(got.y.dtype(), kBFloat16);
  EXPECT_EQ(got.c_n.dtype(), kBFloat16);
  const Tensor exact = rnn_layer(RnnKind::kLstm, x, {2, 2}, false, {}, {}, w).y;
  EXPECT_LT((got.y.to(kFloat32) - exact).abs().max().item<float>(), 0.05f);
  got.y.sum().backward();
  EXPECT_EQ(w.w_hh.grad().dtype(), kFloat32);
}

TEST(RnnLayer, SaysWhatDoesNotFit) {
  const RnnWeights w = lstm_weights();
  const Tensor x = randn({4, kInputs});
  const auto error = [&](const std::vector<int64_t>& sizes, const Tensor& h,
                         const RnnWeights& weights, RnnKind kind = RnnKind::kLstm) {
    return error_of([&] { rnn_layer(kind, x, sizes, false, h, {}, weights); });
  };
  EXPECT_EQ(error({}, {}, w), "rnn_layer: no time step: got no batch sizes, expected 1 or more");
  EXPECT_EQ(error({1, 3}, {}, w),
            "rnn_layer: batch sizes must not grow: got 3 after 1, expected 0 to 1");
  EXPECT_EQ(error({3, 2}, {}, w),
            "rnn_layer: batch sizes do not fit x: got a sum of 5, expected the rows of [4, 5]");
  EXPECT_EQ(error({2, 2}, randn({3, 4}), w),
            "rnn_layer: h_0 has the wrong shape: got [3, 4], expected [2, 4]");
  EXPECT_EQ(error({2, 2}, {}, {randn({16, 7}), w.w_hh, {}, {}, {}}),
            "rnn_layer: w_ih has the wrong shape: got [16, 7], expected [16, 5]");
  EXPECT_EQ(error({2, 2}, {}, {w.w_ih, randn({16, 3}), {}, {}, {}}),
            "rnn_layer: w_hh has the wrong shape: got [16, 3], expected [16, 4]");
  EXPECT_EQ(error({2, 2}, {}, {w.w_ih, w.w_hh, randn({16}), {}, {}}),
            "rnn_layer: one bias is missing: got b_ih alone, expected both or none");
  EXPECT_EQ(error({2, 2}, randn({2, 4}).to(kFloat64), w),
            "rnn_layer: dtypes differ: got float32 and float64");
  EXPECT_EQ(
      error({2, 2}, {}, {randn({12, 5}), randn({12, 4}), {}, {}, randn({2, 4})}, RnnKind::kGru),
      "rnn_layer: c_0 and w_hr are an LSTM's: got them for gru");
  const auto both = [&](const Tensor& h, const RnnWeights& other) {
    return error_of([&] { bidirectional_rnn_layer(RnnKind::kLstm, x, {2, 2}, h, {}, w, other); });
  };
  EXPECT_EQ(both(randn({2, 4}), w),
            "rnn_layer: h_0 has the wrong shape: got [2, 4], expected [2, 2, 4]");
  EXPECT_EQ(both({}, lstm_weights(3)),
            "bidirectional_rnn_layer: the directions differ: got w_hh [16, 4] and [12, 3], "
            "expected weights of the same shapes");
}

}  // namespace
}  // namespace wick::testing
