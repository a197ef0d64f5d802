#include <array>

#include "wick/core/ops/compare.h"
#include "wick/core/ops/detail/reduce_axes.h"
#include "wick/core/ops/detail/wide.h"
#include "wick/core/ops/einsum.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/ops/reduce.h"

namespace wick {

namespace {

void check_p(const char* op, double p) {
  WICK_CHECK(p >= 0, op, ": p: got ", p, ", expected 0 or more");
}

// |a|^2 + |b|^2 - 2 a b
Tensor euclidean(const Tensor& a, const Tensor& b) {
  const Tensor squares = square(a).sum({-1}, true) + square(b).sum({-1}).unsqueeze(-2);
  const Tensor d = squares - matmul(a, b.transpose(-2, -1)) * 2;
  const Tensor none = le(d, 0);  // where the gradient of the root would be infinite
  return masked_fill(sqrt(masked_fill(d, none, 1)), none, 0);
}

}  // namespace

Tensor renorm(const Tensor& x, double p, int64_t axis, double most) {
  constexpr double kTiny = 1e-7;  // PyTorch's
  check_floating("renorm", x);
  WICK_CHECK(p > 0, "renorm: p: got ", p, ", expected more than 0");
  WICK_CHECK(most >= 0, "renorm: most: got ", most, ", expected 0 or more");
  WICK_CHECK(x.rank() >= 2, "renorm: too few axes: got shape ", x.shape(), ", expected 2 or more");
  return computed_wide({x}, [&](const std::vector<Tensor>& in) {
    Shape others;
    const int kept = wrap_axis("renorm", axis, x.rank());
    for (int a = 0; a < x.rank(); ++a) {
      if (a != kept) others.push_back(a);
    }
    const Tensor size = norm(in[0], p, others, /*keepdim=*/true);
    const Tensor large = gt(size, most);
    return in[0] * masked_fill(most / (size + kTiny), logical_not(large), 1);
  });
}

Tensor cdist(const Tensor& x, const Tensor& y, double p) {
  constexpr int64_t kFewRows = 25;
  check_floating("cdist", x);
  check_p("cdist", p);
  WICK_CHECK(x.rank() >= 2 && y.rank() >= 2 && x.size(-1) == y.size(-1),
             "cdist: shapes do not fit: got ", x.shape(), " and ", y.shape(),
             ", expected [..., P, M] and [..., R, M]");
  return computed_wide({x, y}, [&](const std::vector<Tensor>& in) {
    if (p == 2 && (x.size(-2) > kFewRows || y.size(-2) > kFewRows)) return euclidean(in[0], in[1]);
    return norm(in[0].unsqueeze(-2) - in[1].unsqueeze(-3), p, {-1});
  });
}

Tensor pdist(const Tensor& x, double p) {
  check_floating("pdist", x);
  check_p("pdist", p);
  WICK_CHECK(x.rank() == 2, "pdist: wrong number of axes: got shape ", x.shape(),
             ", expected [N, M]");
  const int64_t n = x.size(0);
  const Tensor pairs = nonzero(triu(ones({n, n}, kUint8, x.device()), 1));
  return computed_wide({x}, [&](const std::vector<Tensor>& in) {
    const Tensor first = index_select(in[0], 0, pairs.select(1, 0));
    return norm(first - index_select(in[0], 0, pairs.select(1, 1)), p, {-1});
  });
}

Tensor bilinear(const Tensor& x1, const Tensor& x2, const Tensor& weight, const Tensor& bias) {
  const OpInfo info{.name = "bilinear", .autocast = {.cuda = Autocast::kPromote}};
  const Shape &a = x1.shape(info.name), &b = x2.shape(info.name), &w = weight.shape(info.name);
  bool fits = w.rank() == 3 && a.rank() == b.rank() && !a.empty() && a.back() == w[1] &&
              b.back() == w[2] && (!bias.defined() || bias.shape() == Shape{w[0]});
  for (int axis = 0; fits && axis + 1 < a.rank(); ++axis) fits = a[axis] == b[axis];
  WICK_CHECK(fits, info.name, ": shapes do not fit: got x1 ", a, ", x2 ", b, ", weight ", w,
             ", expected [..., I], [..., J] and [O, I, J]");
  const std::array<Tensor, 4> given{x1, x2, weight, bias};
  std::vector<Tensor> cast;
  const std::span<const Tensor> inputs = amp::cast_inputs(info, given, cast);
  return computed_wide({inputs[0], inputs[1], inputs[2], inputs[3]},
                       [&](const std::vector<Tensor>& in) {
                         const amp::Pause pause;  // promoted, and so not a product in 16 bits
                         const Tensor rows = in[2].permute({1, 0, 2}).reshape({w[1], w[0] * w[2]});
                         const Tensor by_x1 = matmul(in[0], rows).unflatten(-1, {w[0], w[2]});
                         const Tensor y = matmul(by_x1, in[1].unsqueeze(-1)).squeeze(-1);
                         return bias.defined() ? y + in[3] : y;
                       });
}

}  // namespace wick
