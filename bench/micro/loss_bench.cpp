// Losses: bytes per second that must move at least.
#include "wick/core/ops/loss.h"

#include "wick/bench/micro/micro.h"
#include "wick/core/autograd.h"

namespace wick {
namespace {

Tensor random_classes(int64_t rows, int64_t classes) {
  return (empty({rows}, kFloat64).uniform_(0, static_cast<double>(classes))).to(kInt64);
}

void cross_entropy_forward(benchmark::State& state) {
  const NoGrad no_grad;
  const Tensor x = empty({8192, 4096}).normal_(), target = random_classes(8192, 4096);
  measure(state, bytes(x), [&] { return cross_entropy(x, target); });
}
BENCHMARK(cross_entropy_forward)->Unit(benchmark::kMillisecond)->UseRealTime();

void cross_entropy_step(benchmark::State& state) {
  const Tensor x = empty({8192, 4096}).normal_(), target = random_classes(8192, 4096);
  x.set_requires_grad();
  measure(state, 2 * bytes(x), [&] { return grad({cross_entropy(x, target)}, {x})[0]; });
}
BENCHMARK(cross_entropy_step)->Unit(benchmark::kMillisecond)->UseRealTime();

void mse_step(benchmark::State& state) {
  const Tensor x = empty({1024, 1024}).normal_(), target = empty_like(x).normal_();
  x.set_requires_grad();
  measure(state, 4 * bytes(x), [&] { return grad({mse_loss(x, target)}, {x})[0]; });
}
BENCHMARK(mse_step)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace wick
