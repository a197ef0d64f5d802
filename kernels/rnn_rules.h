#pragma once

#include "wick/core/base/rnn_kind.h"
#include "wick/kernels/elementwise_ops.h"

// What one unit of a recurrent layer computes in one time step, on a number type V as the functors
// of elementwise_ops.h. A rule has
//   gates, kept                        counts, as kernels/rnn.h says
//   forward(x, h, before, kept, after, y)  before, after: c of the LSTM, h before of the GRU
//   backward(kept, before, after, dy, carry, dx, dh)  dy: of h, without the carry
namespace wick::fn {

struct LstmRule {
  static constexpr RnnKind kind = RnnKind::kLstm;
  static constexpr int gates = 4, kept = 4;

  template <class V>
  static WICK_HOST_DEVICE void forward(const V* x, const V* h, V before, V* kept_out, V& after,
                                       V& y) {
    const V i = sigmoid(x[0] + h[0]), f = sigmoid(x[1] + h[1]);
    const V g = tanh(x[2] + h[2]), o = sigmoid(x[3] + h[3]);
    after = f * before + i * g;
    y = o * tanh(after);
    kept_out[0] = i;
    kept_out[1] = f;
    kept_out[2] = g;
    kept_out[3] = o;
  }
  template <class V>
  static WICK_HOST_DEVICE void backward(const V* kept_in, V before, V after, V dy, V& carry, V* dx,
                                        V*) {
    const V i = kept_in[0], f = kept_in[1], g = kept_in[2], o = kept_in[3];
    const V t = tanh(after);
    const V dc = carry + dy * o * (1.0 - t * t);
    dx[0] = dc * g * i * (1.0 - i);
    dx[1] = dc * before * f * (1.0 - f);
    dx[2] = dc * i * (1.0 - g * g);
    dx[3] = dy * t * o * (1.0 - o);
    carry = dc * f;
  }
};

struct GruRule {
  static constexpr RnnKind kind = RnnKind::kGru;
  static constexpr int gates = 3, kept = 4;

  template <class V>
  static WICK_HOST_DEVICE void forward(const V* x, const V* h, V before, V* kept_out, V&, V& y) {
    const V r = sigmoid(x[0] + h[0]), z = sigmoid(x[1] + h[1]);
    const V n = tanh(x[2] + r * h[2]);
    y = n + z * (before - n);
    kept_out[0] = r;
    kept_out[1] = z;
    kept_out[2] = n;
    kept_out[3] = h[2];
  }
  template <class V>
  static WICK_HOST_DEVICE void backward(const V* kept_in, V before, V, V dy, V& carry, V* dx,
                                        V* dh) {
    const V r = kept_in[0], z = kept_in[1], n = kept_in[2];
    const V d = dy + carry;
    const V dn = d * (1.0 - z) * (1.0 - n * n);
    dx[0] = dh[0] = dn * kept_in[3] * r * (1.0 - r);
    dx[1] = dh[1] = d * (before - n) * z * (1.0 - z);
    dx[2] = dn;
    dh[2] = dn * r;
    carry = d * z;
  }
};

struct TanhRule {
  static constexpr RnnKind kind = RnnKind::kTanh;
  static constexpr int gates = 1, kept = 0;

  template <class V>
  static WICK_HOST_DEVICE void forward(const V* x, const V* h, V, V*, V&, V& y) {
    y = tanh(x[0] + h[0]);
  }
  template <class V>
  static WICK_HOST_DEVICE void backward(const V*, V, V after, V dy, V&, V* dx, V*) {
    dx[0] = dy * (1.0 - after * after);
  }
};

struct ReluRule {
  static constexpr RnnKind kind = RnnKind::kRelu;
  static constexpr int gates = 1, kept = 0;

  template <class V>
  static WICK_HOST_DEVICE void forward(const V* x, const V* h, V, V*, V&, V& y) {
    y = max(x[0] + h[0], V(0));
  }
  template <class V>
  static WICK_HOST_DEVICE void backward(const V*, V, V after, V dy, V&, V* dx, V*) {
    dx[0] = select(after <= 0.0, V(0), dy);
  }
};

/// Calls `visit(rule)` with the rule of `kind`.
template <class Visit>
WICK_INLINE void visit_rnn_rule(RnnKind kind, Visit&& visit) {
  switch (kind) {
    case RnnKind::kTanh: return visit(TanhRule{});
    case RnnKind::kRelu: return visit(ReluRule{});
    case RnnKind::kLstm: return visit(LstmRule{});
    case RnnKind::kGru: return visit(GruRule{});
  }
}

}  // namespace wick::fn
