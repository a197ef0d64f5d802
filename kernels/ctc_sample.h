#pragma once

#include <math.h>

#include "wick/core/base/macros.h"
#include "wick/kernels/ctc.h"

// The samples for kernels of every device, and what they do with one state. T is float or double.
namespace wick {

WICK_HOST_DEVICE float exponential(float x) { return expf(x); }
WICK_HOST_DEVICE double exponential(double x) { return exp(x); }
WICK_HOST_DEVICE float logarithm(float x) { return logf(x); }
WICK_HOST_DEVICE double logarithm(double x) { return log(x); }

/// log(exp(a) + exp(b) + exp(c)); -infinity stands for a probability of 0.
template <class T>
WICK_HOST_DEVICE T log_of_sum(T a, T b, T c) {
  const T ab = a > b ? a : b, most = ab > c ? ab : c;
  if (most == -static_cast<T>(__builtin_inff())) return most;
  return most + logarithm(exponential(a - most) + exponential(b - most) + exponential(c - most));
}

template <class T>
struct CtcSample {
  const T* log_probs;
  const int64_t* labels;
  T* alphas;                   // of the first step
  int64_t steps, states, row;  // row: elements from one step to the next in log_probs
  int64_t width;               // the same in alphas
  int64_t blank;

  WICK_HOST_DEVICE static T none() { return -static_cast<T>(__builtin_inff()); }

  WICK_HOST_DEVICE int64_t label(int64_t state) const {
    return state % 2 == 1 ? labels[state / 2] : blank;
  }
  WICK_HOST_DEVICE T log_prob(int64_t t, int64_t state) const {
    return log_probs[t * row + label(state)];
  }
  /// Whether a path may go from the label before to this one without the blank between.
  WICK_HOST_DEVICE bool skips_to(int64_t state) const {
    return state % 2 == 1 && state > 1 && label(state) != label(state - 2);
  }
  /// What all paths that are in `state` after step `t` have taken until then.
  WICK_HOST_DEVICE T alpha(int64_t t, int64_t state) const {
    if (t == 0) return state < 2 ? log_prob(0, state) : none();
    const T* before = alphas + (t - 1) * width;
    const T sum = log_of_sum(before[state], state > 0 ? before[state - 1] : none(),
                             skips_to(state) ? before[state - 2] : none());
    return sum + log_prob(t, state);
  }
  /// What they have yet to take, `after` being that of the step after.
  WICK_HOST_DEVICE T beta(const T* after, int64_t t, int64_t state) const {
    if (t == steps - 1) return state + 2 >= states ? T{0} : none();
    const bool one = state + 1 < states, two = state + 2 < states && skips_to(state + 2);
    return log_of_sum(through(after, t + 1, state), one ? through(after, t + 1, state + 1) : none(),
                      two ? through(after, t + 1, state + 2) : none());
  }
  WICK_HOST_DEVICE T through(const T* after, int64_t t, int64_t state) const {
    return after[state] + log_prob(t, state);
  }
  /// -log of the probability of all paths, once all alphas are known.
  WICK_HOST_DEVICE T loss() const {
    if (steps == 0) return states == 1 ? T{0} : -none();
    const T* last = alphas + (steps - 1) * width;
    return -log_of_sum(last[states - 1], states > 1 ? last[states - 2] : none(), none());
  }
};

/// All samples.
template <class T>
struct CtcSamples {
  const T* log_probs;
  const int64_t *targets, *lengths;
  T *losses, *alphas, *first_steps;  // the last: the alphas of the first sample's first step
  int64_t steps, count, classes, width, blank;
  int64_t sample_alphas;  // elements from one sample to the next in alphas

  WICK_INLINE explicit CtcSamples(const CtcPaths& p)
      : log_probs(p.log_probs.as<const T>()),
        targets(p.targets.as<const int64_t>()),
        lengths(p.lengths.as<const int64_t>()),
        losses(p.losses.as<T>()),
        alphas(p.alphas.as<T>()),
        first_steps(alphas + 2 * p.alphas.shape[2]),
        steps(p.log_probs.shape[0]),
        count(p.log_probs.shape[1]),
        classes(p.log_probs.shape[2]),
        width(p.alphas.shape[2]),
        blank(p.blank),
        sample_alphas((steps + 2) * width) {}

  WICK_HOST_DEVICE CtcSample<T> operator[](int64_t n) const {
    return {log_probs + n * classes,
            targets + lengths[2 * count + n],
            first_steps + n * sample_alphas,
            lengths[n],
            2 * lengths[count + n] + 1,
            count * classes,
            width,
            blank};
  }
};

}  // namespace wick
