#include "wick/kernels/cuda/channel_norm.h"

#include "wick/kernels/cuda/common/block_reduce.h"

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

// What turns the sums of channels into statistics and coefficients.
template <class L>
struct Finish {
  ChannelLayout layout;
  ChannelValues x, running_mean, running_var;
  const L *weight, *bias;
  double *mean, *invstd;
  L *dweight, *dbias, *coefficients;
  double* totals = nullptr;  // [images, 2, channels]
  double momentum, eps;
  bool training, has_statistics;

  Finish(const ChannelNorm& n, const ChannelLayout& channel_layout, L* k)
      : layout(channel_layout),
        x(n.x),
        running_mean(n.running_mean),
        running_var(n.running_var),
        weight(n.weight.as<L>()),
        bias(n.bias.as<L>()),
        mean(n.mean.as<double>()),
        invstd(n.invstd.as<double>()),
        dweight(n.dweight.as<L>()),
        dbias(n.dbias.as<L>()),
        coefficients(k),
        momentum(n.momentum),
        eps(n.eps),
        training(n.training),
        has_statistics(n.has_statistics) {}

  __device__ double weight_of(int64_t channel) const {
    return weight == nullptr ? 1 : static_cast<double>(weight[channel]);
  }
  __device__ double samples() const { return static_cast<double>(layout.samples()); }
  // 1 / the elements of a group; 0 where the statistics are constants.
  __device__ double inverse() const {
    return training ? 1 / (static_cast<double>(layout.per_group()) * samples()) : 0;
  }
  __device__ MeanAndDeviations moments(int64_t image, int64_t channel, double sum,
                                       double squares) const {
    const double origin = load_as<double>(x.data, x.dtype, layout.first(image, channel));
    return MeanAndDeviations(samples(), origin, sum, squares);
  }
  // This and the one `layout.channels` further on are a channel's sums.
  __device__ double* totals_of(int64_t image, int64_t channel) const {
    return totals + image * 2 * layout.channels + channel;
  }
  __device__ L* coefficients_of(int64_t image, int64_t channel) const {
    return coefficients + image * 4 * layout.channels + channel;
  }
  __device__ void set_totals(int64_t image, int64_t channel, double first, double second) const {
    double* const total = totals_of(image, channel);
    total[0] = first;
    total[layout.channels] = second;
  }
  // `m`, `scale`: mean and invstd of the channel's group.
  __device__ void set_forward(int64_t image, int64_t channel, double m, double scale) const {
    const double shift = bias == nullptr ? 0 : static_cast<double>(bias[channel]);
    const ForwardCoefficients<L> found(m, scale, weight_of(channel), shift);
    L* const k = coefficients_of(image, channel);
    k[0] = found.center;
    k[layout.channels] = found.a;
    k[2 * layout.channels] = found.b;
  }
  // `sum` and `dot`: of the group, as BackwardCoefficients takes them.
  __device__ void set_backward(int64_t image, int64_t channel, double sum, double dot) const {
    const int64_t g = layout.group(image, channel);
    const BackwardCoefficients<L> found(mean[g], invstd[g], weight_of(channel), sum, dot,
                                        inverse());
    L* const k = coefficients_of(image, channel);
    k[0] = found.center;
    k[layout.channels] = found.a;
    k[2 * layout.channels] = found.b;
    k[3 * layout.channels] = found.c;
  }
  __device__ void set_gradients(int64_t channel, double sum, double dot) const {
    if (dweight != nullptr) dweight[channel] = static_cast<L>(dot);
    if (dbias != nullptr) dbias[channel] = static_cast<L>(sum);
  }
};

// Each of these is called once per channel, with its sums. The first two are for groups of one
// channel, which need no other kernel.
template <class L>
struct FinishChannel {
  Finish<L> f;

  __device__ void operator()(int64_t image, int64_t channel, double sum, double squares) const {
    const int64_t g = f.layout.group(image, channel);
    if (!f.has_statistics) set_statistics(g, f.moments(image, channel, sum, squares));
    f.set_forward(image, channel, f.mean[g], f.invstd[g]);
  }
  __device__ void set_statistics(int64_t g, const MeanAndDeviations& found) const {
    if (!f.training) {
      f.mean[g] = f.running_mean.get(g);
      f.invstd[g] = 1 / sqrt(f.running_var.get(g) + f.eps);
      return;
    }
    f.mean[g] = found.mean;
    f.invstd[g] = 1 / sqrt(found.m2 / f.samples() + f.eps);
    if (f.running_mean.data == nullptr) return;
    const double old = 1 - f.momentum, variance = found.m2 / (f.samples() - 1);
    f.running_mean.set(g, old * f.running_mean.get(g) + f.momentum * found.mean);
    f.running_var.set(g, old * f.running_var.get(g) + f.momentum * variance);
  }
};

template <class L>
struct FinishChannelBackward {
  Finish<L> f;

  __device__ void operator()(int64_t image, int64_t channel, double sum, double dot) const {
    const int64_t g = f.layout.group(image, channel);
    const double normalised = normalised_dot<L>(sum, dot, f.mean[g], f.invstd[g]);
    const double weight = f.weight_of(channel);
    f.set_backward(image, channel, weight * sum, weight * normalised);
    if (f.layout.images == 1) {
      f.set_gradients(channel, sum, normalised);
    } else {
      f.set_totals(image, channel, sum, normalised);
    }
  }
};

template <class L>
struct KeepTotals {
  Finish<L> f;

  __device__ void operator()(int64_t image, int64_t channel, double first, double second) const {
    f.set_totals(image, channel, first, second);
  }
};

// The gradients of the parameters, from the sums over all images.
template <class L>
struct FinishGradients {
  Finish<L> f;

  __device__ void operator()(int64_t, int64_t channel, double sum, double dot) const {
    f.set_gradients(channel, sum, dot);
  }
};

// The channels of a block's group that are this thread's.
struct GroupSlice {
  int64_t image, begin, end;

  __device__ explicit GroupSlice(const ChannelLayout& s)
      : image(blockIdx.x / s.groups),
        begin(blockIdx.x % s.groups * s.per_group() + threadIdx.x),
        end((blockIdx.x % s.groups + 1) * s.per_group()) {}
};

// A block per group of an image: joins the moments of its channels.
template <class L>
__global__ void group_norm_finish_kernel(Finish<L> f) {
  const GroupSlice slice(f.layout);
  const double samples = f.samples(), channels = static_cast<double>(f.layout.per_group());
  const int64_t second = f.layout.channels;
  double sum = 0;
  for (int64_t c = slice.begin; c < slice.end; c += blockDim.x) {
    double* const total = f.totals_of(slice.image, c);
    const MeanAndDeviations found = f.moments(slice.image, c, total[0], total[second]);
    total[0] = found.mean;
    total[second] = found.m2;
    sum += found.mean;
  }
  const double mean = block_sum(sum) / channels;
  double squares = 0;
  for (int64_t c = slice.begin; c < slice.end; c += blockDim.x) {
    const double* const total = f.totals_of(slice.image, c);
    const double d = total[0] - mean;
    squares += total[second] + samples * d * d;
  }
  const double invstd = 1 / sqrt(block_sum(squares) / (samples * channels) + f.eps);
  if (threadIdx.x == 0) {
    f.mean[blockIdx.x] = mean;
    f.invstd[blockIdx.x] = invstd;
  }
  for (int64_t c = slice.begin; c < slice.end; c += blockDim.x) {
    f.set_forward(slice.image, c, mean, invstd);
  }
}

// A block per group of an image: turns the second sums into those of g * normalised x, and finds
// the coefficients of dx.
template <class L>
__global__ void group_norm_backward_finish_kernel(Finish<L> f) {
  const GroupSlice slice(f.layout);
  const double mean = f.mean[blockIdx.x], invstd = f.invstd[blockIdx.x];
  double sum = 0, dot = 0;
  for (int64_t c = slice.begin; c < slice.end; c += blockDim.x) {
    double* const total = f.totals_of(slice.image, c);
    double& second = total[f.layout.channels];
    second = normalised_dot<L>(total[0], second, mean, invstd);
    sum += f.weight_of(c) * total[0];
    dot += f.weight_of(c) * second;
  }
  sum = block_sum(sum);
  dot = block_sum(dot);
  for (int64_t c = slice.begin; c < slice.end; c += blockDim.x) {
    f.set_backward(slice.image, c, sum, dot);
  }
}

// From the sums of channels to the elements of y, or of dx.
template <class L>
class Passes {
 public:
  Passes(const char* name, const ChannelNorm& n, const ChannelLayout& layout,
         const ChannelSums& sums)
      : name_(name),
        n_(n),
        layout_(layout),
        sums_(sums),
        by_channel_(layout.per_group() == 1),
        finish_(n, layout, scratch_of<L>(n, layout.images * 4 * layout.channels)) {
    if (!by_channel_ && sums.chunks == 1) {
      finish_.totals = sums.data;
    } else if (!by_channel_ || layout.images > 1) {
      finish_.totals = scratch_of<double>(n, layout.images * 2 * layout.channels);
    }
  }

  void forward() const {
    if (by_channel_) {
      join(FinishChannel<L>{finish_});
    } else {
      finish_groups(group_norm_finish_kernel<L>);
    }
    channel_forward(name_, n_, layout_, finish_.coefficients);
  }

  void backward() const {
    if (by_channel_) {
      join(FinishChannelBackward<L>{finish_});
    } else {
      finish_groups(group_norm_backward_finish_kernel<L>);
    }
    if (n_.dx.defined()) channel_backward(name_, n_, layout_, finish_.coefficients);
    const bool wanted = n_.dweight.defined() || n_.dbias.defined();
    if (finish_.totals == nullptr || !wanted) return;  // none are wanted, or they are set
    channel_join(name_, n_.x.device, {finish_.totals, layout_.images}, 1, layout_.channels,
                 FinishGradients<L>{finish_});
  }

 private:
  template <class Body>
  void join(const Body& body) const {
    channel_join(name_, n_.x.device, sums_, layout_.images, layout_.channels, body);
  }
  void finish_groups(void (*kernel)(Finish<L>)) const {
    if (finish_.totals != sums_.data) join(KeepTotals<L>{finish_});
    const int64_t groups = layout_.images * layout_.groups;
    Grid grid = grid_of_rows(groups, layout_.per_group());
    grid.blocks = dim3(static_cast<unsigned>(groups));
    launch(name_, n_.x.device, grid, kernel, finish_);
  }

  const char* name_;
  const ChannelNorm& n_;
  const ChannelLayout& layout_;
  const ChannelSums& sums_;
  bool by_channel_;
  Finish<L> finish_;
};

template <class Run>
void with_accumulator(Dtype dtype, const Run& run) {
  if (dtype == kFloat64) return run(Type<double>{});
  run(Type<float>{});
}

}  // namespace

void channel_norm_forward(const ChannelNorm& n) {
  const char* const name = n.groups > 0 ? "group_norm" : "batch_norm";
  const ChannelLayout layout = channel_layout(n.x, n.groups);
  ChannelSums sums;
  if (n.training && !n.has_statistics) sums = channel_moments(name, n, layout);
  with_accumulator(n.x.dtype,
                   [&]<class L>(Type<L>) { Passes<L>(name, n, layout, sums).forward(); });
}

void channel_norm_backward(const ChannelNorm& n) {
  const char* const name = n.groups > 0 ? "group_norm_backward" : "batch_norm_backward";
  const ChannelLayout layout = channel_layout(n.x, n.groups);
  const ChannelSums sums = channel_dots(name, n, layout);
  with_accumulator(n.x.dtype,
                   [&]<class L>(Type<L>) { Passes<L>(name, n, layout, sums).backward(); });
}

}  // namespace wick::cuda
