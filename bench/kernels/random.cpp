// Random numbers and dropout. Draws differ by dtype, so they are checked for what they promise.
#include "wick/core/ops/random.h"

#include <cmath>

#include "wick/bench/kernels/row.h"
#include "wick/core/autograd.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/reduce.h"

namespace wick::bench::random_rows {
namespace {

// Whether the mean of `x` is `mean` within six standard errors, with what rounding to 8 bits adds.
std::string check_mean(const Tensor& x, double mean, double stddev) {
  const double got = x.cpu().to(kFloat64).mean().item();
  const double bound = 6 * stddev / std::sqrt(static_cast<double>(x.numel())) + 0x1p-9;
  if (std::abs(got - mean) <= bound) return {};
  return concat("wrong values: mean is ", got, ", expected ", mean);
}

struct Draw {
  const char* name;
  void (*fill)(const Tensor&);
  double mean, stddev;
};
constexpr Draw kDraws[] = {
    {"uniform", [](const Tensor& x) { x.uniform_(0, 1); }, 0.5, 0.289},
    {"normal", [](const Tensor& x) { x.normal_(0, 1); }, 0, 1},
};

bool add_draw(const Draw& draw, Dtype dtype) {
  return add_row({.name = concat("random/", draw.name, "/forward/", to_string(dtype)),
                  .dtype = dtype,
                  .prepare = [=](const Setting& s) {
                    const Tensor x = zeros({s.some(1 << 24)}, dtype, s.device);
                    return Work{.call = [=] { draw.fill(x); },
                                .check =
                                    [=] {
                                      draw.fill(x);
                                      return check_mean(x, draw.mean, draw.stddev);
                                    },
                                .bytes = bytes_of(x)};
                  }});
}

bool add_dropout(Dtype dtype) {
  const auto check = [](const Tensor& x) -> std::string {
    const NoGrad no_grad;
    const Tensor wide = x.cpu().to(kFloat64), y = dropout(x, 0.1).cpu().to(kFloat64);
    const Tensor kept = y != 0;
    const Tensor error = abs(where(kept, y - wide / 0.9, 0 * y)) - 0.01 * abs(wide);
    if (!(error.amax().item() <= 0)) return "wrong values: what is kept is not x / 0.9";
    return check_mean(kept.to(kFloat64), 0.9, 0.3);
  };
  const auto inputs = [dtype](const Setting& s) {
    return uniform({s.some(8192), 2048}, 0.5, 1.5).to(dtype).to(s.device);
  };
  add_row({.name = concat("random/dropout/forward/", to_string(dtype)),
           .dtype = dtype,
           .prepare = [=](const Setting& s) {
             const Tensor x = inputs(s);
             return Work{.call =
                             [=] {
                               const NoGrad no_grad;
                               dropout(x, 0.1);
                             },
                         .check = [=] { return check(x); },
                         .bytes = 2 * bytes_of(x)};
           }});
  // Draws the same numbers again: the gradient of a sum is where elements were kept.
  return add_row({.name = concat("random/dropout/backward/", to_string(dtype)),
                  .dtype = dtype,
                  .prepare = [=](const Setting& s) {
                    const Tensor x = inputs(s).set_requires_grad();
                    const Tensor y = dropout(x, 0.1), weight = ones_like(y.detach());
                    const auto run = [=] { return grad({y}, {x}, {weight}, true)[0]; };
                    return Work{.call = [=] { run(); },
                                .check =
                                    [=] {
                                      const NoGrad no_grad;
                                      return difference({run().to(kFloat64) * x.to(kFloat64)},
                                                        {y.to(kFloat64)}, kBFloat16);
                                    },
                                .bytes = 2 * bytes_of(x)};
                  }});
}

[[maybe_unused]] const bool kAll = [] {
  for (const Dtype dtype : {kFloat32, kBFloat16}) {
    for (const Draw& draw : kDraws) add_draw(draw, dtype);
    add_dropout(dtype);
  }
  return true;
}();

[[maybe_unused]] const bool kIntegers = add_row(
    {.name = "random/randint/forward/int64", .prepare = [](const Setting& s) {
       const int64_t n = s.some(1 << 23);
       return Work{
           .call = [=] { randint(0, 10, {n}, kInt64, s.device); },
           .check = [=] { return check_mean(randint(0, 10, {n}, kInt64, s.device), 4.5, 2.88); },
           .bytes = 8 * static_cast<double>(n)};
     }});

[[maybe_unused]] const bool kBernoulli =
    add_row({.name = "random/bernoulli/forward/float32", .prepare = [](const Setting& s) {
               const Tensor p = full({s.some(1 << 24)}, 0.3, kFloat32, s.device);
               return Work{.call = [=] { bernoulli(p); },
                           .check = [=] { return check_mean(bernoulli(p), 0.3, 0.459); },
                           .bytes = 2 * bytes_of(p)};
             }});

}  // namespace
}  // namespace wick::bench::random_rows
