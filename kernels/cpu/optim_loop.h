#pragma once

#include "wick/core/base/parallel.h"
#include "wick/kernels/optim_rules.h"

namespace wick::WICK_ISA {

/// Calls update(c, i, begin, end) for all elements of `count` tensors, `numel(i)` in the i-th,
/// where c counts the chunks of all, as one parallel loop: thousands of small tensors cost as much
/// as one large one.
template <class Numel, class Update>
void for_each_chunk(int64_t count, int64_t chunk, const Numel& numel, const Update& update) {
  int64_t chunks = 0;
  for (int64_t i = 0; i < count; ++i) chunks += (numel(i) + chunk - 1) / chunk;
  parallel_for(chunks, 4, [&](int64_t first, int64_t last) {
    int64_t before = 0;
    for (int64_t i = 0; i < count && before < last; ++i) {
      const int64_t n = numel(i);
      const int64_t own = (n + chunk - 1) / chunk;
      const int64_t from = first > before ? first - before : 0;
      const int64_t to = last - before < own ? last - before : own;
      for (int64_t c = from; c < to; ++c) {
        update(before + c, i, c * chunk, (c + 1) * chunk < n ? (c + 1) * chunk : n);
      }
      before += own;
    }
  });
}

template <class T, class Rule, class Args>
void update_chunk(const OptimTensor& tensor, int64_t begin, int64_t end, const Args& args) {
  const Rule rule(args, tensor);
  T* __restrict w = tensor.param.as<T>();
  const T* __restrict g = tensor.grad.as<T>();
  T* __restrict s0 = tensor.state[0].as<T>();
  T* __restrict s1 = tensor.state[1].as<T>();
  T* __restrict s2 = tensor.state[2].as<T>();
  const OptimElement<T> element(args);
  constexpr uint32_t kStates = Rule::kStates;
  for (int64_t i = begin; i < end; ++i) {
    T a{}, b{}, c{};
    if constexpr ((kStates & 1) != 0) a = s0[i];
    if constexpr ((kStates & 2) != 0) b = s1[i];
    if constexpr ((kStates & 4) != 0) c = s2[i];
    w[i] = element.update(rule, w[i], g[i], a, b, c);
    if constexpr ((kStates & 1) != 0) s0[i] = a;
    if constexpr ((kStates & 2) != 0) s1[i] = b;
    if constexpr ((kStates & 4) != 0) s2[i] = c;
  }
}

/// Updates all parameters of float32 by Rule<float>, those of float64 by Rule<double>.
template <template <class> class Rule, class Args>
void update_all(const OptimTensor* tensors, int64_t count, const Args& args) {
  const auto numel = [&](int64_t i) { return tensors[i].param.numel(); };
  for_each_chunk(count, 16384, numel, [&](int64_t, int64_t i, int64_t begin, int64_t end) {
    if (tensors[i].param.dtype == Dtype::kFloat64) {
      return update_chunk<double, Rule<double>>(tensors[i], begin, end, args);
    }
    update_chunk<float, Rule<float>>(tensors[i], begin, end, args);
  });
}

}  // namespace wick::WICK_ISA
