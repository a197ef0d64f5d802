#pragma once

#include <benchmark/benchmark.h>

#include "wick/core/tensor.h"

namespace wick {

/// What the elements of `x` take.
inline int64_t bytes(const Tensor& x) { return x.numel() * size_of(x.dtype()); }

/// Times `call`, which reads `read` bytes and writes the tensor that it returns.
template <class Call>
void measure(benchmark::State& state, int64_t read, const Call& call) {
  int64_t written = 0;
  call();  // memory that is touched for the first time is slow
  for (auto _ : state) {
    const Tensor y = call();
    written = bytes(y);
    benchmark::DoNotOptimize(y.raw_data());
  }
  state.SetBytesProcessed(state.iterations() * (read + written));
}

}  // namespace wick
