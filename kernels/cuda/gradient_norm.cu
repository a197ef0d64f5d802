#include "wick/kernels/cuda/common/block_reduce.h"
#include "wick/kernels/cuda/common/convert.h"
#include "wick/kernels/cuda/common/tensor_batch.h"
#include "wick/kernels/cuda/common/vector_access.h"
#include "wick/kernels/gradient_norm_rules.h"

namespace wick::cuda {

namespace {

struct Either {
  __device__ bool operator()(bool a, bool b) const { return a || b; }
};
struct Lesser {
  __device__ int64_t operator()(int64_t a, int64_t b) const { return a < b ? a : b; }
};

/// kCount elements, computed in T.
template <int kCount, class T, class S>
__device__ void norm_of_pack(S* x, T factor, bool write, double& sum, bool& bad) {
  Pack<S, kCount> values = load_pack<kCount>(x);
  for (int j = 0; j < kCount; ++j) {
    const T value = convert<T>(values[j]);
    const T divided = value * factor;
    sum += static_cast<double>(divided) * static_cast<double>(divided);
    bad = bad || !is_finite(value);
    values[j] = convert<S>(divided);
  }
  if (write) store_pack(x, values);
}

/// partial: those of the batch's chunks.
template <class S, class Batch>
__global__ void __launch_bounds__(256)
    gradient_norm_kernel(const __grid_constant__ Batch batch, const float* scale, bool unscale,
                         double* partial) {
  using T = typename ArithmeticOf<S>::type;
  constexpr int kSize = kPackSize<S>;
  const Piece piece = find_piece(batch, blockIdx.x, kGradNormChunk);
  S* const x = static_cast<S*>(batch.pointers[piece.tensor][0]);
  const float factor = unscale_factor(scale);
  const bool write = unscale && factor != 1;
  const int64_t thread = threadIdx.x, threads = blockDim.x;
  double sum = 0;
  bool bad = false;
  int64_t rest = piece.begin;  // where elements begin that are taken one by one
  if (reinterpret_cast<uintptr_t>(x) % 16 == 0) {
    rest = piece.end - (piece.end - piece.begin) % kSize;
    for (int64_t i = piece.begin + thread * kSize; i < rest; i += threads * kSize) {
      norm_of_pack<kSize, T>(x + i, T(factor), write, sum, bad);
    }
  }
  for (int64_t i = rest + thread; i < piece.end; i += threads) {
    norm_of_pack<1, T>(x + i, T(factor), write, sum, bad);
  }
  sum = block_sum(sum);
  bad = block_reduce(bad, Either{}, false);
  if (threadIdx.x != 0) return;
  partial[2 * int64_t{blockIdx.x}] = sum;
  partial[2 * int64_t{blockIdx.x} + 1] = bad ? 1 : 0;
}

/// One block.
__global__ void gradient_norm_total_kernel(int64_t chunks, GradientNormArgs args) {
  double sum = 0;
  int64_t first = chunks;
  for (int64_t c = threadIdx.x; c < chunks; c += blockDim.x) {
    sum += args.partial[2 * c];
    if (args.partial[2 * c + 1] != 0 && c < first) first = c;
  }
  sum = block_sum(sum);
  first = block_reduce(first, Lesser{}, chunks);
  if (threadIdx.x != 0) return;
  const bool bad = first < chunks;
  if (args.norm != nullptr) *args.norm = ::sqrt(sum);
  if (args.found_inf != nullptr) *args.found_inf = bad ? 1.0f : 0.0f;
  if (args.any_inf != nullptr && bad) *args.any_inf = 1.0f;
  if (args.first != nullptr) *args.first = bad ? first : -1;
}

__global__ void update_scale_kernel(GradScaleUpdate update) { update_scale(update); }

template <class S, class Batch>
void norm_of_batch(const View& like, const Batch& batch, int64_t chunks,
                   const GradientNormArgs& args, double* partial) {
  launch("gradient_norm", like.device, grid_of_pieces(chunks), gradient_norm_kernel<S, Batch>,
         batch, args.scale, args.unscale, partial);
}

}  // namespace

void gradient_norm(const View* grads, int64_t count, const GradientNormArgs& args) {
  if (count == 0) return;
  int64_t done = 0;
  for_each_batch<1>(
      count, kGradNormChunk, [&](int64_t i) { return grads[i].numel(); },
      [&](int64_t i, void** pointers) { pointers[0] = grads[i].data; },
      [&](int64_t i) { return grads[i].dtype == grads[i - 1].dtype; },
      [&](const auto& batch, int64_t chunks, int64_t first) {
        const View& like = grads[first];
        double* const partial = args.partial + 2 * done;
        done += chunks;
        switch (like.dtype) {
          case Dtype::kFloat64: return norm_of_batch<double>(like, batch, chunks, args, partial);
          case Dtype::kFloat16: return norm_of_batch<Half>(like, batch, chunks, args, partial);
          case Dtype::kBFloat16: return norm_of_batch<BFloat16>(like, batch, chunks, args, partial);
          default: return norm_of_batch<float>(like, batch, chunks, args, partial);
        }
      });
  launch("gradient_norm", grads[0].device, Grid{dim3(1), dim3(1024)}, gradient_norm_total_kernel,
         done, args);
}

void grad_scale_update(Device device, const GradScaleUpdate& update) {
  launch("grad_scale_update", device, Grid{dim3(1), dim3(1)}, update_scale_kernel, update);
}

}  // namespace wick::cuda
