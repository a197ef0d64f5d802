// Matrix products: GFLOP/s by size, dtype and whether the right operand is stored transposed, as
// the weight of a linear layer is.

#include <benchmark/benchmark.h>

#include "wick/core/ops/matmul.h"

namespace wick {
namespace {

void multiply(benchmark::State& state, Dtype dtype, bool transposed) {
  const int64_t batch = state.range(0), m = state.range(1), n = state.range(2), k = state.range(3);
  const auto random = [&](int64_t rows, int64_t columns) {
    const Shape shape = batch == 1 ? Shape{rows, columns} : Shape{batch, rows, columns};
    return empty(shape).uniform_(-1, 1).to(dtype);
  };
  const Tensor a = random(m, k);
  const Tensor b = transposed ? random(n, k).transpose(-2, -1) : random(k, n);
  for (auto _ : state) benchmark::DoNotOptimize(matmul(a, b).raw_data());
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * static_cast<double>(batch * m * n * k),
                                                 benchmark::Counter::kIsIterationInvariantRate);
}

void sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"batch", "m", "n", "k"})->UseRealTime()->Unit(benchmark::kMicrosecond);
  b->Args({1, 512, 512, 512})->Args({1, 2048, 2048, 2048})->Args({1, 64, 512, 784});
  b->Args({1, 64, 10, 512})->Args({1, 32, 1000, 512})->Args({1, 1, 4096, 4096});
  b->Args({1, 8, 4096, 4096})->Args({1, 16384, 64, 576})->Args({1, 64, 576, 16384});
  b->Args({48, 197, 197, 64})->Args({512, 16, 16, 32});
}
BENCHMARK_CAPTURE(multiply, float32, kFloat32, false)->Apply(sizes);
BENCHMARK_CAPTURE(multiply, float32_transposed, kFloat32, true)->Apply(sizes);
BENCHMARK_CAPTURE(multiply, bfloat16_transposed, kBFloat16, true)->Apply(sizes);

}  // namespace
}  // namespace wick
