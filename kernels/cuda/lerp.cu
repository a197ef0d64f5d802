#include "wick/kernels/lerp.h"

#include "wick/kernels/cuda/common/convert.h"
#include "wick/kernels/cuda/common/tensor_batch.h"
#include "wick/kernels/cuda/common/vector_access.h"

namespace wick::cuda {

namespace {

constexpr int64_t kChunk = 4096;  // elements of a block

template <class T, class S, int kCount>
__device__ void lerp_pack(T* to, const S* from, double keep) {
  const Pack<S, kCount> source = load_pack<kCount>(from);
  Pack<T, kCount> result;
  if (keep != 0) result = load_pack<kCount>(to);
  for (int j = 0; j < kCount; ++j) {
    const T value = convert<T>(source[j]);
    result[j] =
        keep == 0 ? value : static_cast<T>(keep) * result[j] + static_cast<T>(1 - keep) * value;
  }
  store_pack(to, result);
}

template <class T, class S, class Batch>
__global__ void __launch_bounds__(256)
    lerp_kernel(const __grid_constant__ Batch batch, double keep, LerpCondition condition) {
  if (!condition.holds()) return;
  constexpr int kSize = kPackSize<T>;
  const Piece piece = find_piece(batch, blockIdx.x, kChunk);
  T* const to = static_cast<T*>(batch.pointers[piece.tensor][0]);
  const S* const from = static_cast<const S*>(batch.pointers[piece.tensor][1]);
  const int64_t thread = threadIdx.x, threads = blockDim.x;
  int64_t rest = piece.begin;  // where elements begin that are taken one by one
  if ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) % 16 == 0) {
    rest = piece.end - (piece.end - piece.begin) % kSize;
    for (int64_t i = piece.begin + thread * kSize; i < rest; i += threads * kSize) {
      lerp_pack<T, S, kSize>(to + i, from + i, keep);
    }
  }
  for (int64_t i = rest + thread; i < piece.end; i += threads) {
    lerp_pack<T, S, 1>(to + i, from + i, keep);
  }
}

template <class T, class Batch>
void lerp_batch(Device device, Dtype from, const Batch& batch, int64_t chunks, double keep,
                const LerpCondition& condition) {
  const auto run = [&]<class S>(Type<S>) {
    launch("lerp", device, grid_of_pieces(chunks), lerp_kernel<T, S, Batch>, batch, keep,
           condition);
  };
  switch (from) {
    case Dtype::kFloat64: return run(Type<double>{});
    case Dtype::kFloat16: return run(Type<Half>{});
    case Dtype::kBFloat16: return run(Type<BFloat16>{});
    default: return run(Type<float>{});
  }
}

}  // namespace

void lerp(const View* to, const View* from, int64_t count, double keep,
          const LerpCondition& condition) {
  for_each_batch<2>(
      count, kChunk, [&](int64_t i) { return to[i].numel(); },
      [&](int64_t i, void** pointers) {
        pointers[0] = to[i].data;
        pointers[1] = from[i].data;
      },
      [&](int64_t i) {
        return to[i].dtype == to[i - 1].dtype && from[i].dtype == from[i - 1].dtype;
      },
      [&](const auto& batch, int64_t chunks, int64_t first) {
        const Device device = to[first].device;
        if (to[first].dtype == Dtype::kFloat64) {
          return lerp_batch<double>(device, from[first].dtype, batch, chunks, keep, condition);
        }
        lerp_batch<float>(device, from[first].dtype, batch, chunks, keep, condition);
      });
}

}  // namespace wick::cuda
