#include "wick/kernels/clip_rules.h"
#include "wick/kernels/cuda/common/block_reduce.h"
#include "wick/kernels/cuda/common/convert.h"
#include "wick/kernels/cuda/common/tensor_batch.h"
#include "wick/kernels/cuda/common/vector_access.h"

namespace wick::cuda {

namespace {

/// Calls packed(pack) for each run of neighbours of the piece that are aligned to 16 bytes, and
/// single(element) for the others, each by one thread of the block.
template <class T, class Packed, class Single>
__device__ void for_each_of_piece(T* x, const Piece& piece, const Packed& packed,
                                  const Single& single) {
  constexpr int kSize = kPackSize<T>;
  const int64_t thread = threadIdx.x, threads = blockDim.x;
  int64_t rest = piece.begin;  // where elements begin that are taken one by one
  if (reinterpret_cast<uintptr_t>(x) % 16 == 0) {
    rest = piece.end - (piece.end - piece.begin) % kSize;
    for (int64_t i = piece.begin + thread * kSize; i < rest; i += threads * kSize) packed(x + i);
  }
  for (int64_t i = rest + thread; i < piece.end; i += threads) single(x + i);
}

template <class Norm, class T, class Batch>
__global__ void norm_of_pieces_kernel(const __grid_constant__ Batch batch, Norm norm,
                                      double* partial) {
  const Piece piece = find_piece(batch, blockIdx.x, kGradNormChunk);
  double sum = 0;
  const auto add = [&](T x) {
    sum = norm(sum, norm.term(static_cast<double>(static_cast<Accumulator<T>>(x))));
  };
  for_each_of_piece(
      static_cast<T*>(batch.pointers[piece.tensor][0]), piece,
      [&](const T* x) {
        const Pack<T, kPackSize<T>> values = load_pack<kPackSize<T>>(x);
        for (int j = 0; j < kPackSize<T>; ++j) add(values[j]);
      },
      [&](const T* x) { add(*x); });
  sum = block_reduce(sum, norm, 0.0);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

/// One block.
template <class Norm>
__global__ void norm_of_all_kernel(const double* partial, int64_t count, Norm norm, void* total,
                                   Dtype dtype) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) sum = norm(sum, partial[i]);
  sum = block_reduce(sum, norm, 0.0);
  if (threadIdx.x == 0) store_as(total, dtype, 0, norm.finish(sum));
}

/// Replaces every element by change(element), unless change.prepare() says that none would change.
template <class Change, class T, class Batch>
__global__ void change_kernel(const __grid_constant__ Batch batch, Change change) {
  const Piece piece = find_piece(batch, blockIdx.x, kGradNormChunk);
  if (!change.prepare()) return;
  const auto changed = [&](T x) { return T(change(static_cast<Accumulator<T>>(x))); };
  for_each_of_piece(
      static_cast<T*>(batch.pointers[piece.tensor][0]), piece,
      [&](T* x) {
        Pack<T, kPackSize<T>> values = load_pack<kPackSize<T>>(x);
        for (int j = 0; j < kPackSize<T>; ++j) values[j] = changed(values[j]);
        store_pack(x, values);
      },
      [&](T* x) { *x = changed(*x); });
}

struct Scale {
  const void* total;
  Dtype dtype;
  double max_norm;
  double factor = 1;
  __device__ bool prepare() {
    factor = clip_factor(load_as<double>(total, dtype, 0), max_norm);
    return factor != 1;
  }
  template <class T>
  __device__ T operator()(T x) const {
    return x * static_cast<T>(factor);
  }
};

struct Clamp {
  double limit;
  __device__ bool prepare() const { return true; }
  template <class T>
  __device__ T operator()(T x) const {
    return clamped(x, limit);
  }
};

/// Calls run(Type<T>{}, batch, chunks) with batches of gradients that are T.
template <class Run>
void for_each_typed_batch(const View* grads, int64_t count, const Run& run) {
  for_each_batch<1>(
      count, kGradNormChunk, [&](int64_t i) { return grads[i].numel(); },
      [&](int64_t i, void** pointers) { pointers[0] = grads[i].data; },
      [&](int64_t i) { return grads[i].dtype == grads[i - 1].dtype; },
      [&](const auto& batch, int64_t chunks, int64_t first) {
        visit_floating(grads[first].dtype,
                       [&]<class T>(Type<T> type) { run(type, batch, chunks); });
      });
}

template <class Change>
void change_all(const char* name, const View* grads, int64_t count, const Change& change) {
  for_each_typed_batch(grads, count,
                       [&]<class T, class Batch>(Type<T>, const Batch& batch, int64_t chunks) {
                         launch(name, grads[0].device, grid_of_pieces(chunks),
                                change_kernel<Change, T, Batch>, batch, change);
                       });
}

}  // namespace

void grad_p_norm(const View* grads, int64_t count, double p, const View& partial,
                 const View& total) {
  visit_norm(p, [&]<class Norm>(const Norm& norm) {
    double* next = partial.as<double>();
    for_each_typed_batch(grads, count,
                         [&]<class T, class Batch>(Type<T>, const Batch& batch, int64_t chunks) {
                           launch("grad_p_norm", total.device, grid_of_pieces(chunks),
                                  norm_of_pieces_kernel<Norm, T, Batch>, batch, norm, next);
                           next += chunks;
                         });
    launch("grad_p_norm", total.device, Grid{dim3(1), dim3(1024)}, norm_of_all_kernel<Norm>,
           partial.as<const double>(), partial.numel(), norm, total.data, total.dtype);
  });
}

void grad_clip_norm(const View* grads, int64_t count, const View& total, double max_norm) {
  change_all("grad_clip_norm", grads, count, Scale{total.data, total.dtype, max_norm});
}

void grad_clip_value(const View* grads, int64_t count, double limit) {
  change_all("grad_clip_value", grads, count, Clamp{limit});
}

}  // namespace wick::cuda
