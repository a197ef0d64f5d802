// Averages of weights: keep * to + (1 - keep) * from, over 8 tensors of 2^20 elements.
#include <memory>

#include "wick/bench/kernels/row.h"
#include "wick/core/ops/elementwise.h"
#include "wick/optim/ema.h"

namespace wick::bench::lerp_rows {
namespace {

Tensors weights(const Setting& s) {
  Tensors tensors;
  for (int i = 0; i < 8; ++i) tensors.push_back(normal({s.some(1 << 20)}).to(s.device));
  return tensors;
}

[[maybe_unused]] const bool kEma = add_row(
    {.name = "lerp/ema/float32", .prepare = [](const Setting& s) {
       const Tensors params = weights(s);
       const auto ema = std::make_shared<optim::Ema>(params, 0.99);
       return Work{.call = [=] { ema->update(); },
                   .check =
                       [=] {
                         const Tensor x = normal({s.some(1 << 20)}).to(s.device);
                         const Tensor before = x.to(kFloat64).cpu();
                         optim::Ema own({x}, 0.75);
                         x.fill_(1);
                         own.update();
                         return difference(own.averages(), {0.75 * before + 0.25}, kFloat32);
                       },
                   .bytes = 3 * bytes_of(params)};
     }});

}  // namespace
}  // namespace wick::bench::lerp_rows
