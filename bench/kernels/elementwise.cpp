// Arithmetic, activations, comparisons and functions of each element. 8192 x 2048 float32 are
// 64 MiB.
#include "wick/core/ops/elementwise.h"

#include "wick/bench/kernels/row.h"
#include "wick/core/ops/activation.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/random.h"

namespace wick::bench::elementwise_rows {
namespace {

Shape large(const Setting& s) { return {s.some(8192), 2048}; }

bool add_unary(const char* name, Tensor (*function)(const Tensor&),
               Tensor (*plain)(const Tensor&) = nullptr) {
  OpRow row{.name = concat("elementwise/", name),
            .inputs = [](const Setting& s) { return Tensors{uniform(large(s), -2, 2)}; },
            .call = [=](const Tensors& x) { return Tensors{function(x[0])}; }};
  if (plain != nullptr) row.plain = [=](const Tensors& x) { return Tensors{plain(x[0])}; };
  return add_op(row);
}

Tensor zeros_of(const Tensor& x) { return zeros(x.shape(), x.dtype(), x.device()); }

[[maybe_unused]] const bool kUnary[] = {
    add_unary("relu", relu, [](const Tensor& x) { return where(x > 0, x, 0 * x); }),
    add_unary(
        "gelu", [](const Tensor& x) { return gelu(x); },
        [](const Tensor& x) { return 0.5 * x * (1 + erf(x * 0.70710678118654752)); }),
    add_unary("silu", silu, [](const Tensor& x) { return x / (1 + exp(-x)); }),
    add_unary("sigmoid", sigmoid, [](const Tensor& x) { return 1 / (1 + exp(-x)); }),
    add_unary("tanh", tanh, [](const Tensor& x) { return 1 - 2 / (exp(2 * x) + 1); }),
    add_unary("exp", exp, [](const Tensor& x) { return pow(full_like(x, 2.718281828459045), x); }),
    add_unary("square", square, [](const Tensor& x) { return x * x; }),
};

[[maybe_unused]] const bool kAdd =
    add_op({.name = "elementwise/add",
            .inputs =
                [](const Setting& s) {
                  return Tensors{normal(large(s)), normal(large(s))};
                },
            .call = [](const Tensors& x) { return Tensors{x[0] + x[1]}; },
            .plain = [](const Tensors& x) { return Tensors{x[0] - (zeros_of(x[1]) - x[1])}; },
            .backward = false});

[[maybe_unused]] const bool kMultiply =
    add_op({.name = "elementwise/mul",
            .inputs =
                [](const Setting& s) {
                  return Tensors{normal(large(s)), normal(large(s))};
                },
            .call = [](const Tensors& x) { return Tensors{x[0] * x[1]}; }});

// A bias per channel of channels-last images: rows of 64 elements.
[[maybe_unused]] const bool kBias =
    add_op({.name = "elementwise/add_channel_bias",
            .inputs =
                [](const Setting& s) {
                  return Tensors{normal_images({s.some(256), 64, 32, 32}), normal({64, 1, 1})};
                },
            .call = [](const Tensors& x) { return Tensors{x[0] + x[1]}; }});

[[maybe_unused]] const bool kCompare =
    add_op({.name = "elementwise/greater",
            .inputs =
                [](const Setting& s) {
                  return Tensors{normal(large(s)), normal(large(s))};
                },
            .call = [](const Tensors& x) { return Tensors{x[0] > x[1]}; },
            .backward = false});

// What an op costs beside its work.
[[maybe_unused]] const bool kSmall =
    add_op({.name = "elementwise/add_64_elements",
            .inputs =
                [](const Setting&) {
                  return Tensors{normal({64}), normal({64})};
                },
            .call = [](const Tensors& x) { return Tensors{x[0] + x[1]}; },
            .dtypes = {kFloat32}});

}  // namespace
}  // namespace wick::bench::elementwise_rows
