#include "wick/kernels/ctc.h"

#include "wick/core/base/view.h"
#include "wick/kernels/ctc_sample.h"
#include "wick/kernels/cuda/common/block_reduce.h"
#include "wick/kernels/cuda/common/launch.h"

namespace wick::cuda {

namespace {

// A block per sample: its threads take a step together, a state each.
template <class T>
__global__ void __launch_bounds__(kRowGridThreads) ctc_forward_kernel(CtcSamples<T> samples) {
  for (int64_t n = blockIdx.x; n < samples.count; n += gridDim.x) {
    const CtcSample<T> s = samples[n];
    for (int64_t state = threadIdx.x; state < s.states; state += blockDim.x) {
      const int64_t label = s.label(state);
      WICK_DEVICE_CHECK(label >= 0 && label < samples.classes, "ctc_loss: target out of range");
    }
    for (int64_t t = 0; t < s.steps; ++t) {
      for (int64_t state = threadIdx.x; state < s.states; state += blockDim.x) {
        s.alphas[t * s.width + state] = s.alpha(t, state);
      }
      __syncthreads();
    }
    if (threadIdx.x == 0) samples.losses[n] = s.loss();
  }
}

template <class T>
__global__ void ctc_betas_kernel(CtcSamples<T> samples, T* all_betas) {
  for (int64_t n = blockIdx.x; n < samples.count; n += gridDim.x) {
    const CtcSample<T> s = samples[n];
    T* const betas = all_betas + (s.alphas - samples.alphas);
    for (int64_t t = s.steps - 1; t >= 0; --t) {
      T* const beta = betas + t * s.width;
      for (int64_t state = threadIdx.x; state < s.states; state += blockDim.x) {
        beta[state] = s.beta(beta + s.width, t, state);
      }
      __syncthreads();
    }
  }
}

// A block per sample and step. The first thread of each label adds up its places, in their order.
// The blank is no label: one thread writes to each class.
template <class T>
__global__ void ctc_gradient_kernel(CtcSamples<T> samples, const T* dloss, const T* all_betas,
                                    T* dx, bool zero_infinity) {
  for (int64_t i = blockIdx.x; i < samples.count * samples.steps; i += gridDim.x) {
    const int64_t n = i % samples.count, t = i / samples.count;
    const CtcSample<T> s = samples[n];
    const T* const alpha = s.alphas + t * s.width;
    const T* const beta = all_betas + (alpha - samples.alphas);
    const T nll = samples.losses[n], g = dloss[n];
    const bool no_path = nll == -s.none(), used = t < s.steps && !(no_path && zero_infinity);
    const T* const x = s.log_probs + t * s.row;
    T* const to = dx + i * samples.classes;
    for (int64_t c = threadIdx.x; c < samples.classes; c += blockDim.x) {
      // nll - nll: NaN where there is no path, else 0.
      to[c] = used ? (exponential(x[c]) + (nll - nll)) * g : T{0};
    }
    __syncthreads();
    if (!used || no_path) continue;
    const auto share = [&](int64_t state) { return exponential(alpha[state] + beta[state] + nll); };
    const int64_t labels = s.states / 2;
    for (int64_t k = threadIdx.x; k < labels; k += blockDim.x) {
      bool first = true;
      for (int64_t j = 0; j < k && first; ++j) first = s.labels[j] != s.labels[k];
      if (!first) continue;
      T sum = 0;
      for (int64_t j = k; j < labels; ++j) {
        if (s.labels[j] == s.labels[k]) sum += share(2 * j + 1);
      }
      to[s.labels[k]] -= sum * g;
    }
    T blanks = 0;
    for (int64_t k = threadIdx.x; k <= labels; k += blockDim.x) blanks += share(2 * k);
    blanks = block_sum(blanks);
    if (threadIdx.x == 0) to[s.blank] -= blanks * g;
  }
}

}  // namespace

void ctc_forward(const CtcPaths& paths) {
  const auto run = [&]<class T>(const CtcSamples<T>& samples) {
    launch("ctc_loss", paths.log_probs.device, grid_of_rows(samples.count, samples.width, 1),
           ctc_forward_kernel<T>, samples);
  };
  if (paths.log_probs.dtype == Dtype::kFloat64) return run(CtcSamples<double>(paths));
  run(CtcSamples<float>(paths));
}

void ctc_backward(const CtcPaths& paths, const View& dloss, const View& betas, const View& dx,
                  bool zero_infinity) {
  const Device device = paths.log_probs.device;
  const auto run = [&]<class T>(const CtcSamples<T>& samples) {
    launch("ctc_loss_betas", device, grid_of_rows(samples.count, samples.width, 1),
           ctc_betas_kernel<T>, samples, betas.as<T>());
    launch("ctc_loss_backward", device,
           grid_of_rows(samples.count * samples.steps, samples.classes, 1), ctc_gradient_kernel<T>,
           samples, dloss.as<const T>(), betas.as<const T>(), dx.as<T>(), zero_infinity);
  };
  if (paths.log_probs.dtype == Dtype::kFloat64) return run(CtcSamples<double>(paths));
  run(CtcSamples<float>(paths));
}

}  // namespace wick::cuda
