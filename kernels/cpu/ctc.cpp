#include "wick/kernels/ctc.h"

#include "wick/core/base/parallel.h"
#include "wick/core/base/view.h"
#include "wick/kernels/cpu/simd.h"
#include "wick/kernels/ctc_sample.h"

namespace wick::WICK_ISA {

namespace {

template <class T>
void forward(const CtcSamples<T>& samples) {
  parallel_for(samples.count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const CtcSample<T> s = samples[n];
      for (int64_t t = 0; t < s.steps; ++t) {
        for (int64_t state = 0; state < s.states; ++state) {
          s.alphas[t * s.width + state] = s.alpha(t, state);
        }
      }
      samples.losses[n] = s.loss();
    }
  });
}

template <class T>
void backward(const CtcSamples<T>& samples, const T* dloss, T* all_betas, T* dx,
              bool zero_infinity) {
  const int64_t row = samples.count * samples.classes;
  parallel_for(samples.count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const CtcSample<T> s = samples[n];
      T* const betas = all_betas + (s.alphas - samples.alphas);
      const T nll = samples.losses[n], g = dloss[n];
      const bool no_path = nll == -s.none();
      const int64_t used = no_path && zero_infinity ? 0 : s.steps;
      for (int64_t t = samples.steps - 1; t >= 0; --t) {
        T* const to = dx + t * row + n * samples.classes;
        const T* const x = s.log_probs + t * row;
        for (int64_t c = 0; c < samples.classes; ++c) {
          // nll - nll: NaN where there is no path, else 0.
          to[c] = t < used ? (exponential(x[c]) + (nll - nll)) * g : T{0};
        }
        if (t >= used || no_path) continue;
        T* const beta = betas + t * s.width;
        for (int64_t state = 0; state < s.states; ++state) {
          beta[state] = s.beta(beta + s.width, t, state);
          const T share = exponential(s.alphas[t * s.width + state] + beta[state] + nll);
          to[s.label(state)] -= share * g;
        }
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
