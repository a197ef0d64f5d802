#include "wick/kernels/index.h"

#include "wick/kernels/cuda/common/block_reduce.h"
#include "wick/kernels/cuda/common/block_scan.h"
#include "wick/kernels/cuda/common/launch.h"
#include "wick/kernels/cuda/common/offsets.h"
#include "wick/kernels/cuda/common/words.h"

namespace wick::cuda {

namespace {

/// Quotient and remainder; of 32 bits where they suffice, several times faster.
struct Divided {
  int64_t quotient, remainder;
  __device__ Divided(int64_t a, int64_t b) {
    if (((a | b) >> 32) == 0) {
      const uint32_t q = static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
      quotient = q;
      remainder = static_cast<uint32_t>(a) - q * static_cast<uint32_t>(b);
    } else {
      quotient = a / b;
      remainder = a - quotient * b;
    }
  }
};

template <class T>
__global__ void index_select_kernel(const T* x, const int64_t* index, T* y, int64_t outer,
                                    int64_t n, int64_t count, int64_t inner, int64_t skip) {
  const int64_t total = outer * count * inner;
  for (int64_t i = global_thread(); i < total; i += global_threads()) {
    const Divided row(i, inner), place(row.quotient, count);
    const int64_t from = index[place.remainder];
    WICK_DEVICE_CHECK(from >= 0 && from < n, "index out of range");
    y[i] = from == skip ? T{} : x[(place.quotient * n + from) * inner + row.remainder];
  }
}

/// nest: of y, index, and x at 0 on the axis.
template <class T>
__global__ void gather_kernel(const T* x, const int64_t* index, T* y, LoopNest<3> nest, int64_t n,
                              int64_t stride) {
  for (int64_t i = global_thread(); i < nest.numel; i += global_threads()) {
    const Offsets<3> at(nest, i);
    const int64_t from = index[at.offset[1]];
    WICK_DEVICE_CHECK(from >= 0 && from < n, "index out of range");
    y[at.offset[0]] = x[at.offset[2] + from * stride];
  }
}

constexpr int kMaskThreads = 256;
constexpr int kMaskPack = kNonzeroChunk / kMaskThreads;

/// A bit for each of the mask's elements that this thread takes of a chunk.
__device__ unsigned load_mask(const uint8_t* mask, int64_t n, int64_t first, bool packed) {
  unsigned bits = 0;
  if (packed && first + kMaskPack <= n) {
    const Pack<uint8_t, kMaskPack> set = load_pack<kMaskPack>(mask + first);
    for (int j = 0; j < kMaskPack; ++j) bits |= static_cast<unsigned>(set[j]) << j;
  } else {
    for (int j = 0; j < kMaskPack && first + j < n; ++j) {
      bits |= static_cast<unsigned>(mask[first + j]) << j;
    }
  }
  return bits;
}
__device__ int64_t first_of_thread(int64_t chunk) {
  return chunk * kNonzeroChunk + static_cast<int64_t>(threadIdx.x) * kMaskPack;
}
__global__ void count_chunks_kernel(const uint8_t* mask, int64_t n, int64_t chunks, bool packed,
                                    int64_t* starts) {
  for (int64_t c = blockIdx.x; c < chunks; c += gridDim.x) {
    const int count = block_sum(__popc(load_mask(mask, n, first_of_thread(c), packed)));
    if (threadIdx.x == 0) starts[c + 1] = count;
  }
}

/// One block turns the chunks' counts into sums.
__global__ void sum_chunks_kernel(int64_t chunks, int64_t* starts) {
  int64_t before = 0;
  for (int64_t first = 0; first < chunks; first += blockDim.x) {
    const int64_t c = first + threadIdx.x;
    int64_t total = 0;
    const int64_t sum = block_inclusive_sum(c < chunks ? starts[c + 1] : 0, total);
    if (c < chunks) starts[c + 1] = before + sum;
    before += total;
  }
  if (threadIdx.x == 0) starts[0] = 0;
}

/// A shape, for device code.
struct Sizes {
  int rank;
  int64_t size[kMaxRank];
};

__global__ void nonzero_kernel(const uint8_t* mask, int64_t n, int64_t chunks, bool packed,
                               const int64_t* starts, const __grid_constant__ Sizes sizes,
                               int64_t* y) {
  const int rank = sizes.rank;
  for (int64_t c = blockIdx.x; c < chunks; c += gridDim.x) {
    const int64_t first = first_of_thread(c);
    unsigned set = load_mask(mask, n, first, packed);
    const int own = __popc(set);
    int total = 0;
    int64_t place = starts[c] + block_inclusive_sum(own, total) - own;
    for (; set != 0; set &= set - 1) {
      int64_t left = first + __ffs(static_cast<int>(set)) - 1;
      for (int axis = rank - 1; axis >= 0; --axis) {
        const Divided part(left, sizes.size[axis]);
        y[place * rank + axis] = part.remainder;
        left = part.quotient;
      }
      ++place;
    }
  }
}

/// A block per chunk.
Grid grid_of_chunks(int64_t chunks) {
  return {dim3(static_cast<unsigned>(std::min(chunks, kMostBlocks))), dim3(kMaskThreads)};
}

template <class T, int kCount>
__global__ void triangle_kernel(const T* x, T* y, int64_t numel, int64_t rows, int64_t columns,
                                int64_t diagonal, bool upper) {
  const int64_t step = global_threads() * kCount;
  for (int64_t i = global_thread() * kCount; i < numel; i += step) {
    const Divided at(i, columns);
    const int64_t row = Divided(at.quotient, rows).remainder;
    // Columns before `cut` are kept in a lower triangle, those from it on in an upper one.
    const int64_t cut = row + diagonal + (upper ? 0 : 1) - at.remainder;
    Pack<T, kCount> values = {};
    if (upper ? cut < kCount : cut > 0) {
      values = load_pack<kCount>(x + i);
      for (int j = 0; j < kCount; ++j) {
        if ((j >= cut) != upper) values[j] = T{};
      }
    }
    store_pack(y + i, values);
  }
}

}  // namespace

void index_select(const View& x, const View& index, const View& y, int64_t skip) {
  const int64_t row_bytes = x.shape[2] * size_of(x.dtype);
  visit_words(widest_word(row_bytes, x.data, y.data), [&]<class T>(Type<T>) {
    const int64_t inner = row_bytes / static_cast<int64_t>(sizeof(T));
    const int64_t total = y.shape[0] * y.shape[1] * inner;
    launch("index_select", y.device, grid_for(y.device, total), index_select_kernel<T>,
           x.as<const T>(), index.as<const int64_t>(), y.as<T>(), x.shape[0], x.shape[1],
           index.shape[0], inner, skip);
  });
}

void gather(const View& x, const View& index, const View& y, int axis) {
  View base = x;
  base.shape = index.shape;
  base.strides[axis] = 0;
  const View* views[] = {&y, &index, &base};
  const LoopNest<3> nest(views, 3);
  visit_words(size_of(x.dtype), [&]<class T>(Type<T>) {
    launch("gather", y.device, grid_for(y.device, nest.numel), gather_kernel<T>, x.as<const T>(),
           index.as<const int64_t>(), y.as<T>(), nest, x.shape[axis], x.strides[axis]);
  });
}

void count_nonzero(const View& mask, const View& starts) {
  const uint8_t* set = mask.as<const uint8_t>();
  const int64_t chunks = starts.numel() - 1;
  launch("count_nonzero", mask.device, grid_of_chunks(chunks), count_chunks_kernel, set,
         mask.numel(), chunks, is_aligned(set, 16), starts.as<int64_t>());
  launch("count_nonzero", mask.device, Grid{dim3(1), dim3(1024)}, sum_chunks_kernel, chunks,
         starts.as<int64_t>());
}

void nonzero(const View& mask, const View& starts, const View& y) {
  const uint8_t* set = mask.as<const uint8_t>();
  const int64_t chunks = starts.numel() - 1;
  Sizes sizes = {mask.rank(), {}};
  for (int i = 0; i < sizes.rank; ++i) sizes.size[i] = mask.shape[i];
  launch("nonzero", mask.device, grid_of_chunks(chunks), nonzero_kernel, set, mask.numel(), chunks,
         is_aligned(set, 16), starts.as<const int64_t>(), sizes, y.as<int64_t>());
}

void triangle(const View& x, const View& y, int64_t diagonal, bool upper) {
  const int64_t n = y.numel(), rows = x.shape[1], columns = x.shape[2];
  visit_words(size_of(x.dtype), [&]<class T>(Type<T>) {
    if constexpr (sizeof(T) < 16) {
      constexpr int kCount = kPackSize<T>;
      const bool packed =
          columns % kCount == 0 && is_aligned(x.as<T>(), kCount) && is_aligned(y.as<T>(), kCount);
      launch("triangle", y.device, grid_for(y.device, n, packed ? kCount : 1),
             packed ? triangle_kernel<T, kCount> : triangle_kernel<T, 1>, x.as<const T>(),
             y.as<T>(), n, rows, columns, diagonal, upper);
    }
  });
}

}  // namespace wick::cuda
