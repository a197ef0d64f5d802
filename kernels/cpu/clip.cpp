#include "wick/kernels/clip_rules.h"
#include "wick/kernels/cpu/tensor_chunks.h"

namespace wick::WICK_ISA {

namespace {

template <class Norm, class T>
double reduce(const Norm& norm, const T* x, int64_t n) {
  constexpr int kLanes = 16;
  alignas(64) double lanes[kLanes] = {};
  const auto wide = [](T v) { return static_cast<double>(static_cast<Accumulator<T>>(v)); };
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) {
      lanes[j] = norm(lanes[j], norm.term(wide(x[i + j])));
    }
  }
  for (int j = 0; i < n; ++i, ++j) {
    lanes[j] = norm(lanes[j], norm.term(wide(x[i])));
  }
  double total = 0;
  for (int j = 0; j < kLanes; ++j) total = norm(total, lanes[j]);
  return total;
}

template <class Norm>
void compute_norm(const Norm& norm, const View* grads, int64_t count, const View& partial,
                  const View& total) {
  double* parts = partial.as<double>();
  const auto numel = [&](int64_t i) { return grads[i].numel(); };
  for_each_chunk(count, kGradNormChunk, numel,
                 [&](int64_t c, int64_t i, int64_t begin, int64_t end) {
                   visit_floating(grads[i].dtype, [&]<class T>(Type<T>) {
                     parts[c] = reduce(norm, grads[i].as<T>() + begin, end - begin);
                   });
                 });
  double sum = 0;
  for (int64_t c = 0; c < partial.numel(); ++c) sum = norm(sum, parts[c]);
  const double value = norm.finish(sum);
  if (total.dtype == Dtype::kFloat64) {
    *total.as<double>() = value;
  } else {
    *total.as<float>() = static_cast<float>(value);
  }
}

// Replaces every element x by change(x).
template <class Change>
void for_each_element(const View* grads, int64_t count, const Change& change) {
  const auto numel = [&](int64_t i) { return grads[i].numel(); };
  for_each_chunk(count, 16384, numel, [&](int64_t, int64_t i, int64_t begin, int64_t end) {
    visit_floating(grads[i].dtype, [&]<class T>(Type<T>) {
      T* const x = grads[i].as<T>();
      for (int64_t k = begin; k < end; ++k) x[k] = T(change(static_cast<Accumulator<T>>(x[k])));
    });
  });
}

}  // namespace

void grad_p_norm(const View* grads, int64_t count, double p, const View& partial,
                 const View& total) {
  visit_norm(p, [&](const auto& norm) { compute_norm(norm, grads, count, partial, total); });
}

void grad_clip_norm(const View* grads, int64_t count, const View& total, double max_norm) {
  const bool wide = total.dtype == Dtype::kFloat64;
  const double norm = wide ? *total.as<double>() : static_cast<double>(*total.as<float>());
  const double factor = clip_factor(norm, max_norm);
  for_each_element(grads, count, [&](auto x) { return x * static_cast<decltype(x)>(factor); });
}

void grad_clip_value(const View* grads, int64_t count, double limit) {
  for_each_element(grads, count, [&](auto x) { return clamped(x, limit); });
}

}  // namespace wick::WICK_ISA
