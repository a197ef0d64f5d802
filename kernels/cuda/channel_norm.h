#pragma once

#include "wick/kernels/cuda/common/convert.h"
#include "wick/kernels/cuda/common/launch.h"
#include "wick/kernels/cuda/common/vector_access.h"
#include "wick/kernels/norm.h"

// What batch and group norm share: sums per channel over all of x, joined into coefficients, with
// which a second pass computes every element. Private to this folder.
namespace wick::cuda {

/// Threads work on units of neighbouring elements of a row: a byte of a ReLU's mask each.
inline constexpr int kUnit = 8;
inline constexpr int kUnitThreads = 256;

/// How rows are dealt out to blocks: each has `columns` units of up to `rows / chunks` rows of one
/// image, which its `lanes` lines of threads take in turn.
struct UnitTiling {
  int64_t rows, row_size, units, tiles, chunks, images;
  int columns, lanes;

  /// Threads take from `least` to `most` rows, as few as fill the GPU.
  UnitTiling(Device device, int64_t image_count, int64_t row_count, int64_t size, int64_t least,
             int64_t most)
      : rows(row_count), row_size(size), images(image_count) {
    units = (row_size + kUnit - 1) / kUnit;
    tiles = (units + kWarp - 1) / kWarp;
    columns = static_cast<int>((units + tiles - 1) / tiles);
    lanes = kUnitThreads / columns;
    const auto chunks_of = [&](int64_t per_thread) {
      return std::max<int64_t>(1, (rows + per_thread * lanes - 1) / (per_thread * lanes));
    };
    chunks =
        std::clamp(blocks_to_fill(device, 8) / (tiles * images), chunks_of(most), chunks_of(least));
  }
  Grid grid() const {
    return {dim3(static_cast<unsigned>(images * tiles * chunks)), dim3(kUnitThreads)};
  }
};

/// A thread's part of a UnitTiling: unit `unit` of the rows begin, begin + lanes, ... below end,
/// counted over all images.
struct UnitSlice {
  int64_t image, tile, chunk, unit, begin, end;
  int column, count;  // elements of the unit; none where the thread has nothing to do

  __device__ explicit UnitSlice(const UnitTiling& tiling) {
    const int thread = static_cast<int>(threadIdx.x), lane = thread / tiling.columns;
    tile = blockIdx.x % tiling.tiles;
    chunk = blockIdx.x / tiling.tiles % tiling.chunks;
    image = blockIdx.x / tiling.tiles / tiling.chunks;
    column = thread % tiling.columns;
    unit = tile * tiling.columns + column;
    begin = image * tiling.rows + tiling.rows * chunk / tiling.chunks + lane;
    end = image * tiling.rows + tiling.rows * (chunk + 1) / tiling.chunks;
    const int64_t left = tiling.row_size - unit * kUnit;
    count = lane >= tiling.lanes || left < 0 ? 0 : static_cast<int>(left < kUnit ? left : kUnit);
  }
  /// `row + ahead`, or `row` where that is no longer of this slice: may be loaded without a branch.
  __device__ int64_t nearest(int64_t row, int ahead) const {
    return row + ahead < end ? row + ahead : row;
  }
};

/// Whether rows of `row_size` elements can be moved 16 bytes at a time from all of `views`.
inline bool rows_can_be_packed(int64_t row_size, std::initializer_list<const View*> views) {
  if (row_size % kUnit != 0) return false;
  for (const View* view : views) {
    if (!is_aligned(view->as<char>(), 16)) return false;
  }
  return true;
}

template <class T, bool kPacked>
__device__ Pack<T, kUnit> load_unit(const T* p, int count) {
  if constexpr (kPacked) {
    return load_pack<kUnit>(p);
  } else {
    Pack<T, kUnit> unit;
    WICK_UNROLL
    for (int j = 0; j < kUnit; ++j) unit[j] = j < count ? p[j] : convert<T>(0.0f);
    return unit;
  }
}
template <class T, bool kPacked>
__device__ void store_unit(T* p, const Pack<T, kUnit>& unit, int count) {
  if constexpr (kPacked) {
    store_pack(p, unit);
  } else {
    WICK_UNROLL
    for (int j = 0; j < kUnit; ++j) {
      if (j < count) p[j] = unit[j];
    }
  }
}

/// Two sums per channel, in pieces: [images, chunks, 2, channels].
struct ChannelSums {
  double* data = nullptr;
  int64_t chunks = 0;
};

/// Of x: the sums of d and of d * d, where d is the distance of each element from the channel's
/// first of the image. `name` is for errors.
ChannelSums channel_moments(const char* name, const ChannelNorm& n, const ChannelLayout& layout);
/// The sums of g and of g * (x - center), where g is dy as far as the ReLU let pass, and the center
/// that of the channel's group.
ChannelSums channel_dots(const char* name, const ChannelNorm& n, const ChannelLayout& layout);

/// Mean and squared deviations of `count` elements from their channel_moments.
struct MeanAndDeviations {
  double mean, m2;
  __device__ MeanAndDeviations(double count, double origin, double sum, double squares) {
    mean = origin + sum / count;
    m2 = squares - sum * sum / count;
    if (m2 < 0) m2 = 0;
  }
};

/// `coefficients`: [images, 4, channels], the parts of ForwardCoefficients or BackwardCoefficients
/// in the accumulator's type.
void channel_forward(const char* name, const ChannelNorm& n, const ChannelLayout& layout,
                     const void* coefficients);
void channel_backward(const char* name, const ChannelNorm& n, const ChannelLayout& layout,
                      const void* coefficients);

/// `count` elements of scratch memory.
template <class T>
T* scratch_of(const ChannelNorm& n, int64_t count) {
  return static_cast<T*>(n.workspace->allocate(static_cast<size_t>(count) * sizeof(T)));
}

inline constexpr int kJoinLanes = 16;

/// Adds up the chunks of each channel and calls `finish(image, channel, first sum, second sum)`.
template <class Finish>
__global__ void __launch_bounds__(kJoinLanes* kWarp)
    channel_join_kernel(ChannelSums sums, int64_t channels, Finish finish) {
  WICK_SHARED(double, parts, 2 * kJoinLanes * kWarp);
  const int lane = static_cast<int>(threadIdx.x) / kWarp;
  const int column = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t tiles = (channels + kWarp - 1) / kWarp, image = blockIdx.x / tiles;
  const int64_t channel = blockIdx.x % tiles * kWarp + column;
  double sum[2] = {};
  if (channel < channels) {
    constexpr int kAtOnce = 8;  // on their way together: a load takes hundreds of cycles
    for (int64_t chunk = lane; chunk < sums.chunks; chunk += kAtOnce * kJoinLanes) {
      double part[kAtOnce][2];
      WICK_UNROLL
      for (int k = 0; k < kAtOnce; ++k) {  // the last one again where there are no more: no branch
        const int64_t next = chunk + k * kJoinLanes;
        const int64_t at = next < sums.chunks ? next : sums.chunks - 1;
        const double* from = sums.data + (image * sums.chunks + at) * 2 * channels + channel;
        part[k][0] = from[0];
        part[k][1] = from[channels];
      }
      WICK_UNROLL
      for (int k = 0; k < kAtOnce; ++k) {
        const bool counts = chunk + k * kJoinLanes < sums.chunks;
        sum[0] += counts ? part[k][0] : 0;
        sum[1] += counts ? part[k][1] : 0;
      }
    }
  }
  double* const own = parts + lane * 2 * kWarp + column;
  own[0] = sum[0];
  own[kWarp] = sum[1];
  __syncthreads();
  if (lane != 0 || channel >= channels) return;
  for (int other = 1; other < kJoinLanes; ++other) {
    sum[0] += own[other * 2 * kWarp];
    sum[1] += own[other * 2 * kWarp + kWarp];
  }
  finish(image, channel, sum[0], sum[1]);
}

template <class Finish>
void channel_join(const char* name, Device device, const ChannelSums& sums, int64_t images,
                  int64_t channels, const Finish& finish) {
  const int64_t tiles = (channels + kWarp - 1) / kWarp;
  const Grid grid{dim3(static_cast<unsigned>(images * tiles)), dim3(kJoinLanes * kWarp)};
  launch(name, device, grid, channel_join_kernel<Finish>, sums, channels, finish);
}

}  // namespace wick::cuda
