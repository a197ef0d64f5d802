#include "wick/kernels/cuda/common/block_reduce.h"
#include "wick/kernels/cuda/common/convert.h"
#include "wick/kernels/cuda/common/tensor_batch.h"
#include "wick/kernels/cuda/common/vector_access.h"
#include "wick/kernels/grad_survey_rules.h"

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
__device__ void survey_pack(S* x, T factor, bool write, double& sum, bool& bad) {
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
    survey_pieces_kernel(const __grid_constant__ Batch batch, const float* scale, bool unscale,
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
      survey_pack<kSize, T>(x + i, T(factor), write, sum, bad);
    }
  }
  for (int64_t i = rest + thread; i < piece.end; i += threads) {
    survey_pack<1, T>(x + i, T(factor), write, sum, bad);
  }
  sum = block_sum(sum);
  bad = block_reduce(bad, Either{}, false);
  if (threadIdx.x != 0) return;
  partial[2 * int64_t{blockIdx.x}] = sum;
  partial[2 * int64_t{blockIdx.x} + 1] = bad ? 1 : 0;
}

/// One block.
__global__ void survey_all_kernel(int64_t chunks, GradSurvey survey) {
  double sum = 0;
  int64_t first = chunks;
  for (int64_t c = threadIdx.x; c < chunks; c += blockDim.x) {
    sum += survey.partial[2 * c];
    if (survey.partial[2 * c + 1] != 0 && c < first) first = c;
  }
  sum = block_sum(sum);
  first = block_reduce(first, Lesser{}, chunks);
  if (threadIdx.x != 0) return;
  const bool bad = first < chunks;
  if (survey.norm != nullptr) *survey.norm = ::sqrt(sum);
  if (survey.found_inf != nullptr) *survey.found_inf = bad ? 1.0f : 0.0f;
  if (survey.any_inf != nullptr && bad) *survey.any_inf = 1.0f;
  if (survey.first != nullptr) *survey.first = bad ? first : -1;
}

__global__ void update_scale_kernel(GradScaleUpdate update) { update_scale(update); }

template <class S, class Batch>
void survey_batch(const View& like, const Batch& batch, int64_t chunks, const GradSurvey& survey,
                  double* partial) {
  launch("grad_survey", like.device, grid_of_pieces(chunks), survey_pieces_kernel<S, Batch>, batch,
         survey.scale, survey.unscale, partial);
}

}  // namespace

void grad_survey(const View* grads, int64_t count, const GradSurvey& survey) {
  if (count == 0) return;
  int64_t done = 0;
  for_each_batch<1>(
      count, kGradNormChunk, [&](int64_t i) { return grads[i].numel(); },
      [&](int64_t i, void** pointers) { pointers[0] = grads[i].data; },
      [&](int64_t i) { return grads[i].dtype == grads[i - 1].dtype; },
      [&](const auto& batch, int64_t chunks, int64_t first) {
        const View& like = grads[first];
        double* const partial = survey.partial + 2 * done;
        done += chunks;
        switch (like.dtype) {
          case Dtype::kFloat64: return survey_batch<double>(like, batch, chunks, survey, partial);
          case Dtype::kFloat16: return survey_batch<Half>(like, batch, chunks, survey, partial);
          case Dtype::kBFloat16:
            return survey_batch<BFloat16>(like, batch, chunks, survey, partial);
          default: return survey_batch<float>(like, batch, chunks, survey, partial);
        }
      });
  launch("grad_survey", grads[0].device, Grid{dim3(1), dim3(1024)}, survey_all_kernel, done,
         survey);
}

void grad_scale_update(Device device, const GradScaleUpdate& update) {
  launch("grad_scale_update", device, Grid{dim3(1), dim3(1)}, update_scale_kernel, update);
}

}  // namespace wick::cuda
