#include "wick/kernels/cuda/common/launch.h"
#include "wick/kernels/cuda/common/offsets.h"
#include "wick/kernels/cuda/common/words.h"
#include "wick/kernels/index.h"

// Writing to where indices say. Two indices may name one place, and then their order decides: so a
// thread owns the places that it writes, and takes what goes there in order.
namespace wick::cuda {

namespace {

struct Assign {
  template <class T>
  __device__ void operator()(T& to, const T& from) const {
    to = from;
  }
};
struct AddTo {
  template <class T>
  __device__ void operator()(T& to, const T& from) const {
    to = static_cast<T>(to + from);
  }
};

/// Element k of a line goes to place index[k] of n places, or nowhere if that is `skip`. Steps
/// along the axis, in elements. Lines of the range kernel are `inner` elements wide.
struct Walk {
  int64_t count, n, skip;
  int64_t y_step, index_step, x_step;
  int64_t inner;
};

constexpr int kAhead = 4;  // elements loaded before the first is used

/// A thread per line. lines: of y, index and x.
template <class T, class Update>
__global__ void update_lines_kernel(T* y, const int64_t* index, const T* x, LoopNest<3> lines,
                                    Walk walk, Update update) {
  for (int64_t line = global_thread(); line < lines.numel; line += global_threads()) {
    const Offsets<3> at(lines, line);
    for (int64_t first = 0; first < walk.count; first += kAhead) {
      int64_t to[kAhead] = {};
      T value[kAhead] = {};
      for (int j = 0; j < kAhead; ++j) {
        if (first + j >= walk.count) break;
        to[j] = index[at.offset[1] + (first + j) * walk.index_step];
        value[j] = x[at.offset[2] + (first + j) * walk.x_step];
      }
      for (int j = 0; j < kAhead; ++j) {
        if (first + j >= walk.count) break;
        WICK_DEVICE_CHECK(to[j] >= 0 && to[j] < walk.n, "index out of range");
        if (to[j] != walk.skip) update(y[at.offset[0] + to[j] * walk.y_step], value[j]);
      }
    }
  }
}

constexpr int kThreads = 256;
constexpr int kPerThread = 8;
constexpr int kTile = kThreads * kPerThread;

/// Elements of a tile that go to a range of places, in order.
struct Hits {
  int* element;  // in the tile
  int* place;    // in the range
};

/// Fills `hits` with those of elements `first` to `first` + kTile that go to [begin, end); all
/// threads get their number. They may read them until the next call.
__device__ int find_hits(const int64_t* index, const Walk& walk, int64_t first, int64_t begin,
                         int64_t end, const Hits& hits) {
  WICK_SHARED(int, warp_hits, kThreads / kWarp);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int own = warp * kWarp * kPerThread + lane;  // this thread's first element of the tile
  int64_t to[kPerThread];
  for (int j = 0; j < kPerThread; ++j) {
    const int64_t k = first + own + j * kWarp;
    to[j] = k < walk.count ? index[k * walk.index_step] : walk.n;
  }
  unsigned found[kPerThread];
  int count = 0;
  for (int j = 0; j < kPerThread; ++j) {
    const bool past = first + own + j * kWarp >= walk.count;
    WICK_DEVICE_CHECK(past || (to[j] >= 0 && to[j] < walk.n), "index out of range");
    const bool wanted = to[j] >= begin && to[j] < end && to[j] != walk.skip;
    found[j] = __ballot_sync(kAllLanes, wanted);
    count += __popc(found[j]);
  }
  if (lane == 0) warp_hits[warp] = count;
  __syncthreads();  // also: all have read the hits of the tile before
  int total = 0, slot = 0;
  for (int w = 0; w < kThreads / kWarp; ++w) {
    if (w == warp) slot = total;
    total += warp_hits[w];
  }
  for (int j = 0; j < kPerThread; ++j) {
    if ((found[j] >> lane & 1) != 0) {
      const int at = slot + __popc(found[j] & ((1u << lane) - 1));
      hits.element[at] = own + j * kWarp;
      hits.place[at] = static_cast<int>(to[j] - begin);
    }
    slot += __popc(found[j]);
  }
  __syncthreads();
  return total;
}

/// How a block of threads covers a range of places: `columns` neighbouring elements of each
/// (a power of two), and of the places each kThreads / columns-th.
struct Cover {
  int64_t ranges, range;  // ranges of how many places
  int64_t pieces;         // of `columns` elements in a line's width
  int columns;
};

/// A block per line, range of places, and piece of the width. lines: of y, index and x.
template <class T, class Update>
__global__ void __launch_bounds__(kThreads)
    update_ranges_kernel(T* y, const int64_t* index, const T* x, LoopNest<3> lines, Walk walk,
                         Cover cover, Update update) {
  WICK_SHARED(int, elements, kTile);
  WICK_SHARED(int, places, kTile);
  const int group = static_cast<int>(threadIdx.x) / cover.columns;
  const int groups = kThreads / cover.columns;
  const int64_t items = lines.numel * cover.ranges * cover.pieces;
  for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    const int64_t piece = item % cover.pieces, rest = item / cover.pieces;
    const int64_t begin = rest % cover.ranges * cover.range;
    const int64_t end = begin + cover.range < walk.n ? begin + cover.range : walk.n;
    const Offsets<3> at(lines, rest / cover.ranges);
    const int64_t column = piece * cover.columns + static_cast<int>(threadIdx.x) % cover.columns;
    for (int64_t first = 0; first < walk.count; first += kTile) {
      const int count =
          find_hits(index + at.offset[1], walk, first, begin, end, {elements, places});
      if (column >= walk.inner) continue;
      T* to = y + at.offset[0] + begin * walk.y_step + column;
      const T* from = x + at.offset[2] + first * walk.x_step + column;
      for (int h = 0; h < count; h += kAhead) {
        T value[kAhead] = {};
        bool mine[kAhead];
        for (int j = 0; j < kAhead; ++j) {
          mine[j] = h + j < count && (places[h + j] & (groups - 1)) == group;
          if (mine[j]) value[j] = from[elements[h + j] * walk.x_step];
        }
        for (int j = 0; j < kAhead; ++j) {
          if (mine[j]) update(to[places[h + j] * walk.y_step], value[j]);
        }
      }
    }
  }
}

/// `view` without its axis.
View without(View view, int axis) {
  view.shape.erase(axis);
  view.strides.erase(axis);
  return view;
}

Cover cover_of(Device device, const LoopNest<3>& lines, const Walk& walk) {
  Cover cover = {};
  cover.columns = 1;
  while (cover.columns < kThreads && cover.columns < walk.inner) cover.columns *= 2;
  const int64_t groups = kThreads / cover.columns;
  cover.pieces = (walk.inner + cover.columns - 1) / cover.columns;
  const int64_t most = (walk.n + groups - 1) / groups;
  const int64_t wanted =
      std::max<int64_t>(blocks_to_fill(device, 4) / (lines.numel * cover.pieces), 1);
  cover.range = (walk.n + std::min(wanted, most) - 1) / std::min(wanted, most);
  cover.ranges = (walk.n + cover.range - 1) / cover.range;
  return cover;
}

/// y[place index[k] on `axis`] is updated with x[k], line by line. y, index and x have one shape,
/// but for y on `axis`; the elements of lines on the axes after it are neighbours if `wide`.
template <class T, class Update>
void update_all(const char* name, View y, const View& index, const View& x, int axis, bool wide,
                int64_t skip) {
  if (index.numel() == 0) return;
  Walk walk = {index.shape[axis],   y.shape[axis],   skip, y.strides[axis],
               index.strides[axis], x.strides[axis], 1};
  y.shape = index.shape;
  View parts[] = {without(y, axis), without(index, axis), without(x, axis)};
  const View* views[] = {&parts[0], &parts[1], &parts[2]};
  T* const to = y.as<T>();
  const T* const from = x.as<const T>();
  const int64_t* const at = index.as<const int64_t>();
  const LoopNest<3> single(views, 3);
  constexpr int64_t kEnoughLines = 32768;
  if (single.numel >= kEnoughLines || walk.count <= 4 * kAhead) {
    launch(name, y.device, grid_for(y.device, single.numel), update_lines_kernel<T, Update>, to, at,
           from, single, walk, Update());
    return;
  }
  if (wide) {
    walk.inner = index.shape[axis + 1];
    for (View& part : parts) part = without(part, axis);
  }
  const LoopNest<3> lines(views, 3);
  const Cover cover = cover_of(y.device, lines, walk);
  const int64_t blocks = std::min(lines.numel * cover.ranges * cover.pieces, kMostBlocks);
  launch(name, y.device, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kThreads)},
         update_ranges_kernel<T, Update>, to, at, from, lines, walk, cover, Update());
}

/// Calls `visit(Type<T>{})` with the type that sums of `dtype` are kept in.
template <class Visit>
void visit_sums(Dtype dtype, Visit&& visit) {
  switch (dtype) {
    case Dtype::kFloat64: return visit(Type<double>{});
    case Dtype::kFloat32: return visit(Type<float>{});
    case Dtype::kInt64: return visit(Type<int64_t>{});
    case Dtype::kInt32: return visit(Type<int32_t>{});
    case Dtype::kUint8: return visit(Type<uint8_t>{});
    default: unsupported_dtype(dtype);
  }
}

}  // namespace

void index_add(const View& y, const View& index, const View& x, int64_t skip) {
  View wide = index;
  wide.shape = x.shape;
  wide.strides = {0, 1, 0};
  visit_sums(y.dtype, [&]<class T>(Type<T>) {
    update_all<T, AddTo>("index_add", y, wide, x, 1, true, skip);
  });
}

void scatter(const View& y, const View& index, const View& x, int axis) {
  visit_words(size_of(y.dtype), [&]<class T>(Type<T>) {
    if constexpr (sizeof(T) < 16) {
      update_all<T, Assign>("scatter", y, index, x, axis, false, -1);
    }
  });
}

void scatter_add(const View& y, const View& index, const View& x, int axis) {
  visit_sums(y.dtype, [&]<class T>(Type<T>) {
    update_all<T, AddTo>("scatter_add", y, index, x, axis, false, -1);
  });
}

}  // namespace wick::cuda
