#pragma once

#include <immintrin.h>

#include "wick/kernels/cpu/tensor_chunks.h"
#include "wick/kernels/optim_record.h"

namespace wick::WICK_ISA {

/// While it lives, this thread takes denormal numbers (float32: below 1.2e-38) for 0, as arguments
/// and as results. Where a weight has no gradient any more, moments shrink to the smallest of them
/// and, by rounding, stay there; beside an `eps` they change no weight, but each costs the
/// processor some hundred cycles.
class FlushDenormals {
 public:
  /// With an eps that moments so small count beside, nothing is done.
  explicit FlushDenormals(double eps) : before_(_mm_getcsr()) {
    constexpr double kTellingEps = 1e-15;  // roots of denormals are below 1.1e-19
    if (eps < kTellingEps) return;
    _mm_setcsr(before_ | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON);
  }
  ~FlushDenormals() { _mm_setcsr(before_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  unsigned before_;
};

constexpr bool uses_state(uint32_t states, int k) { return (states >> k & 1) != 0; }

/// A tensor whose elements are updated by T, stored as S.
template <class Rule, class S, class T>
struct OptimArrays {
  static constexpr bool kMaster = !__is_same(S, T);
  static constexpr uint32_t kStates = Rule::kStates;
  S* __restrict param;
  const S* __restrict grad;
  T* __restrict s0;
  T* __restrict s1;
  T* __restrict s2;
  T* __restrict master;

  WICK_INLINE explicit OptimArrays(const OptimTensor& tensor)
      : param(tensor.param.as<S>()),
        grad(tensor.grad.as<S>()),
        s0(tensor.state[0].as<T>()),
        s1(tensor.state[1].as<T>()),
        s2(tensor.state[2].as<T>()),
        master(tensor.master.as<T>()) {}

  WICK_INLINE T weight(int64_t i) const {
    if constexpr (kMaster) return master_of(master[i], param[i]);
    return static_cast<T>(param[i]);
  }
  WICK_INLINE void load_states(int64_t i, T& a, T& b, T& c) const {
    if constexpr (uses_state(kStates, 0)) a = s0[i];
    if constexpr (uses_state(kStates, 1)) b = s1[i];
    if constexpr (uses_state(kStates, 2)) c = s2[i];
  }
  template <uint32_t kWritten>
  WICK_INLINE void store_states(int64_t i, T a, T b, T c) const {
    if constexpr (uses_state(kWritten, 0)) s0[i] = a;
    if constexpr (uses_state(kWritten, 1)) s1[i] = b;
    if constexpr (uses_state(kWritten, 2)) s2[i] = c;
  }
};

/// The bits of an element without its sign: those of infinity and NaN are the largest.
WICK_INLINE uint32_t magnitude_bits(float x) {
  return __builtin_bit_cast(uint32_t, x) & 0x7fffffff;
}
WICK_INLINE uint64_t magnitude_bits(double x) {
  return __builtin_bit_cast(uint64_t, x) & 0x7fffffffffffffff;
}
template <class S>
WICK_INLINE uint32_t magnitude_bits(S x) {
  return x.bits & 0x7fffu;
}
template <class S>
WICK_INLINE bool is_finite_bits(decltype(magnitude_bits(S())) bits) {
  return bits < magnitude_bits(static_cast<S>(__builtin_huge_valf()));
}

/// Returns whether all weights are finite behind it.
template <class Rule, class S, class T>
bool update_chunk(const OptimRecord<Rule, T>& made, const OptimTensor& tensor, int64_t begin,
                  int64_t end) {
  const Rule rule = made.rule;
  const OptimElement<T> element = made.element;
  const OptimArrays<Rule, S, T> x(tensor);
  decltype(magnitude_bits(S())) most = 0;
  for (int64_t i = begin; i < end; ++i) {
    T a{}, b{}, c{};
    x.load_states(i, a, b, c);
    const T w = element.update(rule, x.weight(i), static_cast<T>(x.grad[i]), a, b, c);
    if constexpr (x.kMaster) x.master[i] = w;
    const S stored = static_cast<S>(w);
    x.param[i] = stored;
    x.template store_states<written_states<Rule>()>(i, a, b, c);
    const auto bits = magnitude_bits(stored);
    most = bits > most ? bits : most;
  }
  return is_finite_bits<S>(most);
}

template <class S>
bool all_finite(const View& param, int64_t begin, int64_t end) {
  const S* const x = param.as<S>();
  decltype(magnitude_bits(S())) most = 0;
  for (int64_t i = begin; i < end; ++i) {
    const auto bits = magnitude_bits(x[i]);
    most = bits > most ? bits : most;
  }
  return is_finite_bits<S>(most);
}

constexpr int64_t kUpdateChunk = 4 * kOptimChunk;

/// Notes that a weight of the step is not finite, where someone asked.
WICK_INLINE void note_non_finite(const OptimStep& step) {
  if (step.non_finite != nullptr) __atomic_store_n(step.non_finite, 1, __ATOMIC_RELAXED);
}

/// What a skipped step does: says in `step` whether a weight is not finite.
template <class S>
void check_weights(const OptimTensor* tensors, int64_t count, const OptimStep& step) {
  if (step.non_finite == nullptr) return;
  const auto numel = [&](int64_t i) { return tensors[i].param.numel(); };
  for_each_chunk(count, kUpdateChunk, numel, [&](int64_t, int64_t i, int64_t begin, int64_t end) {
    if (!all_finite<S>(tensors[i].param, begin, end)) note_non_finite(step);
  });
}

/// sums: the two of the chunk.
template <class Rule, class S, class T>
void measure_chunk(const OptimRecord<Rule, T>& made, const OptimTensor& tensor, int64_t begin,
                   int64_t end, double* sums) {
  const Rule rule = made.rule;
  const T factor = made.element.factor;
  const OptimArrays<Rule, S, T> x(tensor);
  constexpr int kSums = 16;
  alignas(64) double first[kSums] = {}, second[kSums] = {};
  const auto add = [&](int64_t i, int j) {
    T a{}, b{}, c{};
    double one = 0, two = 0;
    x.load_states(i, a, b, c);
    rule.measure(x.weight(i), factor * static_cast<T>(x.grad[i]), a, b, c, one, two);
    x.template store_states<measured_states<Rule>()>(i, a, b, c);
    first[j] += one;
    second[j] += two;
  };
  int64_t i = begin;
  for (; i + kSums <= end; i += kSums) {
    for (int j = 0; j < kSums; ++j) add(i + j, j);
  }
  for (int j = 0; i < end; ++i, ++j) add(i, j);
  sums[0] = sums[1] = 0;
  for (int j = 0; j < kSums; ++j) {
    sums[0] += first[j];
    sums[1] += second[j];
  }
}

template <class Rule, class S, class T, class Args>
void update_typed(const OptimTensor* tensors, int64_t count, const Args& args,
                  const OptimStep& step) {
  using Record = OptimRecord<Rule, T>;
  static_assert(sizeof(Record) <= kOptimRecordBytes);
  double eps = 1;  // of a rule without one
  if constexpr (requires { args.eps; }) eps = args.eps;
  const auto numel = [&](int64_t i) { return tensors[i].param.numel(); };
  const auto record = [&](int64_t i) -> Record& {
    return *reinterpret_cast<Record*>(static_cast<char*>(step.scratch) + i * kOptimRecordBytes);
  };
  begin_step(step);
  for (int64_t i = 0; i < count; ++i) make_record(record(i), tensors[i].numbers, args, step);
  if (record(0).skip) return check_weights<S>(tensors, count, step);
  if constexpr (kMeasures<Rule>) {
    double* sums =
        reinterpret_cast<double*>(static_cast<char*>(step.scratch) + count * kOptimRecordBytes);
    for_each_chunk(count, kUpdateChunk, numel,
                   [&](int64_t c, int64_t i, int64_t begin, int64_t end) {
                     const FlushDenormals flush(eps);
                     measure_chunk<Rule, S, T>(record(i), tensors[i], begin, end, sums + 2 * c);
                   });
    for (int64_t i = 0; i < count; ++i) {
      double first = 0, second = 0;
      for (int64_t done = 0; done < numel(i); done += kUpdateChunk, sums += 2) {
        first += sums[0];
        second += sums[1];
      }
      record(i).rule.settle(first, second, tensors[i].numbers[1]);
    }
  }
  for_each_chunk(count, kUpdateChunk, numel, [&](int64_t, int64_t i, int64_t begin, int64_t end) {
    const FlushDenormals flush(eps);
    if (!update_chunk<Rule, S, T>(record(i), tensors[i], begin, end)) note_non_finite(step);
  });
}

template <class Args>
void optim_step(const OptimTensor* tensors, int64_t count, const Args& args,
                const OptimStep& step) {
  if (count == 0) return;
  choose(args, [&]<template <class> class Rule>(RuleOf<Rule>) {
    visit_stored(tensors[0].param.dtype, [&]<class S, class T>(StoredAs<S, T>) {
      update_typed<Rule<T>, S, T>(tensors, count, args, step);
    });
  });
}

}  // namespace wick::WICK_ISA
