#include "wick/kernels/cuda/channel_norm.h"
#include "wick/kernels/cuda/common/block_reduce.h"

namespace wick::cuda {

namespace {

// Leaves the sums of each channel of each image in one piece.
struct KeepSums {
  double* totals;  // [images, 2, channels]
  int64_t channels;

  __device__ void operator()(int64_t image, int64_t channel, double first, double second) const {
    double* const p = totals + image * 2 * channels + channel;
    p[0] = first;
    p[channels] = second;
  }
};

template <class L>
struct Groups {
  ChannelLayout layout;
  int64_t groups, per_group;  // per_group: channels
  double* totals;
  const L *weight, *bias;
  double *mean, *invstd;
  L* coefficients;
  double eps;

  Groups(const ChannelNorm& n, const ChannelLayout& channel_layout, double* sums, L* k)
      : layout(channel_layout),
        groups(n.groups),
        per_group(channel_layout.channels / n.groups),
        totals(sums),
        weight(n.weight.as<L>()),
        bias(n.bias.as<L>()),
        mean(n.mean.as<double>()),
        invstd(n.invstd.as<double>()),
        coefficients(k),
        eps(n.eps) {}

  __device__ double weight_of(int64_t channel) const {
    return weight == nullptr ? 1 : static_cast<double>(weight[channel]);
  }
  __device__ double samples() const { return static_cast<double>(layout.outer * layout.inner); }
};

// A block per group of an image: joins the moments of its channels.
template <class L, class T>
__global__ void group_norm_finish_kernel(Groups<L> g, const T* x) {
  const int64_t image = blockIdx.x / g.groups, channels = g.layout.channels;
  const int64_t begin = blockIdx.x % g.groups * g.per_group + threadIdx.x;
  const int64_t end = (blockIdx.x % g.groups + 1) * g.per_group;
  double* const totals = g.totals + image * 2 * channels;
  const double samples = g.samples(), channels_here = static_cast<double>(g.per_group);
  double sum = 0;
  for (int64_t c = begin; c < end; c += blockDim.x) {
    const double origin = static_cast<double>(convert<L>(x[g.layout.first(image, c)]));
    const MeanAndDeviations found(samples, origin, totals[c], totals[channels + c]);
    totals[c] = found.mean;
    totals[channels + c] = found.m2;
    sum += found.mean;
  }
  const double mean = block_sum(sum) / channels_here;
  double squares = 0;
  for (int64_t c = begin; c < end; c += blockDim.x) {
    const double d = totals[c] - mean;
    squares += totals[channels + c] + samples * d * d;
  }
  const double variance = block_sum(squares) / (samples * channels_here);
  const double invstd = 1 / sqrt(variance + g.eps);
  if (threadIdx.x == 0) {
    g.mean[blockIdx.x] = mean;
    g.invstd[blockIdx.x] = invstd;
  }
  const L center = static_cast<L>(mean);
  for (int64_t c = begin; c < end; c += blockDim.x) {
    const double scale = g.weight_of(c) * invstd;
    const double shift = g.bias == nullptr ? 0 : static_cast<double>(g.bias[c]);
    L* const k = g.coefficients + image * 4 * channels + c;
    k[0] = center;
    k[channels] = static_cast<L>(scale);
    k[2 * channels] = static_cast<L>(shift - (mean - static_cast<double>(center)) * scale);
  }
}

// A block per group of an image: turns the second sums into those of g * normalised x, and finds
// the coefficients of dx.
template <class L>
__global__ void group_norm_backward_finish_kernel(Groups<L> g) {
  const int64_t image = blockIdx.x / g.groups, channels = g.layout.channels;
  const int64_t begin = blockIdx.x % g.groups * g.per_group + threadIdx.x;
  const int64_t end = (blockIdx.x % g.groups + 1) * g.per_group;
  double* const totals = g.totals + image * 2 * channels;
  const double mean = g.mean[blockIdx.x], invstd = g.invstd[blockIdx.x];
  const L center = static_cast<L>(mean);
  const double low = mean - static_cast<double>(center);
  double sum = 0, dot = 0;
  for (int64_t c = begin; c < end; c += blockDim.x) {
    const double normalised = (totals[channels + c] - low * totals[c]) * invstd;
    totals[channels + c] = normalised;
    sum += g.weight_of(c) * totals[c];
    dot += g.weight_of(c) * normalised;
  }
  sum = block_sum(sum);
  dot = block_sum(dot);
  const double inverse = 1 / (static_cast<double>(g.per_group) * g.samples());
  const double slope = -invstd * invstd * dot * inverse;
  for (int64_t c = begin; c < end; c += blockDim.x) {
    L* const k = g.coefficients + image * 4 * channels + c;
    k[0] = center;
    k[channels] = static_cast<L>(g.weight_of(c) * invstd);
    k[2 * channels] = static_cast<L>(slope);
    k[3 * channels] = static_cast<L>(-invstd * sum * inverse - slope * low);
  }
}

// The gradients of the parameters, from the sums over all images.
template <class L>
struct KeepGradients {
  L *dweight, *dbias;

  __device__ void operator()(int64_t, int64_t channel, double sum, double dot) const {
    if (dweight != nullptr) dweight[channel] = static_cast<L>(dot);
    if (dbias != nullptr) dbias[channel] = static_cast<L>(sum);
  }
};

ChannelLayout layout_of(const ChannelNorm& n) {
  const int64_t images = n.x.shape[0], channels = n.x.shape[1];
  const int64_t positions = n.x.numel() / (images * channels);
  if (group_norm_by_position(n.x)) return {images, positions, channels, 1};
  return {images, 1, channels, positions};
}

// The sums of every image and channel.
double* totals_of(const char* name, const ChannelNorm& n, const ChannelLayout& layout,
                  const ChannelSums& sums) {
  if (sums.chunks == 1) return sums.data;
  double* const totals = scratch_of<double>(n, layout.images * 2 * layout.channels);
  channel_join(name, n.x.device, sums, layout.images, layout.channels,
               KeepSums{totals, layout.channels});
  return totals;
}

Grid grid_of_groups(const ChannelNorm& n, const ChannelLayout& layout) {
  Grid grid = grid_of_rows(layout.images * n.groups, layout.channels / n.groups);
  grid.blocks = dim3(static_cast<unsigned>(layout.images * n.groups));
  return grid;
}

}  // namespace

void group_norm_forward(const ChannelNorm& n) {
  constexpr const char* kName = "group_norm";
  const ChannelLayout layout = layout_of(n);
  double* const totals = totals_of(kName, n, layout, channel_moments(kName, n, layout));
  visit_floating(n.x.dtype, [&]<class T>(Type<T>) {
    using L = Accumulator<T>;
    L* const k = scratch_of<L>(n, layout.images * 4 * layout.channels);
    launch(kName, n.x.device, grid_of_groups(n, layout), group_norm_finish_kernel<L, T>,
           Groups<L>(n, layout, totals, k), n.x.as<T>());
    channel_forward(kName, n, layout, k);
  });
}

void group_norm_backward(const ChannelNorm& n) {
  constexpr const char* kName = "group_norm_backward";
  const ChannelLayout layout = layout_of(n);
  double* const totals = totals_of(kName, n, layout, channel_dots(kName, n, layout, n.groups));
  const auto run = [&]<class L>(Type<L>) {
    L* const k = scratch_of<L>(n, layout.images * 4 * layout.channels);
    launch(kName, n.x.device, grid_of_groups(n, layout), group_norm_backward_finish_kernel<L>,
           Groups<L>(n, layout, totals, k));
    if (n.dx.defined()) channel_backward(kName, n, layout, k);
    if (!n.dweight.defined() && !n.dbias.defined()) return;
    channel_join(kName, n.x.device, {totals, layout.images}, 1, layout.channels,
                 KeepGradients<L>{n.dweight.as<L>(), n.dbias.as<L>()});
  };
  if (n.x.dtype == kFloat64) return run(Type<double>{});
  run(Type<float>{});
}

}  // namespace wick::cuda
