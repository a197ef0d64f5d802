#include "wick/kernels/sort.h"

#include "wick/kernels/cuda/common/convert.h"
#include "wick/kernels/cuda/common/launch.h"
#include "wick/kernels/sort_key.h"

// Sorts tiles in shared memory by bitonic networks (Batcher: Sorting networks and their
// applications, 1968), and merges them: every thread finds the few results that are its own
// (Green, McColl, Bader: GPU merge path, 2012).
namespace wick::cuda {

namespace {

constexpr int kTile = 1024, kThreads = 256;
constexpr int kMerged = 8;  // results of a thread when merging

__device__ bool before(const SortEntry& a, const SortEntry& b) {
  return a.key < b.key || (a.key == b.key && a.index < b.index);
}
/// What comes after every element.
__device__ SortEntry nothing() { return {~uint64_t{0}, INT64_MAX}; }

/// Entries in a block's shared memory, keys and indices apart. Two that a network compares, and
/// those of neighbouring threads, lie in different banks, whatever its stride.
struct Entries {
  uint64_t* keys;
  int64_t* indices;

  __device__ static int place(int i) { return (i & 16) != 0 ? i ^ 15 : i; }
  __device__ SortEntry get(int i) const { return {keys[place(i)], indices[place(i)]}; }
  __device__ void set(int i, const SortEntry& entry) const {
    keys[place(i)] = entry.key;
    indices[place(i)] = entry.index;
  }
  /// Puts entries i and j, i < j, into ascending or descending order.
  __device__ void order(int i, int j, bool ascending) const {
    const int a = place(i), b = place(j);
    const uint64_t first = keys[a], second = keys[b];
    const bool swapped = second < first || (second == first && indices[b] < indices[a]);
    if (swapped != ascending) return;
    keys[a] = second;
    keys[b] = first;
    const int64_t moved = indices[a];
    indices[a] = indices[b];
    indices[b] = moved;
  }
};

/// Sorts each piece of `width` of the `count` entries, both powers of two. All threads of the block
/// take part, between barriers.
__device__ void sort_pieces(const Entries& entries, int count, int width) {
  for (int size = 2; size <= width; size *= 2) {
    for (int stride = size / 2; stride > 0; stride /= 2) {
      for (int t = static_cast<int>(threadIdx.x); t < count / 2; t += kThreads) {
        const int i = t / stride * 2 * stride + t % stride;
        entries.order(i, i + stride, (i % width & size) == 0);
      }
      __syncthreads();
    }
  }
}

/// Rows of up to kTile elements, several per block where they are short, or tiles of longer ones.
struct Tiles {
  int64_t rows, n, per_row;
  int width;  // a power of two
  bool descending;
};

/// A block for as many tiles as its memory holds. Writes the results, or, of tiles of longer rows,
/// entries.
template <class T>
__global__ void __launch_bounds__(kThreads)
    sort_tiles_kernel(const T* x, T* values, int64_t* indices, SortEntry* sorted, Tiles tiles) {
  WICK_SHARED(uint64_t, keys, kTile);
  WICK_SHARED(int64_t, places, kTile);
  const Entries entries{keys, places};
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t count = tiles.rows * tiles.per_row;
  const int64_t first = blockIdx.x * int64_t{kTile / tiles.width};
  // Calls body(place in `entries`, row, element) for this thread's elements.
  const auto for_elements = [&](const auto& body) {
    for (int e = thread; e < kTile; e += kThreads) {
      const int64_t tile = first + e / tiles.width, row = tile / tiles.per_row;
      const int64_t i = tile % tiles.per_row * tiles.width + e % tiles.width;
      body(e, row, i, tile < count && i < tiles.n);
    }
  };
  for_elements([&](int e, int64_t row, int64_t i, bool valid) {
    SortEntry entry = nothing();
    if (valid) entry = {sort_key(x[row * tiles.n + i], tiles.descending), i};
    entries.set(e, entry);
  });
  __syncthreads();
  sort_pieces(entries, kTile, tiles.width);
  for_elements([&](int e, int64_t row, int64_t i, bool valid) {
    if (!valid) return;
    const int64_t at = row * tiles.n + i;
    if (sorted != nullptr) {
      sorted[at] = entries.get(e);
    } else {
      const int64_t from = entries.get(e).index;
      indices[at] = from;
      values[at] = x[row * tiles.n + from];
    }
  });
}

/// Merges neighbouring sorted runs of `run` entries in rows of n.
__global__ void __launch_bounds__(kThreads)
    merge_runs_kernel(const SortEntry* from, SortEntry* to, int64_t rows, int64_t n, int64_t run) {
  const int64_t per_row = (n + kMerged - 1) / kMerged;
  for (int64_t item = global_thread(); item < rows * per_row; item += global_threads()) {
    const int64_t row = item / per_row, begin = item % per_row * kMerged;
    const int64_t pair = begin / (2 * run) * 2 * run;
    const int64_t middle = pair + run < n ? pair + run : n;
    const int64_t end = pair + 2 * run < n ? pair + 2 * run : n;
    const SortEntry *a = from + row * n + pair, *b = from + row * n + middle;
    const int64_t a_count = middle - pair, b_count = end - middle, place = begin - pair;
    // How many of the first `place` results come from a.
    int64_t low = place > b_count ? place - b_count : 0, high = place < a_count ? place : a_count;
    while (low < high) {
      const int64_t i = (low + high) / 2;
      if (before(b[place - i - 1], a[i])) {
        high = i;
      } else {
        low = i + 1;
      }
    }
    int64_t i = low, j = place - low;
    for (int64_t k = begin; k < begin + kMerged && k < end; ++k) {
      const bool take_a = j >= b_count || (i < a_count && before(a[i], b[j]));
      to[row * n + k] = take_a ? a[i++] : b[j++];
    }
  }
}

template <class T>
__global__ void write_sorted_kernel(const T* x, const SortEntry* sorted, T* values,
                                    int64_t* indices, int64_t rows, int64_t n) {
  for (int64_t i = global_thread(); i < rows * n; i += global_threads()) {
    indices[i] = sorted[i].index;
    values[i] = x[i / n * n + sorted[i].index];
  }
}

/// A block per row. Elements better than the k-th so far gather in shared memory; when it is full,
/// the k best of them stay.
template <class T>
__global__ void __launch_bounds__(kThreads)
    topk_rows_kernel(const T* x, T* values, int64_t* indices, int64_t rows, int64_t n, int k,
                     bool largest) {
  constexpr int kRound = kTile / 2;  // elements looked at before it is seen whether all fit
  WICK_SHARED(uint64_t, keys, kTile);
  WICK_SHARED(int64_t, places, kTile);
  const Entries entries{keys, places};
  WICK_SHARED(int, shared_count, 1);
  int& count = shared_count[0];
  const int thread = static_cast<int>(threadIdx.x);
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    // The first barrier also keeps the last row's entries until they were written.
    bool full = false;  // whether k elements were kept, of which the last has the key `limit`
    uint64_t limit = 0;
    if (thread == 0) count = 0;
    __syncthreads();
    for (int64_t first = 0; first < n; first += kRound) {
      for (int64_t i = first + thread; i < first + kRound && i < n; i += kThreads) {
        const uint64_t key = sort_key(x[row * n + i], largest);
        if (!full || key < limit) entries.set(atomicAdd(&count, 1), {key, i});
      }
      __syncthreads();
      const int filled = count;
      if (filled > kTile - kRound || first + kRound >= n) {
        int width = 1;
        while (width < filled) width *= 2;
        for (int e = filled + thread; e < width; e += kThreads) entries.set(e, nothing());
        __syncthreads();
        sort_pieces(entries, width, width);
        full = filled >= k;
        if (full) limit = entries.get(k - 1).key;
        if (thread == 0) count = full ? k : filled;
      }
      __syncthreads();
    }
    for (int e = thread; e < k; e += kThreads) {
      const int64_t from = entries.get(e).index;
      indices[row * k + e] = from;
      values[row * k + e] = x[row * n + from];
    }
  }
}

}  // namespace

void sort_rows(const View& x, const View& values, const View& indices, bool descending,
               Workspace& workspace) {
  const int64_t rows = x.shape[0], n = x.shape[1];
  if (rows * n == 0) return;
  Tiles tiles{rows, n, (n + kTile - 1) / kTile, 2, descending};
  while (tiles.width < kTile && tiles.width < n) tiles.width *= 2;
  const int64_t per_block = kTile / tiles.width;
  const int64_t blocks = (rows * tiles.per_row + per_block - 1) / per_block;
  const Grid grid{dim3(static_cast<unsigned>(blocks)), dim3(kThreads)};
  const bool merge = n > kTile;
  const size_t bytes = static_cast<size_t>(rows * n) * sizeof(SortEntry);
  SortEntry* sorted = merge ? static_cast<SortEntry*>(workspace.allocate(bytes)) : nullptr;
  SortEntry* other = merge ? static_cast<SortEntry*>(workspace.allocate(bytes)) : nullptr;
  visit_dtype(x.dtype, [&]<class T>(Type<T>) {
    launch("sort", x.device, grid, sort_tiles_kernel<T>, x.as<const T>(), values.as<T>(),
           indices.as<int64_t>(), sorted, tiles);
    if (!merge) return;
    for (int64_t run = kTile; run < n; run *= 2) {
      const Grid threads = grid_for(x.device, rows * ((n + kMerged - 1) / kMerged), 1, kThreads);
      launch("sort", x.device, threads, merge_runs_kernel, static_cast<const SortEntry*>(sorted),
             other, rows, n, run);
      std::swap(sorted, other);
    }
    launch("sort", x.device, grid_for(x.device, rows * n), write_sorted_kernel<T>, x.as<const T>(),
           static_cast<const SortEntry*>(sorted), values.as<T>(), indices.as<int64_t>(), rows, n);
  });
}

void topk_rows(const View& x, const View& values, const View& indices, bool largest) {
  const int64_t rows = x.shape[0], n = x.shape[1], k = values.shape[1];
  if (rows * k == 0) return;
  const Grid grid{dim3(static_cast<unsigned>(std::min(rows, int64_t{1} << 20))), dim3(kThreads)};
  visit_dtype(x.dtype, [&]<class T>(Type<T>) {
    launch("topk", x.device, grid, topk_rows_kernel<T>, x.as<const T>(), values.as<T>(),
           indices.as<int64_t>(), rows, n, static_cast<int>(k), largest);
  });
}

}  // namespace wick::cuda
