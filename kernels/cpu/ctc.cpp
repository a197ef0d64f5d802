#include "wick/kernels/ctc.h"

#include <limits>

#include "wick/core/base/view.h"
#include "wick/kernels/cpu/rows.h"
#include "wick/kernels/cpu/simd_math.h"
#include "wick/kernels/ctc_sample.h"

namespace wick::WICK_ISA {

namespace {

// What to subtract so that the largest is 0; -infinity less that is -infinity, not NaN.
template <class T>
WICK_INLINE Vec<T> finite(Vec<T> most) {
  return max_or_second(most, Vec<T>(std::numeric_limits<T>::lowest()));
}

// log(exp(a) + exp(b)), and of three. The order of the arguments of max and min lets NaN through.
template <class T>
WICK_INLINE Vec<T> add_logs(Vec<T> a, Vec<T> b) {
  const Vec<T> most = max_or_second(a, b), less = min_or_second(b, a);
  return most + log(Vec<T>(1) + exp(less - finite(most)));
}
template <class T>
WICK_INLINE Vec<T> add_logs(Vec<T> a, Vec<T> b, Vec<T> c) {
  const Vec<T> ab = max_or_second(a, b), most = max_or_second(ab, c);
  const Vec<T> first = min_or_second(b, a), second = min_or_second(c, ab), shift = finite(most);
  return most + log(Vec<T>(1) + (exp(first - shift) + exp(second - shift)));
}

// The states of a step: all blanks, of which there is one more, and then all labels.
template <class T>
struct CtcRow {
  T *blanks, *labels;

  WICK_INLINE CtcRow(T* row, int64_t count) : blanks(row), labels(row + count + 1) {}
};

// Log-probabilities of a sample's labels.
template <class T>
WICK_INLINE void gather(const T* x, const int64_t* labels, int64_t count, T* to) {
  for (int64_t k = 0; k < count; ++k) to[k] = x[labels[k]];
}

// Each label is taken with the blank after it. skips[k]: 0 if a path may go from label k - 1 to
// label k without the blank between, else -infinity.
template <class T>
T forward_sample(const CtcSample<T>& s) {
  using V = Vec<T>;
  const int64_t count = s.states / 2;
  T* const skips = s.alphas - 2 * s.width;
  for (int64_t k = 0; k <= count; ++k) {
    skips[k] = k > 0 && k < count && s.labels[k] != s.labels[k - 1] ? T{0} : s.none();
  }
  // Before the first step all paths are in the first blank.
  CtcRow<T> before(s.alphas - s.width, count);
  for (int64_t state = 0; state < s.states; ++state) before.blanks[state] = s.none();
  before.blanks[0] = 0;
  for (int64_t t = 0; t < s.steps; ++t) {
    const T* const x = s.log_probs + t * s.row;
    const CtcRow<T> now(s.alphas + t * s.width, count);
    gather(x, s.labels, count, now.labels);
    now.blanks[0] = before.blanks[0] + x[s.blank];
    const V blank(x[s.blank]);
    for_vectors<T>(count, [&](int64_t k, int64_t n) {
      const V label = load_up_to<T>(before.labels + k, n);
      const V skip = load_up_to<T>(before.labels + k - 1, n) + load_up_to<T>(skips + k, n);
      const V labels = add_logs(label, load_up_to<T>(before.blanks + k, n), skip);
      const V blanks = add_logs(label, load_up_to<T>(before.blanks + k + 1, n));
      store_up_to(labels + load_up_to<T>(now.labels + k, n), now.labels + k, n);
      store_up_to(blanks + blank, now.blanks + k + 1, n);
    });
    before = now;
  }
  return -log_of_sum(before.blanks[count], count > 0 ? before.labels[count - 1] : s.none(),
                     s.none());
}

template <class T>
void forward(const CtcSamples<T>& samples) {
  parallel_for(samples.count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) samples.losses[n] = forward_sample(samples[n]);
  });
}

// A way through a sample from its last step to its first, with what paths have yet to take.
template <class T>
struct CtcWayBack {
  using V = Vec<T>;
  const CtcSample<T>& s;
  const int64_t count = s.states / 2;
  const T* const skips = s.alphas - 2 * s.width;
  const CtcRow<T> after;   // log of the paths from a state at the next step to the end
  const CtcRow<T> shares;  // the probability that the step is in a state
  const T nll;

  WICK_INLINE CtcWayBack(const CtcSample<T>& sample, T* scratch, T loss)
      : s(sample), after(scratch, count), shares(scratch + s.width, count), nll(loss) {
    // After the last step all paths are in the last blank. One past the last label is read too.
    for (int64_t state = 0; state <= s.states; ++state) after.blanks[state] = s.none();
    after.blanks[count] = 0;
  }

  // Takes what each class has of step `t` from `to`; the step after was the one before.
  WICK_INLINE void take_step(int64_t t, T g, T* to) const {
    const T* const x = s.log_probs + t * s.row;
    const CtcRow<T> alphas(s.alphas + t * s.width, count);
    gather(x, s.labels, count, shares.labels);
    const V blank(x[s.blank]);
    for_vectors<T>(count, [&](int64_t k, int64_t n) {
      const V label = load_up_to<T>(after.labels + k, n);
      const V skip = load_up_to<T>(after.labels + k + 1, n) + load_up_to<T>(skips + k + 1, n);
      const V labels = add_logs(label, load_up_to<T>(after.blanks + k + 1, n), skip);
      const V blanks = add_logs(label, load_up_to<T>(after.blanks + k, n));
      store_up_to(labels + load_up_to<T>(shares.labels + k, n), after.labels + k, n);
      store_up_to(blanks + blank, after.blanks + k, n);
      store_share(labels, alphas.labels + k, shares.labels + k, n);
      store_share(blanks, alphas.blanks + k, shares.blanks + k, n);
    });
    T& last = after.blanks[count];
    store_share(V(last), alphas.blanks + count, shares.blanks + count, 1);
    last += x[s.blank];
    for (int64_t k = 0; k < count; ++k) to[s.labels[k]] -= shares.labels[k] * g;
    const double blanks = sum_row<T>(
        count + 1, [&](int64_t k, int64_t n) { return load_up_to<T>(shares.blanks + k, n); });
    to[s.blank] -= static_cast<T>(blanks) * g;
  }
  WICK_INLINE void store_share(V betas, const T* alphas, T* to, int64_t n) const {
    store_up_to(exp(load_up_to<T>(alphas, n) + betas + V(nll)), to, n);
  }
};

template <class T>
void backward(const CtcSamples<T>& samples, const T* dloss, T* all_betas, T* dx,
              bool zero_infinity) {
  const int64_t row = samples.count * samples.classes;
  parallel_for(samples.count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const CtcSample<T> s = samples[n];
      const T nll = samples.losses[n], g = dloss[n];
      const bool no_path = nll == -s.none();
      const int64_t used = no_path && zero_infinity ? 0 : s.steps;
      const CtcWayBack<T> back(s, all_betas + (s.alphas - samples.alphas) - 2 * s.width, nll);
      for (int64_t t = samples.steps - 1; t >= 0; --t) {
        T* const to = dx + t * row + n * samples.classes;
        const T* const x = s.log_probs + t * row;
        for_vectors<T>(samples.classes, [&](int64_t c, int64_t lanes) {
          // nll - nll: NaN where there is no path, else 0.
          const Vec<T> y = (exp(load_up_to<T>(x + c, lanes)) + Vec<T>(nll - nll)) * Vec<T>(g);
          store_up_to(t < used ? y : Vec<T>(0), to + c, lanes);
        });
        if (t < used && !no_path) back.take_step(t, g, to);
      }
    }
  });
}

}  // namespace

void ctc_forward(const CtcPaths& paths) {
  if (paths.log_probs.dtype == Dtype::kFloat64) return forward(CtcSamples<double>(paths));
  forward(CtcSamples<float>(paths));
}

void ctc_backward(const CtcPaths& paths, const View& dloss, const View& betas, const View& dx,
                  bool zero_infinity) {
  const auto run = [&]<class T>(const CtcSamples<T>& samples) {
    backward(samples, dloss.as<const T>(), betas.as<T>(), dx.as<T>(), zero_infinity);
  };
  if (paths.log_probs.dtype == Dtype::kFloat64) return run(CtcSamples<double>(paths));
  run(CtcSamples<float>(paths));
}

}  // namespace wick::WICK_ISA
