#include "wick/kernels/cuda/channel_norm.h"
#include "wick/kernels/cuda/common/block_reduce.h"

// Every thread sums up to 64 elements per channel in the accumulator's type, moments about the
// first of them; from there on sums are in float64, moments about the channel's first element.
namespace wick::cuda {

namespace {

constexpr int64_t kRun = 64;

template <class T>
struct SumInputs {
  const T *x, *dy;
  const uint8_t* mask;
  int64_t mask_stride;
  const double* mean;
  int64_t groups, per_group;  // per_group: channels
};

// The sums of one channel, as a thread collects them.
template <class L, bool kDots>
struct Sum {
  L first = 0, second = 0, origin = 0;

  __device__ void add(L x, L dy) {
    const L d = x - origin;
    first += kDots ? dy : d;
    second += (kDots ? dy : d) * d;
  }
  // What `n` elements contribute, moments about `common`.
  __device__ void finish(int64_t n, double common, double* sums) const {
    const double a = static_cast<double>(first), b = static_cast<double>(second);
    sums[0] = a;
    sums[1] = b;
    if constexpr (!kDots) {
      const double count = static_cast<double>(n), d = static_cast<double>(origin) - common;
      sums[0] = a + count * d;
      sums[1] = b + 2 * d * a + count * d * d;
    }
  }
};

// One unit of a row.
template <class T, bool kDots, bool kPacked>
struct RowUnit {
  Pack<T, kUnit> x, dy;
  unsigned pass = 0xff;

  __device__ void load(const SumInputs<T>& in, int64_t row, int64_t unit, int64_t row_size,
                       int count) {
    const int64_t at = row * row_size + unit * kUnit;
    x = load_unit<T, kPacked>(in.x + at, count);
    if constexpr (kDots) {
      dy = load_unit<T, kPacked>(in.dy + at, count);
      if (in.mask != nullptr) pass = in.mask[row * in.mask_stride + unit];
    }
  }
  template <class L>
  __device__ L gradient(int j) const {
    if constexpr (kDots) return (pass >> j & 1u) != 0 ? convert<L>(dy[j]) : L{0};
    return 0;
  }
};

// Channels side by side.
template <class T, bool kDots, bool kPacked>
__global__ void __launch_bounds__(kUnitThreads)
    channel_sums_kernel(SumInputs<T> in, UnitTiling tiling, double* sums) {
  using L = Accumulator<T>;
  using Unit = RowUnit<T, kDots, kPacked>;
  constexpr int kAtOnce = sizeof(T) < 8 ? static_cast<int>(8 / sizeof(T)) : 1;
  WICK_SHARED(double, parts, kUnit*(kUnitThreads + kWarp));
  const int pitch = kUnitThreads + tiling.columns;  // so that a warp's reads are of different banks
  const UnitSlice slice(tiling);
  const int64_t channel = slice.unit * kUnit;
  double own[kUnit][2] = {};
  if (slice.count > 0 && slice.begin < slice.end) {
    Sum<L, kDots> sum[kUnit];
    WICK_UNROLL
    for (int j = 0; j < kUnit; ++j) {
      if (j >= slice.count) continue;
      if constexpr (kDots) {
        const int64_t group = slice.image * in.groups + (channel + j) / in.per_group;
        sum[j].origin = static_cast<L>(in.mean[group]);
      } else {
        sum[j].origin = convert<L>(in.x[slice.begin * tiling.row_size + channel + j]);
      }
    }
    for (int64_t row = slice.begin; row < slice.end; row += kAtOnce * tiling.lanes) {
      Unit units[kAtOnce] = {};
      WICK_UNROLL
      for (int k = 0; k < kAtOnce; ++k) {
        units[k].load(in, slice.nearest(row, k * tiling.lanes), slice.unit, tiling.row_size,
                      slice.count);
      }
      WICK_UNROLL
      for (int k = 0; k < kAtOnce; ++k) {
        if (row + k * tiling.lanes >= slice.end) continue;
        WICK_UNROLL
        for (int j = 0; j < kUnit; ++j) {
          sum[j].add(convert<L>(units[k].x[j]), units[k].template gradient<L>(j));
        }
      }
    }
    const int64_t count = (slice.end - slice.begin + tiling.lanes - 1) / tiling.lanes;
    const T* first = in.x + slice.image * tiling.rows * tiling.row_size + channel;
    WICK_UNROLL
    for (int j = 0; j < kUnit; ++j) {
      if (j < slice.count) sum[j].finish(count, static_cast<double>(convert<L>(first[j])), own[j]);
    }
  }
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t out = (slice.tile * tiling.columns + thread % tiling.columns) * kUnit +
                      thread / tiling.columns;  // the channel that this thread adds up
  for (int which = 0; which < 2; ++which) {
    WICK_UNROLL
    for (int j = 0; j < kUnit; ++j) parts[j * pitch + thread] = own[j][which];
    __syncthreads();
    if (thread < kUnit * tiling.columns && out < tiling.row_size) {
      const double* part = parts + thread / tiling.columns * pitch + thread % tiling.columns;
      double total = 0;
      for (int lane = 0; lane < tiling.lanes; ++lane) total += part[lane * tiling.columns];
      const int64_t chunk = slice.image * tiling.chunks + slice.chunk;
      sums[(chunk * 2 + which) * tiling.row_size + out] = total;
    }
    __syncthreads();
  }
}

// Runs of one channel: a block takes a chunk of the units of all of the channel's runs in an image.
template <class T, bool kDots, bool kPacked>
__global__ void channel_run_sums_kernel(SumInputs<T> in, ChannelLayout layout, int64_t chunks,
                                        double* sums) {
  using L = Accumulator<T>;
  const int64_t chunk = blockIdx.x % chunks, channel = blockIdx.x / chunks % layout.channels;
  const int64_t image = blockIdx.x / chunks / layout.channels;
  const int64_t per_run = (layout.inner + kUnit - 1) / kUnit, units = layout.outer * per_run;
  const int64_t begin = units * chunk / chunks + threadIdx.x, end = units * (chunk + 1) / chunks;
  Sum<L, kDots> sum;
  if (kDots) {
    sum.origin = static_cast<L>(in.mean[image * in.groups + channel / in.per_group]);
  }
  int64_t count = 0;
  for (int64_t i = begin; i < end; i += kUnitThreads) {
    const int64_t run = i / per_run, unit = i % per_run;
    const int64_t row = (image * layout.outer + run) * layout.channels + channel;
    const int64_t left = layout.inner - unit * kUnit;
    const int here = static_cast<int>(left < kUnit ? left : kUnit);
    RowUnit<T, kDots, kPacked> u;
    u.load(in, row, unit, layout.inner, here);
    if (!kDots && i == begin) sum.origin = convert<L>(u.x[0]);
    WICK_UNROLL
    for (int j = 0; j < kUnit; ++j) {
      if (j < here) sum.add(convert<L>(u.x[j]), u.template gradient<L>(j));
    }
    count += here;
  }
  double own[2];
  sum.finish(count, static_cast<double>(convert<L>(in.x[layout.first(image, channel)])), own);
  for (int which = 0; which < 2; ++which) {
    const double total = block_sum(own[which]);
    if (threadIdx.x != 0) continue;
    sums[((image * chunks + chunk) * 2 + which) * layout.channels + channel] = total;
  }
}

// Chunks of the runs of a channel, whose threads take up to kRun elements.
int64_t run_chunks(Device device, const ChannelLayout& layout) {
  const int64_t units = layout.outer * ((layout.inner + kUnit - 1) / kUnit);
  const auto chunks_of = [&](int64_t per_thread) {
    return (units + per_thread * kUnitThreads - 1) / (per_thread * kUnitThreads);
  };
  return std::clamp(blocks_to_fill(device, 8) / (layout.images * layout.channels),
                    chunks_of(kRun / kUnit), chunks_of(1));
}

template <class T, bool kDots, bool kPacked>
ChannelSums run(const char* name, const ChannelNorm& n, const ChannelLayout& layout,
                const SumInputs<T>& in) {
  const UnitTiling tiling(n.x.device, layout.images, layout.rows(), layout.row_size(), 4, kRun);
  ChannelSums sums;
  sums.chunks = layout.inner == 1 ? tiling.chunks : run_chunks(n.x.device, layout);
  sums.data = scratch_of<double>(n, layout.images * sums.chunks * 2 * layout.channels);
  if (layout.inner == 1) {
    launch(name, n.x.device, tiling.grid(), channel_sums_kernel<T, kDots, kPacked>, in, tiling,
           sums.data);
  } else {
    const int64_t blocks = layout.images * layout.channels * sums.chunks;
    const Grid grid{dim3(static_cast<unsigned>(blocks)), dim3(kUnitThreads)};
    launch(name, n.x.device, grid, channel_run_sums_kernel<T, kDots, kPacked>, in, layout,
           sums.chunks, sums.data);
  }
  return sums;
}

template <bool kDots>
ChannelSums channel_sums(const char* name, const ChannelNorm& n, const ChannelLayout& layout) {
  const bool packed = rows_can_be_packed(layout.row_size(), {&n.x, &n.dy});
  ChannelSums sums;
  visit_floating(n.x.dtype, [&]<class T>(Type<T>) {
    const SumInputs<T> in{n.x.as<T>(),          n.dy.as<T>(),
                          n.mask.as<uint8_t>(), n.mask.defined() ? n.mask.shape[1] : 0,
                          n.mean.as<double>(),  layout.groups,
                          layout.per_group()};
    sums = packed ? run<T, kDots, true>(name, n, layout, in)
                  : run<T, kDots, false>(name, n, layout, in);
  });
  return sums;
}

}  // namespace

ChannelSums channel_moments(const char* name, const ChannelNorm& n, const ChannelLayout& layout) {
  return channel_sums<false>(name, n, layout);
}

ChannelSums channel_dots(const char* name, const ChannelNorm& n, const ChannelLayout& layout) {
  return channel_sums<true>(name, n, layout);
}

}  // namespace wick::cuda
