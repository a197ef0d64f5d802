// Softmax, reductions: bytes per second that must move at least (inputs read once, the result
// written once). 8192 x 4096 floats are 128 MiB.
#include "wick/core/ops/softmax.h"

#include "wick/bench/micro/micro.h"
#include "wick/core/autograd.h"
#include "wick/core/ops/reduce.h"

namespace wick {
namespace {

using Function = Tensor (*)(const Tensor&, int64_t);

void forward(benchmark::State& state, Function function, int64_t axis) {
  const NoGrad no_grad;
  const Tensor x = empty({8192, 4096}).normal_();
  measure(state, bytes(x), [&] { return function(x, axis); });
}
BENCHMARK_CAPTURE(forward, softmax_rows, softmax, 1)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(forward, softmax_columns, softmax, 0)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(forward, log_softmax_rows, log_softmax, 1)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

void backward(benchmark::State& state, Function function) {
  const Tensor x = empty({8192, 4096}).normal_(), dy = empty_like(x).normal_();
  x.set_requires_grad();
  const Tensor y = function(x, 1);
  measure(state, 2 * bytes(x), [&] { return grad({y}, {x}, {dy}, true)[0]; });
}
BENCHMARK_CAPTURE(backward, softmax, softmax)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(backward, log_softmax, log_softmax)->Unit(benchmark::kMillisecond)->UseRealTime();

void sum_over(benchmark::State& state, const Shape& axes) {
  const Tensor x = empty({8192, 4096}).normal_();
  measure(state, bytes(x), [&] { return sum(x, axes); });
}
BENCHMARK_CAPTURE(sum_over, all, Shape{})->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(sum_over, rows, Shape{1})->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(sum_over, columns, Shape{0})->Unit(benchmark::kMillisecond)->UseRealTime();

void sum_of_channels(benchmark::State& state, MemoryFormat format) {
  const Tensor x = empty({128, 64, 32, 32}).normal_().contiguous(format);
  measure(state, bytes(x), [&] { return sum(x, {0, 2, 3}); });
}
BENCHMARK_CAPTURE(sum_of_channels, last, MemoryFormat::kChannelsLast)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(sum_of_channels, first, MemoryFormat::kContiguous)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

void argmax_of_rows(benchmark::State& state) {
  const Tensor x = empty({8192, 4096}).normal_();
  measure(state, bytes(x), [&] { return argmax(x, 1); });
}
BENCHMARK(argmax_of_rows)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace wick
