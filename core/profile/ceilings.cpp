#include <algorithm>
#include <chrono>
#include <functional>

#include "wick/core/create.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/profile/verdict.h"
#include "wick/core/stream.h"

namespace wick::profile {

namespace {

// Seconds of the fastest of a few runs.
double fastest(Device device, const std::function<Tensor()>& work) {
  double best = 1e9;
  for (int i = 0; i < 4; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const Tensor kept = work();
    synchronize(device);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    best = std::min(best, taken.count());
  }
  return best;
}

}  // namespace

Ceilings measure_ceilings(Device device) {
  constexpr int64_t kSide = 768, kElements = int64_t{1} << 22;
  const Tensor square = ones({kSide, kSide}, kFloat32, device);
  const Tensor line = ones({kElements}, kFloat32, device);
  Ceilings ceilings;
  ceilings.flops_per_second =
      2.0 * kSide * kSide * kSide / fastest(device, [&] { return matmul(square, square); });
  ceilings.bytes_per_second = 12.0 * kElements / fastest(device, [&] { return add(line, line); });
  return ceilings;
}

}  // namespace wick::profile
