#include "wick/kernels/cuda/channel_norm.h"

namespace wick::cuda {

namespace {

// One number per channel, of any floating dtype.
struct ChannelValues {
  void* data;
  Dtype dtype;
  int64_t stride;

  explicit ChannelValues(const View& v)
      : data(v.data), dtype(v.dtype), stride(v.defined() ? v.strides[0] : 0) {}
  __device__ double get(int64_t i) const { return load_as<double>(data, dtype, i * stride); }
  __device__ void set(int64_t i, double value) const { store_as(data, dtype, i * stride, value); }
};

// From a channel's sums to its statistics and its coefficients.
template <class L>
struct FinishForward {
  ChannelValues x, running_mean, running_var;
  const L *weight, *bias;
  double *mean, *invstd;
  L* coefficients;
  ChannelLayout layout;
  double momentum, eps;
  bool training, has_statistics;

  FinishForward(const ChannelNorm& n, const ChannelLayout& channel_layout, L* k)
      : x(n.x),
        running_mean(n.running_mean),
        running_var(n.running_var),
        weight(n.weight.as<L>()),
        bias(n.bias.as<L>()),
        mean(n.mean.as<double>()),
        invstd(n.invstd.as<double>()),
        coefficients(k),
        layout(channel_layout),
        momentum(n.momentum),
        eps(n.eps),
        training(n.training),
        has_statistics(n.has_statistics) {}

  __device__ void set_statistics(int64_t i, double sum, double squares) const {
    if (!training) {
      mean[i] = running_mean.get(i);
      invstd[i] = 1 / sqrt(running_var.get(i) + eps);
      return;
    }
    const double samples = static_cast<double>(layout.outer * layout.inner);
    const double origin = load_as<double>(x.data, x.dtype, layout.first(0, i));
    const MeanAndDeviations found(samples, origin, sum, squares);
    mean[i] = found.mean;
    invstd[i] = 1 / sqrt(found.m2 / samples + eps);
    if (running_mean.data == nullptr) return;
    const double old = 1 - momentum, variance = found.m2 / (samples - 1);
    running_mean.set(i, old * running_mean.get(i) + momentum * found.mean);
    running_var.set(i, old * running_var.get(i) + momentum * variance);
  }

  __device__ void operator()(int64_t, int64_t i, double sum, double squares) const {
    if (!has_statistics) set_statistics(i, sum, squares);
    const double scale = (weight == nullptr ? 1 : static_cast<double>(weight[i])) * invstd[i];
    const L center = static_cast<L>(mean[i]);
    const double low = mean[i] - static_cast<double>(center);
    L* const k = coefficients + i;
    k[0] = center;
    k[layout.channels] = static_cast<L>(scale);
    k[2 * layout.channels] =
        static_cast<L>((bias == nullptr ? 0 : static_cast<double>(bias[i])) - low * scale);
  }
};

// From a channel's sums to the gradients of its parameters, and the coefficients of dx.
template <class L>
struct FinishBackward {
  const L* weight;
  const double *mean, *invstd;
  L *dweight, *dbias, *coefficients;
  int64_t channels;
  double inverse;  // of the samples; 0 where the statistics are constants

  __device__ void operator()(int64_t, int64_t i, double sum, double dot) const {
    const L center = static_cast<L>(mean[i]);
    const double low = mean[i] - static_cast<double>(center);
    const double slope_of_x = (dot - low * sum) * invstd[i];
    const double scale = (weight == nullptr ? 1 : static_cast<double>(weight[i])) * invstd[i];
    const double slope = -scale * invstd[i] * slope_of_x * inverse;
    L* const k = coefficients + i;
    k[0] = center;
    k[channels] = static_cast<L>(scale);
    k[2 * channels] = static_cast<L>(slope);
    k[3 * channels] = static_cast<L>(-scale * sum * inverse - slope * low);
    if (dweight != nullptr) dweight[i] = static_cast<L>(slope_of_x);
    if (dbias != nullptr) dbias[i] = static_cast<L>(sum);
  }
};

template <class T>
__global__ void relu_mask_kernel(const uint8_t* mask, int64_t stride, T* y, int64_t rows,
                                 int64_t size) {
  const int64_t units = (size + kUnit - 1) / kUnit;
  for (int64_t i = global_thread(); i < rows * units; i += global_threads()) {
    const int64_t row = i / units, unit = i % units;
    const unsigned pass = mask[row * stride + unit];
    for (int j = 0; j < kUnit; ++j) {
      const int64_t at = unit * kUnit + j;
      if (at < size) y[row * size + at] = convert<T>((pass >> j & 1u) != 0 ? 1.0f : 0.0f);
    }
  }
}

ChannelLayout layout_of(const ChannelNorm& n) {
  const AxisSplit s = channel_split(n.x);
  return {1, s.outer, s.size, s.inner};
}

}  // namespace

void batch_norm_forward(const ChannelNorm& n) {
  constexpr const char* kName = "batch_norm";
  const ChannelLayout layout = layout_of(n);
  ChannelSums sums;
  if (n.training && !n.has_statistics) sums = channel_moments(kName, n, layout);
  const auto run = [&]<class L>(Type<L>) {
    L* const k = scratch_of<L>(n, 4 * layout.channels);
    channel_join(kName, n.x.device, sums, 1, layout.channels, FinishForward<L>(n, layout, k));
    channel_forward(kName, n, layout, k);
  };
  if (n.x.dtype == kFloat64) return run(Type<double>{});
  run(Type<float>{});
}

void batch_norm_backward(const ChannelNorm& n) {
  constexpr const char* kName = "batch_norm_backward";
  const ChannelLayout layout = layout_of(n);
  const ChannelSums sums = channel_dots(kName, n, layout, layout.channels);
  const double inverse = n.training ? 1 / static_cast<double>(layout.outer * layout.inner) : 0;
  const auto run = [&]<class L>(Type<L>) {
    L* const k = scratch_of<L>(n, 4 * layout.channels);
    channel_join(
        kName, n.x.device, sums, 1, layout.channels,
        FinishBackward<L>{n.weight.as<L>(), n.mean.as<double>(), n.invstd.as<double>(),
                          n.dweight.as<L>(), n.dbias.as<L>(), k, layout.channels, inverse});
    if (n.dx.defined()) channel_backward(kName, n, layout, k);
  };
  if (n.x.dtype == kFloat64) return run(Type<double>{});
  run(Type<float>{});
}

void relu_mask(const View& mask, const View& y) {
  const int64_t rows = mask.shape[0], size = y.numel() / rows;
  visit_floating(y.dtype, [&]<class T>(Type<T>) {
    launch("relu_mask", y.device, grid_for(y.device, rows * ((size + kUnit - 1) / kUnit)),
           relu_mask_kernel<T>, mask.as<uint8_t>(), mask.shape[1], y.as<T>(), rows, size);
  });
}

}  // namespace wick::cuda
