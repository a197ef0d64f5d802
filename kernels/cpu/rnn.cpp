#include "wick/kernels/rnn.h"

#include "wick/kernels/cpu/rows.h"
#include "wick/kernels/cpu/simd_math.h"
#include "wick/kernels/rnn_rules.h"

namespace wick::WICK_ISA {

namespace {

constexpr int64_t kUnitGrain = 128;  // vectors of units that are worth a thread

// Where unit `j` of row `row` is in a view [B, blocks H], if that is defined.
template <class T>
WICK_INLINE T* place(const View& view, int64_t row, int64_t width, int64_t j) {
  return view.defined() ? view.as<T>() + row * width + j : nullptr;
}

// Calls `body(row, j, n)` for the vectors of units of all rows.
template <class T, class Body>
WICK_INLINE void for_units(int64_t rows, int64_t units, const Body& body) {
  constexpr int64_t kLanes = Vec<T>::size;
  const int64_t per_row = (units + kLanes - 1) / kLanes;
  parallel_for(
      rows * per_row, kUnitGrain, [&](int64_t begin, int64_t end) __attribute__((always_inline)) {
        int64_t row = begin / per_row, j = begin % per_row * kLanes;
        for (int64_t i = begin; i < end; ++i) {
          body(row, j, units - j < kLanes ? units - j : kLanes);
          j += kLanes;
          if (j >= units) {
            j = 0;
            ++row;
          }
        }
      });
}

template <class T>
WICK_INLINE Vec<T> load_or_zero(const T* p, int64_t n) {
  return p != nullptr ? load_up_to<T>(p, n) : Vec<T>(0);
}
template <class T>
WICK_INLINE void store_if(Vec<T> v, T* p, int64_t n) {
  if (p != nullptr) store_up_to(v, p, n);
}

template <class Rule, class T>
void step_forward(const RnnStep& s) {
  using V = Vec<T>;
  constexpr int kGates = Rule::gates;
  constexpr bool kIsLstm = Rule::kind == RnnKind::kLstm;
  const int64_t units = s.y.shape[1];
  const T* const bias = s.bias.as<T>();
  for_units<T>(
      s.y.shape[0], units, [&](int64_t row, int64_t j, int64_t n) __attribute__((always_inline)) {
        const T* const x_at = place<T>(s.x, row, kGates * units, j);
        const T* const h_at = place<T>(s.h, row, kGates * units, j);
        V x[kGates], h[kGates], kept[Rule::kept + 1];
        for (int k = 0; k < kGates; ++k) {
          x[k] = load_up_to<T>(x_at + k * units, n);
          h[k] = load_up_to<T>(h_at + k * units, n);
          if (bias != nullptr) h[k] += load_up_to<T>(bias + k * units + j, n);
        }
        T* const hidden = place<T>(s.hidden, row, units, j);
        T* const cell = place<T>(s.cell, row, units, j);
        const V before = load_or_zero<T>(kIsLstm ? cell : hidden, n);
        V after(0), y;
        Rule::forward(x, h, before, kept, after, y);
        if (s.kept.defined()) {
          T* const kept_at = place<T>(s.kept, row, Rule::kept * units, j);
          for (int k = 0; k < Rule::kept; ++k) store_up_to(kept[k], kept_at + k * units, n);
        }
        if constexpr (kIsLstm) {
          store_up_to(after, cell, n);
          store_if(after, place<T>(s.cells, row, units, j), n);
        }
        store_if(y, hidden, n);
        store_up_to(y, place<T>(s.y, row, units, j), n);
      });
}

template <class Rule, class T>
void step_backward(const RnnStepGradient& s) {
  using V = Vec<T>;
  constexpr int kGates = Rule::gates;
  const int64_t units = s.dh.shape[1];
  for_units<T>(
      s.dh.shape[0], units, [&](int64_t row, int64_t j, int64_t n) __attribute__((always_inline)) {
        const T* const kept_at = place<T>(s.kept, row, Rule::kept * units, j);
        V kept[Rule::kept + 1], dx[kGates], dh[kGates];
        for (int k = 0; k < Rule::kept; ++k) kept[k] = load_up_to<T>(kept_at + k * units, n);
        const V before = load_or_zero<T>(place<T>(s.before, row, units, j), n);
        const V after = load_or_zero<T>(place<T>(s.after, row, units, j), n);
        const V dy = load_up_to<T>(place<T>(s.dh, row, units, j), n) +
                     load_or_zero<T>(place<T>(s.dy, row, units, j), n);
        T* const carry_at = place<T>(s.carry, row, units, j);
        V carry = load_or_zero<T>(carry_at, n);
        Rule::backward(kept, before, after, dy, carry, dx, dh);
        store_if(carry, carry_at, n);
        T* const dx_at = place<T>(s.dgates, row, kGates * units, j);
        for (int k = 0; k < kGates; ++k) store_up_to(dx[k], dx_at + k * units, n);
        if constexpr (Rule::kind == RnnKind::kGru) {
          T* const dh_at = place<T>(s.dgates_h, row, kGates * units, j);
          for (int k = 0; k < kGates; ++k) store_up_to(dh[k], dh_at + k * units, n);
        }
      });
}

}  // namespace

void rnn_forward(const RnnStep& step) {
  fn::visit_rnn_rule(
      step.kind, [&]<class Rule>(Rule) __attribute__((always_inline)) {
        if (step.y.dtype == Dtype::kFloat64) return step_forward<Rule, double>(step);
        step_forward<Rule, float>(step);
      });
}

void rnn_backward(const RnnStepGradient& step) {
  fn::visit_rnn_rule(
      step.kind, [&]<class Rule>(Rule) __attribute__((always_inline)) {
        if (step.dh.dtype == Dtype::kFloat64) return step_backward<Rule, double>(step);
        step_backward<Rule, float>(step);
      });
}

}  // namespace wick::WICK_ISA
