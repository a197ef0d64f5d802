// Matrix products, square and as skinny as training has them; in backward both gradients.
#include "wick/core/ops/matmul.h"

#include "wick/bench/kernels/row.h"
#include "wick/core/ops/activation.h"
#include "wick/core/ops/detail/matmul_fused.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/reduce.h"

namespace wick::bench::matmul_rows {
namespace {

struct Size {
  int64_t batch, m, n, k;
};
constexpr Size kSizes[] = {
    {1, 512, 512, 512},  {1, 2048, 2048, 2048}, {1, 1024, 3072, 768}, {1, 64, 10, 512},
    {1, 16384, 64, 576}, {48, 197, 197, 64},    {512, 16, 16, 32},
};

// Small products term by term, large ones in float64.
Tensor plain_matmul(const Tensor& a, const Tensor& b) {
  if (a.numel() * b.size(-1) > (1 << 22)) return matmul(a, b);
  return sum(a.unsqueeze(-1) * b.unsqueeze(-3), {-2});
}

bool add_matmul(const Size& z) {
  const auto inputs = [z](const Setting& s) {
    const int64_t batch = s.some(z.batch), m = z.batch == 1 ? s.some(z.m) : z.m;
    const Shape a{batch, m, z.k}, b{batch, z.k, z.n};
    if (z.batch > 1) return Tensors{normal(a), normal(b)};
    return Tensors{normal({m, z.k}), normal({z.k, z.n})};
  };
  return add_op(
      {.name = concat("matmul/", z.batch > 1 ? concat(z.batch, "x") : "", z.m, "x", z.n, "x", z.k),
       .inputs = inputs,
       .call = [](const Tensors& x) { return Tensors{matmul(x[0], x[1])}; },
       .plain = [](const Tensors& x) { return Tensors{plain_matmul(x[0], x[1])}; },
       .check_shrink = 16});
}

// With the weight as layers keep it, transposed, and a bias.
template <Activation kActivation = Activation::kNone>
bool add_linear(const char* name, int64_t m, int64_t n, int64_t k) {
  return add_op(
      {.name = concat("matmul/", name, "_", m, "x", n, "x", k),
       .inputs =
           [=](const Setting& s) {
             return Tensors{normal({s.some(m), k}), normal({n, k}), normal({n})};
           },
       .call = [](const Tensors& x) { return Tensors{linear(x[0], x[1], x[2], kActivation)}; },
       .plain =
           [](const Tensors& x) {
             const Tensor y = plain_matmul(x[0], x[1].t()) + x[2];
             return Tensors{kActivation == Activation::kRelu ? relu(y) : y};
           },
       .check_shrink = 16});
}

// Scores of attention, with their factor.
bool add_scaled(int64_t batch, int64_t m, int64_t k) {
  return add_op(
      {.name = concat("matmul/scaled_", batch, "x", m, "x", m, "x", k),
       .inputs =
           [=](const Setting& s) {
             return Tensors{normal({s.some(batch), m, k}), normal({s.some(batch), k, m})};
           },
       .call = [](const Tensors& x) { return Tensors{matmul_scaled(x[0], x[1], 0.125)}; },
       .plain = [](const Tensors& x) { return Tensors{plain_matmul(x[0], x[1]) * 0.125}; },
       .backward = false,
       .check_shrink = 16});
}

[[maybe_unused]] const bool kAll = [] {
  for (const Size& size : kSizes) add_matmul(size);
  add_linear("linear", 64, 512, 784);
  add_linear("linear", 1, 4096, 4096);
  add_scaled(24, 197, 64);
  add_linear<Activation::kRelu>("linear_relu", 2048, 3072, 768);
  return add_linear("linear", 1024, 768, 3072);
}();

}  // namespace
}  // namespace wick::bench::matmul_rows
