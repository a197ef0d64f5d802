// Clipping the gradients of 8 tensors of 2^20 elements.
#include "wick/optim/clip.h"

#include "wick/bench/kernels/row.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/reduce.h"

namespace wick::bench::clip_rows {
namespace {

Tensors with_gradients(const Setting& s) {
  Tensors params;
  for (int i = 0; i < 8; ++i) {
    const Tensor param = zeros({s.some(1 << 20)}, kFloat32, s.device);
    param.set_requires_grad();
    param.set_grad(normal(param.shape()).to(s.device));
    params.push_back(param);
  }
  return params;
}

Tensor gradients(const Tensors& params) {
  Tensors all;
  for (const Tensor& param : params) all.push_back(param.grad().cpu().to(kFloat64));
  return cat(all);
}

// The norm is read for, and then all gradients are read and written.
[[maybe_unused]] const bool kNorm = add_row(
    {.name = "clip/norm/float32", .prepare = [](const Setting& s) {
       const Tensors params = with_gradients(s);
       return Work{.call = [=] { optim::clip_grad_norm_(params, 1e9); },
                   .check =
                       [=] {
                         const Tensors own = with_gradients(s);
                         const Tensor before = gradients(own);
                         const Tensor total = sqrt(sum(before * before));
                         optim::clip_grad_norm_(own, 1);
                         return difference({gradients(own)}, {before / (total + 1e-6)}, kFloat32);
                       },
                   .bytes = 3 * bytes_of(params)};
     }});

[[maybe_unused]] const bool kValue = add_row(
    {.name = "clip/value/float32", .prepare = [](const Setting& s) {
       const Tensors params = with_gradients(s);
       return Work{.call = [=] { optim::clip_grad_value_(params, 1); },
                   .check =
                       [=] {
                         const Tensors own = with_gradients(s);
                         const Tensor before = gradients(own);
                         optim::clip_grad_value_(own, 1);
                         return difference({gradients(own)}, {clamp(before, -1, 1)}, kFloat32);
                       },
                   .bytes = 2 * bytes_of(params)};
     }});

}  // namespace
}  // namespace wick::bench::clip_rows
