// What a gradient scaler does: the norm of 8 gradients of 2^20 elements, and its scale's update.
#include "wick/optim/detail/gradient_norm.h"

#include "wick/bench/kernels/row.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/reduce.h"

namespace wick::bench::gradient_norm_rows {
namespace {

[[maybe_unused]] const bool kNorm =
    add_row({.name = "gradient_norm/float32", .prepare = [](const Setting& s) {
               Tensors params, grads;
               for (int i = 0; i < 8; ++i) {
                 params.push_back(zeros({s.some(1 << 20)}, kFloat32, s.device));
                 params.back().set_requires_grad();
                 grads.push_back(normal(params.back().shape()).to(s.device));
                 params.back().set_grad(grads.back());
               }
               return Work{.call = [=] { optim::gradient_norm("bench", params, {}, false); },
                           .check =
                               [=] {
                                 const auto found =
                                     optim::gradient_norm("bench", params, {}, false);
                                 const Tensor all = cat(grads).cpu().to(kFloat64);
                                 if (found.found_inf.item() != 0)
                                   return std::string("wrong: inf found");
                                 return difference({found.norm}, {sqrt(sum(all * all))}, kFloat32);
                               },
                           .bytes = bytes_of(params)};
             }});

[[maybe_unused]] const bool kScale = add_row(
    {.name = "gradient_norm/scale_update", .prepare = [](const Setting& s) {
       const Tensor numbers = ones({3}, kFloat32, s.device);
       const Tensor tracker = zeros({1}, kInt32, s.device);
       const Tensor counts = zeros({2}, kInt64, s.device);
       float* const first = numbers.data<float>();
       const GradScaleUpdate update{.scale = first,
                                    .growth_tracker = tracker.data<int32_t>(),
                                    .any_inf = first + 1,
                                    .counts = counts.data<int64_t>(),
                                    .growth = 2,
                                    .backoff = 0.5,
                                    .floor = 0,
                                    .interval = 1 << 30};
       const auto run = [=] { WICK_DISPATCH(s.device, grad_scale_update(s.device, update)); };
       return Work{.call = [=, keep = Tensors{numbers, tracker, counts}] { run(); },
                   .check = [=, keep = Tensors{tracker, counts}]() -> std::string {
                     numbers.fill_(1);  // the scale, and that there were infinities
                     run();
                     const bool halved = numbers[0].item() == 0.5;
                     return halved && numbers[1].item() == 0 ? "" : "wrong values";
                   },
                   .bytes = 40};
     }});

}  // namespace
}  // namespace wick::bench::gradient_norm_rows
