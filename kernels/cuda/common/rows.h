#pragma once

#include "wick/kernels/cuda/common/block_reduce.h"
#include "wick/kernels/cuda/common/convert.h"
#include "wick/kernels/cuda/common/launch.h"
#include "wick/kernels/cuda/common/vector_access.h"

// Kernels that work on contiguous rows. A row is shared by some threads: a few neighbours of a warp
// or the whole block. They read it once, 16 bytes at a time from 16-byte boundaries wherever the
// row begins, and keep it in registers, if it is not too long.
namespace wick::cuda {

template <class T>
using RowPack = Pack<T, kPackSize<T>>;

/// A RowPack as it was loaded. The compiler would take elements of 16 bits apart as soon as they
/// are there, and so wait for each pack before it loads the next one.
template <class T>
struct [[gnu::may_alias]] alignas(16) RowWords {
  uint32_t words[4];
  __device__ RowPack<T> unpack() const { return __builtin_bit_cast(RowPack<T>, *this); }
};
template <class T>
__device__ RowWords<T> words_of(const RowPack<T>& pack) {
  return __builtin_bit_cast(RowWords<T>, pack);
}

/// Elements [first, first + kPackSize) of a row, of which those outside are `fill`.
template <class T, class Index>
__device__ RowWords<T> load_in_row(const T* row, Index size, Index first, T fill) {
  const T* p = row + first;
  if (first >= 0 && first + kPackSize<T> <= size && reinterpret_cast<uintptr_t>(p) % 16 == 0) {
    return load_piece<RowWords<T>>(p);
  }
  RowPack<T> values;
  for (int j = 0; j < kPackSize<T>; ++j) {
    values[j] = first + j >= 0 && first + j < size ? p[j] : fill;
  }
  return words_of<T>(values);
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

/// How threads share rows.
struct RowSharing {
  int64_t rows, size;
  int lanes;  // threads per row: a power of two up to 32, or all of the block
};

inline Grid grid_of(const RowSharing& s, int64_t threads) {
  constexpr int64_t kMostBlocks = 1 << 20;
  const int64_t per_block = threads / s.lanes;
  const int64_t blocks = std::min((s.rows + per_block - 1) / per_block, kMostBlocks);
  return {dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads))};
}

/// The rows of this block, in turn: `for (RowTurn turn(sharing); turn.any(); turn.next())`. The
/// threads of a block take the same number of turns.
class RowTurn {
 public:
  __device__ explicit RowTurn(const RowSharing& s)
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
  RowSharing s_;
  int64_t first_;
};

/// This thread's packs of its row: the k-th begins at element `first + k * step`. With kPacks > 0
/// there are no more than these; with kPacks = 0, as many as there are.
template <class T, int kPacks>
struct RowShare {
  /// Places in a row that fits registers are counted in 32 bits: it takes half the instructions.
  using Index = std::conditional_t<(kPacks > 0), int, int64_t>;

  int64_t row, begin;
  Index size, first, step;  // size 0: there is no such row

  /// `x`: the memory whose 16-byte boundaries count.
  __device__ RowShare(const RowTurn& turn, const RowSharing& s, const T* x)
      : row(turn.row()),
        begin(turn.row() * s.size),
        size(turn.valid() ? static_cast<Index>(s.size) : 0),
        step(Index{s.lanes} * kPackSize<T>) {
    const uintptr_t address =
        reinterpret_cast<uintptr_t>(x) + static_cast<uintptr_t>(begin) * sizeof(T);
    first = turn.lane() * kPackSize<T> - static_cast<Index>(address % 16 / sizeof(T));
  }

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
class RowData {
  using Index = typename RowShare<T, kPacks>::Index;

 public:
  __device__ RowData(const T* x, const RowShare<T, kPacks>& share, T fill)
      : row_(x + share.begin), size_(share.size), fill_(fill) {
    if constexpr (kPacks > 0) {
      share.for_packs([&](int k, Index at) { packs_[k] = load_in_row(row_, size_, at, fill_); });
    }
  }
  /// The packs that `make(k, first element)` returns, having written them to the row at `x`.
  template <class Make>
  __device__ RowData(const T* x, const RowShare<T, kPacks>& share, T fill, const Make& make)
      : row_(x + share.begin), size_(share.size), fill_(fill) {
    share.for_packs([&](int k, Index at) {
      const RowPack<T> pack = make(k, at);
      if constexpr (kPacks > 0) packs_[k] = words_of<T>(pack);
    });
  }
  /// Calls body(pack, first element). What is read anew is loaded one pack ahead.
  template <class Body>
  __device__ void for_packs(const RowShare<T, kPacks>& share, const Body& body) const {
    if constexpr (kPacks > 0) {
      share.for_packs([&](int k, Index at) { body(packs_[k].unpack(), at); });
    } else {
      RowWords<T> next = load_in_row(row_, size_, share.first, fill_);
      share.for_packs([&](int, Index at) {
        const RowWords<T> words = next;
        if (at + share.step < size_) next = load_in_row(row_, size_, at + share.step, fill_);
        body(words.unpack(), at);
      });
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
  RowWords<T> packs_[kPacks > 0 ? kPacks : 1];
};

/// The combination of the values of the threads that share a row, for each of them.
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

/// Most threads of a block that shares rows: so few that each can have many registers.
inline constexpr int kRowThreads = 512;

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

/// Calls `run(Packs<k>{}, grid, sharing)` with a way to share rows of T at `x` that is good for
/// their number and size. `kTensors`: how many of them a kernel keeps rows of.
template <int kTensors, class T, class Run>
void share_rows(const T* x, int64_t rows, int64_t size, const Run& run) {
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
  const RowSharing sharing{rows, size, static_cast<int>(lanes)};
  const Grid grid = grid_of(sharing, threads);
  if (packs <= lanes) return run(Packs<1>{}, grid, sharing);
  if (packs <= 4 * lanes) return run(Packs<4>{}, grid, sharing);
  if constexpr (kMost == 8) {
    if (packs <= 8 * lanes) return run(Packs<8>{}, grid, sharing);
  }
  run(Packs<0>{}, grid, sharing);
}

}  // namespace wick::cuda
