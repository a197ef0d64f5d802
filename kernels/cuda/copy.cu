#include "wick/kernels/copy.h"

#include "wick/core/base/detail/launch_scope.h"
#include "wick/kernels/cuda/common/convert.h"
#include "wick/kernels/cuda/common/launch.h"
#include "wick/kernels/cuda/common/offsets.h"
#include "wick/kernels/cuda/common/words.h"
#include "wick/kernels/progression.h"

namespace wick::cuda {

namespace {

template <class From, class To>
__global__ void copy_strided_kernel(const From* x, To* y, LoopNest<2> nest) {
  for (int64_t i = global_thread(); i < nest.numel; i += global_threads()) {
    const Offsets<2> at(nest, i);
    y[at.offset[0]] = convert<To>(x[at.offset[1]]);
  }
}

/// n neighbouring elements, from 16-byte boundaries on: packs of 16 bytes of the longer ones, of
/// which a thread has two in flight, in the halves of what its block does in a turn.
template <class From, class To>
__global__ void cast_packed_kernel(const From* x, To* y, int64_t n) {
  constexpr int kSize = std::min(kPackSize<From>, kPackSize<To>);
  const auto store = [&](int64_t i, const Pack<From, kSize>& from) {
    Pack<To, kSize> to;
    WICK_UNROLL
    for (int j = 0; j < kSize; ++j) to[j] = convert<To>(from[j]);
    store_pack(y + i, to);
  };
  const int64_t half = int64_t{blockDim.x} * kSize;
  int64_t i = 2 * half * blockIdx.x + int64_t{threadIdx.x} * kSize;
  for (; i + half + kSize <= n; i += 2 * half * gridDim.x) {
    const auto first = load_pack<kSize>(x + i), second = load_pack<kSize>(x + i + half);
    store(i, first);
    store(i + half, second);
  }
  if (i + kSize <= n) {
    store(i, load_pack<kSize>(x + i));
    i += half;
  }
  for (; i < n; ++i) y[i] = convert<To>(x[i]);
}

constexpr int kTileThreads = 256, kTileEach = 4;
constexpr int kTileElements = kTileThreads * kTileEach, kTileBits = 10;  // elements, at most
static_assert(kTileElements == 1 << kTileBits);

/// A copy between layouts whose fastest axes differ, by tiles that are read along the source's and
/// written along the destination's: of its two axes, 0 is y's fastest one and 1 is x's.
struct Transposition {
  LoopNest<2> outer;  // the other axes
  int64_t sizes[2], y_strides[2], x_strides[2], tiles[2];
  int bits[2];   // a tile has 2^bits elements along each axis
  int pitch[2];  // in shared memory

  /// `fastest`: the axis of `nest` that is x's fastest, and not 0. `lanes`: threads whose words are
  /// as long as all banks of shared memory.
  Transposition(const LoopNest<2>& nest, int fastest, int lanes) : outer(nest) {
    const int axes[] = {0, fastest};
    for (int k = 0; k < 2; ++k) {
      sizes[k] = nest.sizes[axes[k]];
      y_strides[k] = nest.strides[0][axes[k]];
      x_strides[k] = nest.strides[1][axes[k]];
      outer.numel /= sizes[k];
    }
    outer.rank = 0;
    for (int axis = 1; axis < nest.rank; ++axis) {
      if (axis == fastest) continue;
      outer.sizes[outer.rank] = nest.sizes[axis];
      for (int v = 0; v < 2; ++v) outer.strides[v][outer.rank] = nest.strides[v][axis];
      ++outer.rank;
    }
    // Square, unless one side is shorter than that.
    const int shorter = sizes[0] <= sizes[1] ? 0 : 1;
    bits[shorter] = bits_of(sizes[shorter], kTileBits / 2);
    bits[1 - shorter] = bits_of(sizes[1 - shorter], kTileBits - bits[shorter]);
    for (int k = 0; k < 2; ++k) tiles[k] = (sizes[k] + (int64_t{1} << bits[k]) - 1) >> bits[k];
    // What threads side by side along either axis use is in different banks.
    pitch[shorter] = (1 << bits[1 - shorter]) + std::max(1, lanes >> bits[shorter]);
    pitch[1 - shorter] = 1;
  }
  int64_t blocks() const { return outer.numel * tiles[0] * tiles[1]; }

 private:
  static int bits_of(int64_t size, int most) {
    int bits = 0;
    while (bits < most && int64_t{1} << bits < size) ++bits;
    return bits;
  }
};

/// A block per tile.
template <class T>
__global__ void __launch_bounds__(kTileThreads)
    transpose_kernel(const T* x, T* y, Transposition t) {
  WICK_SHARED(T, tile, kTileElements + kWarp);
  const int thread = static_cast<int>(threadIdx.x), count = 1 << (t.bits[0] + t.bits[1]);
  const int64_t rest = blockIdx.x / t.tiles[0];
  const int64_t first[] = {blockIdx.x % t.tiles[0] << t.bits[0], rest % t.tiles[1] << t.bits[1]};
  const Offsets<2> at(t.outer, rest / t.tiles[1]);
  // Calls body(k, row, column, place in the tile) for this thread's elements, neighbours along
  // `axis`.
  const auto for_elements = [&](int axis, const auto& body) {
    WICK_UNROLL
    for (int k = 0; k < kTileEach; ++k) {
      const int e = thread + k * kTileThreads;
      const int along = e & ((1 << t.bits[axis]) - 1), across = e >> t.bits[axis];
      const int i = axis == 0 ? along : across, j = axis == 0 ? across : along;
      const int64_t row = first[0] + i, column = first[1] + j;
      if (e >= count || row >= t.sizes[0] || column >= t.sizes[1]) continue;
      body(k, row, column, i * t.pitch[0] + j * t.pitch[1]);
    }
  };
  T values[kTileEach] = {};
  for_elements(1, [&](int k, int64_t row, int64_t column, int) {
    values[k] = x[at.offset[1] + row * t.x_strides[0] + column * t.x_strides[1]];
  });
  for_elements(1, [&](int k, int64_t, int64_t, int place) { tile[place] = values[k]; });
  __syncthreads();
  for_elements(0, [&](int, int64_t row, int64_t column, int place) {
    y[at.offset[0] + row * t.y_strides[0] + column * t.y_strides[1]] = tile[place];
  });
}

template <class T>
__global__ void fill_kernel(T* y, T value, LoopNest<1> nest) {
  for (int64_t i = global_thread(); i < nest.numel; i += global_threads()) {
    y[Offsets<1>(nest, i).offset[0]] = value;
  }
}

/// Of n elements from a 16-byte boundary on.
template <class T>
__global__ void fill_packed_kernel(T* y, T value, int64_t n) {
  constexpr int kSize = kPackSize<T>;
  Pack<T, kSize> pack;
  WICK_UNROLL
  for (int j = 0; j < kSize; ++j) pack[j] = value;
  int64_t i = global_thread() * kSize;
  for (; i + kSize <= n; i += global_threads() * kSize) store_pack(y + i, pack);
  for (; i < n; ++i) y[i] = value;
}

template <class T>
__global__ void arange_kernel(T* y, int64_t n, Progression<T> at) {
  for (int64_t i = global_thread(); i < n; i += global_threads()) y[i] = at(i);
}

/// The axis along which x is read fastest: the first where none is better than that, and where x
/// is so small that caches do as well.
int fastest_axis_of_x(const LoopNest<2>& nest) {
  const int64_t* const strides = nest.strides[1];
  int fastest = 0;
  for (int axis = 1; axis < nest.rank; ++axis) {
    if (strides[axis] > 0 && strides[axis] < strides[fastest]) fastest = axis;
  }
  return std::max(nest.sizes[0], nest.sizes[fastest]) < kWarp ? 0 : fastest;
}

/// Whether the copy of words was done by tiles.
bool transpose(const View& x, const View& y, const LoopNest<2>& nest) {
  const int fastest = fastest_axis_of_x(nest);
  if (fastest == 0) return false;
  const int64_t size = size_of(y.dtype);
  const Transposition t(nest, fastest, size > 4 ? static_cast<int>(kWarp * 4 / size) : kWarp);
  if (t.blocks() > INT32_MAX) return false;
  const Grid grid{dim3(static_cast<unsigned>(t.blocks())), dim3(kTileThreads)};
  visit_words(size, [&]<class T>(Type<T>) {
    launch("copy", y.device, grid, transpose_kernel<T>, x.as<const T>(), y.as<T>(), t);
  });
  return true;
}

}  // namespace

void copy(const View& x, const View& y) {
  const View* views[] = {&y, &x};
  const LoopNest<2> nest(views, 2);
  if (x.dtype == y.dtype && nest.rank == 1 && nest.strides[0][0] == 1 && nest.strides[1][0] == 1) {
    const size_t bytes = static_cast<size_t>(nest.numel * size_of(y.dtype));
    const cudaStream_t stream = enter_device(y.device);
    const profile::LaunchScope scope;
    WICK_CUDA_CALL(cudaMemcpyAsync, y.data, x.data, bytes, cudaMemcpyDeviceToDevice, stream);
    return;
  }
  if (nest.numel == 0 || (x.dtype == y.dtype && transpose(x, y, nest))) return;
  const bool packed = can_be_packed(nest, views);
  visit_dtype(x.dtype, [&]<class From>(Type<From>) {
    visit_dtype(y.dtype, [&]<class To>(Type<To>) {
      // Others are rare, and would double what there is to compile.
      if constexpr (is_floating(dtype_of<From>) && is_floating(dtype_of<To>) &&
                    !__is_same(From, To)) {
        if (packed) {
          launch("copy", y.device,
                 grid_for(y.device, nest.numel, 2 * std::min(kPackSize<From>, kPackSize<To>)),
                 cast_packed_kernel<From, To>, x.as<From>(), y.as<To>(), nest.numel);
          return;
        }
      }
      launch("copy", y.device, grid_for(y.device, nest.numel), copy_strided_kernel<From, To>,
             x.as<From>(), y.as<To>(), nest);
    });
  });
}

void fill(const View& y, double real, int64_t integer) {
  const View* views[] = {&y};
  const LoopNest<1> nest(views, 1);
  visit_dtype(y.dtype, [&]<class T>(Type<T>) {
    T value;
    if constexpr (is_floating(dtype_of<T>)) {
      value = T(static_cast<typename ArithmeticOf<T>::type>(real));
    } else {
      value = static_cast<T>(integer);
    }
    if (can_be_packed(nest, views)) {
      launch("fill", y.device, grid_for(y.device, nest.numel, kPackSize<T>), fill_packed_kernel<T>,
             y.as<T>(), value, nest.numel);
      return;
    }
    launch("fill", y.device, grid_for(y.device, nest.numel), fill_kernel<T>, y.as<T>(), value,
           nest);
  });
}

void arange(const View& y, double start, double step, int64_t first, int64_t by) {
  visit_dtype(y.dtype, [&]<class T>(Type<T>) {
    launch("arange", y.device, grid_for(y.device, y.numel()), arange_kernel<T>, y.as<T>(),
           y.numel(), Progression<T>(start, step, first, by));
  });
}

}  // namespace wick::cuda
