#include "wick/core/ops/detail/rnn_composed.h"

#include <algorithm>

#include "wick/core/ops/activation.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/matmul.h"

namespace wick {

std::vector<RnnRows> rnn_steps(const std::vector<int64_t>& batch_sizes, bool reverse) {
  std::vector<RnnRows> steps;
  int64_t first = 0;
  for (const int64_t count : batch_sizes) {
    steps.push_back({first, count});
    first += count;
  }
  if (reverse) std::reverse(steps.begin(), steps.end());
  return steps;
}

namespace {

// `all` with its first rows replaced.
Tensor with_first_rows(const Tensor& first, const Tensor& all) {
  const int64_t rest = all.size(0) - first.size(0);
  return rest == 0 ? first : cat({first, all.narrow(0, first.size(0), rest)});
}

// h after a step; c is changed to what it is then.
Tensor composed_step(RnnKind kind, const Tensor& x, const Tensor& h, const Tensor& gates_h,
                     Tensor& c) {
  const std::vector<Tensor> xs = x.chunk(gates_of(kind), -1),
                            hs = gates_h.chunk(gates_of(kind), -1);
  const auto gate = [&](size_t k) { return xs[k] + hs[k]; };
  switch (kind) {
    case RnnKind::kTanh: return tanh(gate(0));
    case RnnKind::kRelu: return relu(gate(0));
    case RnnKind::kLstm: {
      c = sigmoid(gate(1)) * c + sigmoid(gate(0)) * tanh(gate(2));
      return sigmoid(gate(3)) * tanh(c);
    }
    case RnnKind::kGru: break;
  }
  const Tensor z = sigmoid(gate(1));
  const Tensor n = tanh(xs[2] + sigmoid(gate(0)) * hs[2]);
  return n + z * (h - n);
}

}  // namespace

RnnResult composed_rnn_layer(RnnKind kind, const Tensor& x, const std::vector<int64_t>& batch_sizes,
                             bool reverse, const Tensor& h_0, const Tensor& c_0,
                             const RnnWeights& weights) {
  const int64_t batch = batch_sizes[0], units = weights.w_hh.size(0) / gates_of(kind);
  const auto or_zeros = [&](const Tensor& state, int64_t columns) {
    return state.defined() ? state : zeros({batch, columns}, x.dtype(), x.device());
  };
  RnnResult result;
  result.h_n = or_zeros(h_0, weights.w_hh.size(1));
  if (kind == RnnKind::kLstm) result.c_n = or_zeros(c_0, units);
  const Tensor gates_x = linear(x, weights.w_ih, weights.b_ih);
  std::vector<Tensor> ys;
  for (const RnnRows& rows : rnn_steps(batch_sizes, reverse)) {
    const Tensor h = result.h_n.narrow(0, 0, rows.count);
    Tensor c = result.c_n.defined() ? result.c_n.narrow(0, 0, rows.count) : Tensor();
    Tensor y = composed_step(kind, gates_x.narrow(0, rows.first, rows.count), h,
                             linear(h, weights.w_hh, weights.b_hh), c);
    if (weights.w_hr.defined()) y = linear(y, weights.w_hr);
    result.h_n = with_first_rows(y, result.h_n);
    if (c.defined()) result.c_n = with_first_rows(c, result.c_n);
    ys.push_back(y);
  }
  if (reverse) std::reverse(ys.begin(), ys.end());
  result.y = cat(ys);
  return result;
}

}  // namespace wick
