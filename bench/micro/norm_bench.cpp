// Normalisations: bytes per second that must move at least. Batch norm reads its input twice where
// that exceeds the caches; the figure counts it once.
#include "wick/core/ops/norm.h"

#include "wick/bench/micro/micro.h"
#include "wick/core/autograd.h"

namespace wick {
namespace {

Tensor random_normal(const Shape& shape) {
  Tensor x = empty(shape).normal_();
  if (shape.rank() == 4) x = x.contiguous(MemoryFormat::kChannelsLast);
  return x;
}

Shape image_shape(const benchmark::State& state) {
  return {state.range(0), state.range(1), state.range(2), state.range(2)};
}

void images(benchmark::internal::Benchmark* b) {
  b->Args({128, 64, 32})->Args({128, 256, 8})->Args({32, 64, 112});
  b->Unit(benchmark::kMillisecond)->UseRealTime();
}

void batch_norm_relu_forward(benchmark::State& state) {
  const Tensor x = random_normal(image_shape(state)), weight = ones({x.size(1)}),
               bias = zeros({x.size(1)});
  x.set_requires_grad();
  measure(state, bytes(x), [&] { return batch_norm_relu(x, weight, bias, {}, {}); });
}
BENCHMARK(batch_norm_relu_forward)->Apply(images);

void batch_norm_add_relu_forward(benchmark::State& state) {
  const Tensor x = random_normal(image_shape(state)), residual = random_normal(x.shape());
  const Tensor weight = ones({x.size(1)}), bias = zeros({x.size(1)});
  x.set_requires_grad();
  measure(state, 2 * bytes(x),
          [&] { return batch_norm_add_relu(x, residual, weight, bias, {}, {}); });
}
BENCHMARK(batch_norm_add_relu_forward)->Apply(images);

void batch_norm_relu_backward(benchmark::State& state) {
  const Tensor x = random_normal(image_shape(state)), dy = random_normal(x.shape());
  const Tensor weight = ones({x.size(1)}), bias = zeros({x.size(1)});
  for (const Tensor& t : {x, weight, bias}) t.set_requires_grad();
  const Tensor y = batch_norm_relu(x, weight, bias, {}, {});
  measure(state, 2 * bytes(x), [&] { return grad({y}, {x, weight, bias}, {dy}, true)[0]; });
}
BENCHMARK(batch_norm_relu_backward)->Apply(images);

void layer_norm_forward(benchmark::State& state) {
  const NoGrad no_grad;
  const Tensor x = random_normal({8192, 4096}), weight = ones({4096}), bias = zeros({4096});
  measure(state, bytes(x), [&] { return layer_norm(x, {4096}, weight, bias); });
}
BENCHMARK(layer_norm_forward)->Unit(benchmark::kMillisecond)->UseRealTime();

void layer_norm_backward(benchmark::State& state) {
  const Tensor x = random_normal({8192, 4096}), weight = ones({4096}), bias = zeros({4096});
  for (const Tensor& t : {x, weight, bias}) t.set_requires_grad();
  const Tensor y = layer_norm(x, {4096}, weight, bias), dy = random_normal(x.shape());
  measure(state, 2 * bytes(x), [&] { return grad({y}, {x, weight, bias}, {dy}, true)[0]; });
}
BENCHMARK(layer_norm_backward)->Unit(benchmark::kMillisecond)->UseRealTime();

void group_norm_forward(benchmark::State& state) {
  const NoGrad no_grad;
  const Tensor x = random_normal({128, 64, 32, 32}), weight = ones({64}), bias = zeros({64});
  measure(state, bytes(x), [&] { return group_norm(x, 8, weight, bias); });
}
BENCHMARK(group_norm_forward)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace wick
