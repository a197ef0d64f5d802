#include "wick/kernels/rnn.h"

#include "wick/kernels/cuda/common/launch.h"
#include "wick/kernels/cuda/common/real.h"
#include "wick/kernels/rnn_rules.h"

namespace wick::cuda {

namespace {

// A step's operands as pointers, null where there are none, and its sizes.
template <class T>
struct Forward {
  const T *x, *h, *bias;
  T *cell, *hidden, *kept, *cells, *y;
  int64_t rows, units;
};

template <class T>
struct Backward {
  const T *kept, *before, *after, *dh, *dy;
  T *carry, *dgates, *dgates_h;
  int64_t rows, units;
};

template <class T>
__device__ fn::Real<T> read_or_zero(const T* p, int64_t i) {
  return fn::Real<T>::of(p != nullptr ? p[i] : T{0});
}
template <class T>
__device__ void write_if(T* p, int64_t i, fn::Real<T> v) {
  if (p != nullptr) p[i] = v.value;
}

template <class Rule, class T>
__global__ void rnn_forward_kernel(Forward<T> s) {
  using V = fn::Real<T>;
  constexpr int kGates = Rule::gates;
  constexpr bool kIsLstm = Rule::kind == RnnKind::kLstm;
  for (int64_t i = global_thread(); i < s.rows * s.units; i += global_threads()) {
    const int64_t row = i / s.units, unit = i % s.units;
    const int64_t gate = row * kGates * s.units + unit;
    V x[kGates], h[kGates], kept[Rule::kept + 1];
    for (int k = 0; k < kGates; ++k) {
      x[k] = V::of(s.x[gate + k * s.units]);
      h[k] = V::of(s.h[gate + k * s.units]) + read_or_zero(s.bias, k * s.units + unit);
    }
    V after(0.0), y;
    Rule::forward(x, h, read_or_zero<T>(kIsLstm ? s.cell : s.hidden, i), kept, after, y);
    if (s.kept != nullptr) {
      const int64_t at = row * Rule::kept * s.units + unit;
      for (int k = 0; k < Rule::kept; ++k) s.kept[at + k * s.units] = kept[k].value;
    }
    if constexpr (kIsLstm) {
      s.cell[i] = after.value;
      write_if(s.cells, i, after);
    }
    write_if(s.hidden, i, y);
    s.y[i] = y.value;
  }
}

template <class Rule, class T>
__global__ void rnn_backward_kernel(Backward<T> s) {
  using V = fn::Real<T>;
  constexpr int kGates = Rule::gates;
  for (int64_t i = global_thread(); i < s.rows * s.units; i += global_threads()) {
    const int64_t row = i / s.units, unit = i % s.units;
    const int64_t kept_at = row * Rule::kept * s.units + unit;
    V kept[Rule::kept + 1], dx[kGates], dh[kGates];
    for (int k = 0; k < Rule::kept; ++k) kept[k] = V::of(s.kept[kept_at + k * s.units]);
    V carry = read_or_zero<T>(s.carry, i);
    Rule::backward(kept, read_or_zero(s.before, i), read_or_zero(s.after, i),
                   V::of(s.dh[i]) + read_or_zero(s.dy, i), carry, dx, dh);
    write_if(s.carry, i, carry);
    const int64_t gate = row * kGates * s.units + unit;
    for (int k = 0; k < kGates; ++k) s.dgates[gate + k * s.units] = dx[k].value;
    if constexpr (Rule::kind == RnnKind::kGru) {
      for (int k = 0; k < kGates; ++k) s.dgates_h[gate + k * s.units] = dh[k].value;
    }
  }
}

template <class Rule, class T>
void run(const RnnStep& step) {
  const Forward<T> s{step.x.as<T>(),      step.h.as<T>(),    step.bias.as<T>(),  step.cell.as<T>(),
                     step.hidden.as<T>(), step.kept.as<T>(), step.cells.as<T>(), step.y.as<T>(),
                     step.y.shape[0],     step.y.shape[1]};
  launch("rnn_forward", step.y.device, grid_for(step.y.device, s.rows * s.units),
         rnn_forward_kernel<Rule, T>, s);
}

template <class Rule, class T>
void run(const RnnStepGradient& step) {
  const Backward<T> s{step.kept.as<T>(),   step.before.as<T>(),   step.after.as<T>(),
                      step.dh.as<T>(),     step.dy.as<T>(),       step.carry.as<T>(),
                      step.dgates.as<T>(), step.dgates_h.as<T>(), step.dh.shape[0],
                      step.dh.shape[1]};
  launch("rnn_backward", step.dh.device, grid_for(step.dh.device, s.rows * s.units),
         rnn_backward_kernel<Rule, T>, s);
}

}  // namespace

void rnn_forward(const RnnStep& step) {
  fn::visit_rnn_rule(step.kind, [&]<class Rule>(Rule) {
    if (step.y.dtype == Dtype::kFloat64) return run<Rule, double>(step);
    run<Rule, float>(step);
  });
}

void rnn_backward(const RnnStepGradient& step) {
  fn::visit_rnn_rule(step.kind, [&]<class Rule>(Rule) {
    if (step.dh.dtype == Dtype::kFloat64) return run<Rule, double>(step);
    run<Rule, float>(step);
  });
}

}  // namespace wick::cuda
