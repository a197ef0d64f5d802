#pragma once

#include "wick/kernels/cuda/common/block_reduce.h"
#include "wick/kernels/cuda/common/convert.h"
#include "wick/kernels/cuda/common/launch.h"
#include "wick/kernels/cuda/common/vector_access.h"

// Kernels that work on rows: softmax, norms, losses, reductions. Their words, all in one place:
//
//   pack      what one vector load moves: 16 bytes from a 16-byte boundary, 4 float32 or 8 float16
//   lanes     the threads that work on one row together: 1, 2, 4, ... 32 neighbours within a warp,
//             or the whole block where rows are long
//   tiling    (RowTiling) how many rows there are, how long they are, and how many lanes each has
//   loop      (RowLoop) the grid-stride loop of a block over its rows
//   slice     (RowSlice) where one lane's packs lie in its row: every lanes-th pack
//   fragment  (RowFragment) the elements of a slice, in registers
//
// A row of 35 float32 that begins 8 bytes beyond a boundary, with 4 lanes (few, to fit this page):
//
//   element  |. . 0 1|2 3 4 5|6 ... 9|10 . 13|14 . 17|18 . 21|22 . 25|26 . 29|30 . 33|34 . . .|
//   lane         0       1       2       3       0       1       2       3       0       1
//   its pack     0       0       0       0       1       1       1       1       2       2
//
// Lane 1 has the packs that begin at elements 2, 18 and 34: first = 2, step = 16. Places outside
// the row (dots) are filled on loading and skipped on storing, so rows may begin and end anywhere.
//
// kPacks, a constant, is the packs that a lane keeps in registers: 1, 4 or 8. With kPacks = 0 the
// row is too long for registers and read again in each pass. tile_rows() picks lanes and kPacks:
//
//   for (RowLoop loop(tiling); loop.any(); loop.next()) {  // rows of this block
//     const RowSlice<T, kPacks> slice(loop, tiling, x);    // this lane's part of its row
//     const RowFragment<T, kPacks> data(x, slice, fill);   // loads it
//     slice.for_packs([&](int k, auto at) { own += ... data.get(k, at) ...; });
//     const A sum = row_sum(own, tiling.lanes);            // over all lanes, for each of them
//     slice.for_packs([&](int k, auto at) { ... store_in_row(y + slice.begin, ..., at, v); });
//   }
//
// Where the elements of a "row" are not neighbours (softmax along an inner axis of [outer, size,
// inner]), they are columns, and columns.h has the like: a ColumnTiling and a ColumnLoop. A block's
// 256 threads stand in `width` neighbouring columns, so that the loads of a warp are neighbours
// too, and threads of one column share its rows. With width 32:
//
//   column           0   1   2 ... 31
//   row 0   thread   0   1   2     31
//   row 1           32  33  34     63
//   ...
//   row 7          224 225 226    255
//   row 8            0   1   2     31    and so on: a thread has every 8th row of its column
namespace wick::cuda {

template <class T>
using RowPack = Pack<T, kPackSize<T>>;

/// A RowPack as it was loaded, in whole registers. The compiler would take elements of 16 bits
/// apart as soon as they are there, and so wait for each pack before it loads the next one.
template <class T>
struct [[gnu::may_alias]] alignas(16) RawPack {
  uint32_t words[4];
  __device__ RowPack<T> unpack() const { return __builtin_bit_cast(RowPack<T>, *this); }
};
template <class T>
__device__ RawPack<T> raw_pack(const RowPack<T>& pack) {
  return __builtin_bit_cast(RawPack<T>, pack);
}

/// Elements [first, first + kPackSize) of a row, of which those outside are `fill`.
template <class T, class Index>
__device__ RawPack<T> load_in_row(const T* row, Index size, Index first, T fill) {
  const T* p = row + first;
  if (first >= 0 && first + kPackSize<T> <= size && reinterpret_cast<uintptr_t>(p) % 16 == 0) {
    return load_piece<RawPack<T>>(p);
  }
  RowPack<T> values;
  for (int j = 0; j < kPackSize<T>; ++j) {
    values[j] = first + j >= 0 && first + j < size ? p[j] : fill;
  }
  return raw_pack<T>(values);
}

/// Writes those that are inside.
template <class T, class Index>
__device__ void store_in_row(T* row, Index size, Index first, const RowPack<T>& values) {
  T* p = row + first;
  if (first >= 0 && first + kPackSize<T> <= size && reinterpret_cast<uintptr_t>(p) % 16 == 0) {
    store_pack(p, values);
    return;
  }
  for (int j = 0; j < kPackSize<T>; ++j) {
    if (first + j >= 0 && first + j < size) p[j] = values[j];
  }
}

/// How threads are laid over rows.
struct RowTiling {
  int64_t rows, size;
  int lanes;  // threads per row: a power of two up to 32, or all of the block
};

inline Grid grid_of(const RowTiling& s, int64_t threads) {
  const int64_t per_block = threads / s.lanes;
  const int64_t blocks = std::min((s.rows + per_block - 1) / per_block, kMostBlocks);
  return {dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads))};
}

/// The rows of this block: `for (RowLoop loop(tiling); loop.any(); loop.next())`. All threads of a
/// block go round equally often.
class RowLoop {
 public:
  __device__ explicit RowLoop(const RowTiling& s)
      : s_(s), first_(int64_t{blockIdx.x} * rows_per_block()) {}
  __device__ bool any() const { return first_ < s_.rows; }
  __device__ void next() { first_ += int64_t{gridDim.x} * rows_per_block(); }

  __device__ int rows_per_block() const { return static_cast<int>(blockDim.x) / s_.lanes; }
  __device__ int lane() const { return static_cast<int>(threadIdx.x) % s_.lanes; }
  __device__ int64_t row() const { return first_ + static_cast<int>(threadIdx.x) / s_.lanes; }
  /// Whether this thread's row exists.
  __device__ bool valid() const { return row() < s_.rows; }
  /// Whether this thread is the one that writes what there is one of per row.
  __device__ bool leads() const { return valid() && lane() == 0; }

 private:
  RowTiling s_;
  int64_t first_;
};

/// This thread's packs of its row: the k-th begins at element `first + k * step`. With kPacks > 0
/// there are no more than these; with kPacks = 0, as many as there are.
template <class T, int kPacks>
struct RowSlice {
  /// Places in a row that fits registers are counted in 32 bits: it takes half the instructions.
  using Index = std::conditional_t<(kPacks > 0), int, int64_t>;

  int64_t row, begin;
  Index size, first, step;  // size 0: there is no such row

  /// `x`: the memory whose 16-byte boundaries count.
  __device__ RowSlice(const RowLoop& loop, const RowTiling& s, const T* x)
      : row(loop.row()),
        begin(loop.row() * s.size),
        size(loop.valid() ? static_cast<Index>(s.size) : 0),
        step(Index{s.lanes} * kPackSize<T>) {
    const uintptr_t address =
        reinterpret_cast<uintptr_t>(x) + static_cast<uintptr_t>(begin) * sizeof(T);
    first = loop.lane() * kPackSize<T> - static_cast<Index>(address % 16 / sizeof(T));
  }

  /// Whether all elements of the pack that begins at `at` are in the row.
  __device__ bool holds(Index at) const { return at >= 0 && at + kPackSize<T> <= size; }

  /// Calls body(k, first element).
  template <class Body>
  __device__ void for_packs(const Body& body) const {
    if constexpr (kPacks > 0) {
      WICK_UNROLL
      for (int k = 0; k < kPacks; ++k) {
        if (first + k * step < size) body(k, first + k * step);
      }
    } else {
      for (Index at = first; at < size; at += step) body(0, at);
    }
  }
};

/// This thread's packs of one tensor: in registers, or read anew each time with kPacks = 0.
template <class T, int kPacks>
class RowFragment {
  using Index = typename RowSlice<T, kPacks>::Index;

 public:
  __device__ RowFragment(const T* x, const RowSlice<T, kPacks>& slice, T fill)
      : row_(x + slice.begin), size_(slice.size), fill_(fill) {
    if constexpr (kPacks > 0) {
      slice.for_packs([&](int k, Index at) { packs_[k] = load_in_row(row_, size_, at, fill_); });
    }
  }
  /// The packs that `make(k, first element)` returns, having written them to the row at `x`.
  template <class Make>
  __device__ RowFragment(const T* x, const RowSlice<T, kPacks>& slice, T fill, const Make& make)
      : row_(x + slice.begin), size_(slice.size), fill_(fill) {
    slice.for_packs([&](int k, Index at) {
      const RowPack<T> pack = make(k, at);
      if constexpr (kPacks > 0) packs_[k] = raw_pack<T>(pack);
    });
  }
  /// Calls body(pack, first element). What is read anew is loaded two packs at a time.
  template <class Body>
  __device__ void for_packs(const RowSlice<T, kPacks>& slice, const Body& body) const {
    if constexpr (kPacks > 0) {
      slice.for_packs([&](int k, Index at) { body(packs_[k].unpack(), at); });
    } else {
      constexpr int kAhead = 2;
      for (Index at = slice.first; at < slice.size; at += kAhead * slice.step) {
        RawPack<T> loaded[kAhead];
        WICK_UNROLL
        for (int i = 0; i < kAhead; ++i) {
          loaded[i] = load_in_row(row_, size_, at + i * slice.step, fill_);
        }
        WICK_UNROLL
        for (int i = 0; i < kAhead; ++i) {
          if (at + i * slice.step < slice.size) body(loaded[i].unpack(), at + i * slice.step);
        }
      }
    }
  }
  __device__ RowPack<T> get(int k, Index at) const {
    if constexpr (kPacks > 0) {
      return packs_[k].unpack();
    } else {
      return load_in_row(row_, size_, at, fill_).unpack();
    }
  }

 private:
  const T* row_;
  Index size_;
  T fill_;
  RawPack<T> packs_[kPacks > 0 ? kPacks : 1];
};

/// The combination of the values of a row's lanes, for each of them.
template <class T, class Combine>
__device__ T row_reduce(T value, int lanes, Combine combine, T identity) {
  if (lanes > kWarp) return block_reduce(value, combine, identity);
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}
template <class T>
__device__ T row_sum(T value, int lanes) {
  return row_reduce(value, lanes, Add{}, T{0});
}

/// Most threads of a block that works on rows: so few that each can have many registers.
inline constexpr int kRowThreads = 512;

/// How many blocks of so many threads fit a multiprocessor, as __launch_bounds__ is told: two leave
/// 64 registers to a thread.
template <class T, int kPacks>
inline constexpr int kRowBlocks = kPacks == 8 || sizeof(T) == 8 ? 1 : 2;

template <int kPacks>
struct Packs {};

/// What a thread's part of a sum over a row is held in: long rows' parts are long sums.
template <class A, int kPacks>
struct SumOf {
  using type = A;
};
template <class A>
struct SumOf<A, 0> {
  using type = double;
};
template <class A, int kPacks>
using Sum = typename SumOf<A, kPacks>::type;

/// Calls `run(Packs<k>{}, grid, tiling)` with a tiling of rows of T at `x` that is good for their
/// number and size. `kTensors`: how many of them a kernel keeps rows of.
template <int kTensors, class T, class Run>
void tile_rows(const T* x, int64_t rows, int64_t size, const Run& run) {
  constexpr int kSize = kPackSize<T>;
  // So that elements, converted for the computation, fit the registers.
  constexpr int kMost = kTensors == 1 || (kTensors == 2 && sizeof(T) == 4) ? 8 : 4;
  const bool aligned = size % kSize == 0 && is_aligned(x, kSize);
  const int64_t packs = (size + kSize - 1) / kSize + (aligned ? 0 : 1);
  int64_t lanes = 1, threads = 128;
  if (packs <= 4 * kWarp) {
    while (lanes < packs && lanes < kWarp) lanes *= 2;
  } else {
    const int64_t each = (packs <= 4 * kRowThreads ? 4 : 8) * kWarp;
    lanes = std::min((packs + each - 1) / each * kWarp, int64_t{kRowThreads});
    threads = lanes;
  }
  const RowTiling tiling{rows, size, static_cast<int>(lanes)};
  const Grid grid = grid_of(tiling, threads);
  if (packs <= lanes) return run(Packs<1>{}, grid, tiling);
  if (packs <= 4 * lanes) return run(Packs<4>{}, grid, tiling);
  if constexpr (kMost == 8) {
    if (packs <= 8 * lanes) return run(Packs<8>{}, grid, tiling);
  }
  run(Packs<0>{}, grid, tiling);
}

}  // namespace wick::cuda
