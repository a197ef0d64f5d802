// Elementwise ops and copies: bytes per second that must move at least (inputs read once, the
// result written once). 8192 x 4096 floats are 128 MiB.
#include "wick/bench/micro/micro.h"
#include "wick/core/autograd.h"
#include "wick/core/ops/activation.h"
#include "wick/core/ops/elementwise.h"

namespace wick {
namespace {

const Shape kShape = {8192, 4096};

Tensor random(const Shape& shape) { return empty(shape).uniform_(-2, 2); }

void unary(benchmark::State& state, Tensor (*function)(const Tensor&)) {
  const Tensor x = random(kShape);
  measure(state, bytes(x), [&] { return function(x); });
}
Tensor gelu_exact(const Tensor& x) { return gelu(x); }
BENCHMARK_CAPTURE(unary, relu, relu)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(unary, exp, exp)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(unary, gelu, gelu_exact)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(unary, tanh, tanh)->Unit(benchmark::kMillisecond)->UseRealTime();

void gelu_backward(benchmark::State& state) {
  const Tensor x = random(kShape), dy = random(kShape);
  x.set_requires_grad();
  const Tensor y = gelu(x);
  measure(state, 2 * bytes(x), [&] { return grad({y}, {x}, {dy}, true)[0]; });
}
BENCHMARK(gelu_backward)->Unit(benchmark::kMillisecond)->UseRealTime();

void add(benchmark::State& state) {
  const Tensor x = random(kShape), y = random(kShape);
  measure(state, 2 * bytes(x), [&] { return x + y; });
}
BENCHMARK(add)->Unit(benchmark::kMillisecond)->UseRealTime();

// A bias per channel of channels-last images: rows of 64 elements.
void add_bias_channels_last(benchmark::State& state) {
  const Tensor x = random({128, 64, 32, 32}).contiguous(MemoryFormat::kChannelsLast);
  const Tensor bias = random({64, 1, 1});
  measure(state, bytes(x), [&] { return x + bias; });
}
BENCHMARK(add_bias_channels_last)->Unit(benchmark::kMillisecond)->UseRealTime();

void add_small(benchmark::State& state) {
  const Tensor x = random({64}), y = random({64});
  measure(state, 2 * bytes(x), [&] { return x + y; });
}
BENCHMARK(add_small);

void cast(benchmark::State& state, Dtype from, Dtype to) {
  const Tensor x = random(kShape).to(from);
  measure(state, bytes(x), [&] { return x.to(to); });
}
BENCHMARK_CAPTURE(cast, float32_to_bfloat16, kFloat32, kBFloat16)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(cast, bfloat16_to_float32, kBFloat16, kFloat32)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

void clone(benchmark::State& state) {
  const Tensor x = random(kShape);
  measure(state, bytes(x), [&] { return x.clone(); });
}
BENCHMARK(clone)->Unit(benchmark::kMillisecond)->UseRealTime();

void to_channels_last(benchmark::State& state) {
  const Tensor x = random({128, 64, 32, 32});
  measure(state, bytes(x), [&] { return x.contiguous(MemoryFormat::kChannelsLast); });
}
BENCHMARK(to_channels_last)->Unit(benchmark::kMillisecond)->UseRealTime();

void transpose(benchmark::State& state) {
  const Tensor x = random(kShape);
  measure(state, bytes(x), [&] { return x.t().contiguous(); });
}
BENCHMARK(transpose)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace wick
