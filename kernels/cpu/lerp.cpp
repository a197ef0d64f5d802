#include "wick/kernels/lerp.h"

#include "wick/kernels/cpu/tensor_chunks.h"

namespace wick::WICK_ISA {

namespace {

template <class T, class S>
void lerp_chunk(T* __restrict to, const S* __restrict from, int64_t n, double keep) {
  const T kept = static_cast<T>(keep), taken = static_cast<T>(1 - keep);
  if (keep == 0) {
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(from[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = kept * to[i] + taken * static_cast<T>(from[i]);
  }
}

template <class T>
void lerp_from(T* to, const View& from, int64_t begin, int64_t n, double keep) {
  switch (from.dtype) {
    case Dtype::kFloat64: return lerp_chunk(to, from.as<double>() + begin, n, keep);
    case Dtype::kFloat16: return lerp_chunk(to, from.as<Half>() + begin, n, keep);
    case Dtype::kBFloat16: return lerp_chunk(to, from.as<BFloat16>() + begin, n, keep);
    default: return lerp_chunk(to, from.as<float>() + begin, n, keep);
  }
}

}  // namespace

void lerp(const View* to, const View* from, int64_t count, double keep,
          const LerpCondition& condition) {
  if (!condition.holds()) return;
  const auto numel = [&](int64_t i) { return to[i].numel(); };
  for_each_chunk(count, 16384, numel, [&](int64_t, int64_t i, int64_t begin, int64_t end) {
    if (to[i].dtype == Dtype::kFloat64) {
      return lerp_from(to[i].as<double>() + begin, from[i], begin, end - begin, keep);
    }
    lerp_from(to[i].as<float>() + begin, from[i], begin, end - begin, keep);
  });
}

}  // namespace wick::WICK_ISA
