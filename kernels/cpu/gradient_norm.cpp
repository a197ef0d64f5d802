#include "wick/kernels/gradient_norm_rules.h"

#include "wick/kernels/cpu/tensor_chunks.h"

namespace wick::WICK_ISA {

namespace {

/// T: what elements, stored as S, are computed in. result: sum of squares, and 1 if an element is
/// not finite.
template <class S, class T>
void norm_of_chunk(S* grads, int64_t n, T factor, bool write, double* result) {
  constexpr int kLanes = 16;
  alignas(64) double sums[kLanes] = {};
  int bad[kLanes] = {};
  const auto look = [&](int64_t i, int j) {
    const T x = static_cast<T>(grads[i]);
    const T divided = x * factor;
    sums[j] += static_cast<double>(divided) * static_cast<double>(divided);
    bad[j] |= is_finite(x) ? 0 : 1;
    if (write) grads[i] = static_cast<S>(divided);
  };
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) look(i + j, j);
  }
  for (int j = 0; i < n; ++i, ++j) look(i, j);
  result[0] = result[1] = 0;
  for (int j = 0; j < kLanes; ++j) {
    result[0] += sums[j];
    if (bad[j] != 0) result[1] = 1;
  }
}

}  // namespace

void gradient_norm(const View* grads, int64_t count, const GradientNormArgs& args) {
  const float factor = unscale_factor(args.scale);
  const bool write = args.unscale && factor != 1;
  const auto numel = [&](int64_t i) { return grads[i].numel(); };
  for_each_chunk(
      count, kGradNormChunk, numel, [&](int64_t c, int64_t i, int64_t begin, int64_t end) {
        double* result = args.partial + 2 * c;
        const int64_t n = end - begin;
        switch (grads[i].dtype) {
          case Dtype::kFloat64:
            return norm_of_chunk(grads[i].as<double>() + begin, n, static_cast<double>(factor),
                                 write, result);
          case Dtype::kFloat16:
            return norm_of_chunk(grads[i].as<Half>() + begin, n, factor, write, result);
          case Dtype::kBFloat16:
            return norm_of_chunk(grads[i].as<BFloat16>() + begin, n, factor, write, result);
          default: return norm_of_chunk(grads[i].as<float>() + begin, n, factor, write, result);
        }
      });
  int64_t chunks = 0;
  for (int64_t i = 0; i < count; ++i) chunks += (numel(i) + kGradNormChunk - 1) / kGradNormChunk;
  double sum = 0;
  int64_t first = chunks;
  for (int64_t c = 0; c < chunks; ++c) {
    sum += args.partial[2 * c];
    if (args.partial[2 * c + 1] != 0 && first == chunks) first = c;
  }
  const bool bad = first < chunks;
  if (args.norm != nullptr) *args.norm = ::sqrt(sum);
  if (args.found_inf != nullptr) *args.found_inf = bad ? 1.0f : 0.0f;
  if (args.any_inf != nullptr && bad) *args.any_inf = 1.0f;
  if (args.first != nullptr) *args.first = bad ? first : -1;
}

void grad_scale_update(Device, const GradScaleUpdate& update) { update_scale(update); }

}  // namespace wick::WICK_ISA
