// What follows from singular values and eigenvalues.
#include <algorithm>
#include <cmath>
#include <limits>

#include "wick/core/apply.h"
#include "wick/core/ops/arrange.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/detail/matrices.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/linalg.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/ops/reduce.h"
#include "wick/kernels/decompose.h"

namespace wick::linalg {

namespace {

// x_j - x_i at [i, j], but 1 on the diagonal.
Tensor differences(const Tensor& x) {
  const Tensor between = x.unsqueeze(-2) - x.unsqueeze(-1);
  return between + eye(x.size(-1), {}, x.dtype(), x.device());
}

Tensor skew(const Tensor& x) { return x - transposed(x); }

struct SvdOp {
  static constexpr OpInfo info{.name = "svd", .autocast = kInFull};

  std::array<Tensor, 3> forward(Saved& saved, const Tensor& a) const {
    const int64_t rows = a.size(-2), columns = a.size(-1), rank = std::min(rows, columns);
    const Shape batch = batch_of(a);
    const int64_t count = batch.numel();
    const Tensor u = empty({count, rows, rank}, a.dtype()), s = empty({count, rank}, a.dtype());
    const Tensor vh = empty({count, rank, columns}, a.dtype());
    svd_decompose(on_host(info.name, a).view_for_kernel(), u.view_for_kernel(), s.view_for_kernel(),
                  vh.view_for_kernel());
    const Tensor all_u = u.view(with(batch, {rows, rank})).to(a.device());
    const Tensor all_s = s.view(with(batch, {rank})).to(a.device());
    const Tensor all_vh = vh.view(with(batch, {rank, columns})).to(a.device());
    saved.save(all_u, all_s, all_vh);
    return {all_u, all_s, all_vh};
  }
  // Townsend, "Differentiating the Singular Value Decomposition", 2016.
  Gradients backward(const Saved& saved, const Tensor& du, const Tensor& ds,
                     const Tensor& dvh) const {
    const Tensor u = saved[0], s = saved[1], vh = saved[2];
    const int64_t rank = s.size(-1);
    Tensor inner;
    if (ds.defined()) inner = diag_embed(ds);
    const auto add = [&](const Tensor& part) { inner = inner.defined() ? inner + part : part; };
    const Tensor gaps = du.defined() || dvh.defined() ? differences(s.square()) : Tensor();
    if (du.defined()) add(skew(matmul(transposed(u), du)) / gaps * s.unsqueeze(-2));
    if (dvh.defined()) add(s.unsqueeze(-1) * (skew(matmul(vh, transposed(dvh))) / gaps));
    Tensor da = matmul(u, inner);
    if (du.defined() && u.size(-2) > rank) {
      da = da + (du - matmul(u, matmul(transposed(u), du))) / s.unsqueeze(-2);
    }
    da = matmul(da, vh);
    if (dvh.defined() && vh.size(-1) > rank) {
      const Tensor outside = dvh - matmul(matmul(dvh, transposed(vh)), vh);
      da = da + matmul(u / s.unsqueeze(-2), outside);
    }
    return {da};
  }
};

struct EighOp {
  static constexpr OpInfo info{.name = "eigh", .autocast = kInFull};

  std::array<Tensor, 2> forward(Saved& saved, const Tensor& a) const {
    check_square(info.name, a);
    const int64_t n = a.size(-1);
    const Shape batch = batch_of(a);
    const int64_t count = batch.numel();
    const Tensor w = empty({count, n}, a.dtype()), v = empty({count, n, n}, a.dtype());
    eigh_decompose(on_host(info.name, a).view_for_kernel(), w.view_for_kernel(),
                   v.view_for_kernel());
    const Tensor all_w = w.view(with(batch, {n})).to(a.device());
    const Tensor all_v = v.view(a.shape()).to(a.device());
    saved.save(all_w, all_v);
    return {all_w, all_v};
  }
  Gradients backward(const Saved& saved, const Tensor& dw, const Tensor& dv) const {
    const Tensor w = saved[0], v = saved[1];
    Tensor inner = diag_embed(dw.defined() ? dw : zeros_like(w));
    if (dv.defined()) {
      const Tensor turn = matmul(transposed(v), dv) / differences(w);
      inner = inner + turn - diag_embed(turn.diagonal(0, -2, -1));
    }
    return {matmul(matmul(v, inner), transposed(v))};
  }
};

// Of the singular values above `threshold` [...].
struct Pinv {
  static constexpr OpInfo info{.name = "pinv", .autocast = kInFull};
  bool hermitian;
  static constexpr auto fields = std::tuple{field("hermitian", &Pinv::hermitian)};

  Tensor forward(Saved& saved, const Tensor& a, const Tensor& threshold) const {
    Tensor left, values, right;
    if (hermitian) {
      const Eigh found = eigh(a);
      left = found.v, values = found.w, right = transposed(found.v);
    } else {
      const Svd found = svd(a);
      left = found.u, values = found.s, right = found.vh;
    }
    const Tensor counts = values.abs() > threshold.unsqueeze(-1);
    const Tensor inverse = where(counts, values.reciprocal(), 0);
    const Tensor result = matmul(transposed(right) * inverse.unsqueeze(-2), transposed(left));
    saved.save(a, result);
    return result;
  }
  // Golub and Pereyra, "The Differentiation of Pseudo-Inverses", 1973.
  Gradients backward(const Saved& saved, const Tensor& dx) const {
    const Tensor a = saved[0], x = saved[1], xt = transposed(x), g = transposed(dx);
    if (a.size(-2) <= a.size(-1)) {
      const Tensor k = matmul(g, x), kxt = matmul(k, xt);
      return {kxt - transposed(matmul(x, k)) - matmul(matmul(a, x), kxt) +
                  matmul(matmul(xt, x), g - matmul(k, a)),
              Tensor()};
    }
    const Tensor k = matmul(x, g), xtk = matmul(xt, k);
    return {xtk - transposed(matmul(k, x)) + matmul(matmul(g - matmul(a, k), x), xt) -
                matmul(matmul(xtk, x), a),
            Tensor()};
  }
};

// Singular values, or those of a symmetric matrix.
Tensor values_of(const Tensor& a, bool hermitian) {
  return hermitian ? eigvalsh(a).abs() : svdvals(a);
}

// Values of a and what of them counts as 0.
std::pair<Tensor, Tensor> values_and_threshold(const char* op, const Tensor& a,
                                               const RankOptions& options) {
  check_matrix(op, a);
  if (options.hermitian) check_square(op, a);
  const NoGrad no_grad;
  const Tensor values = values_of(a.detach(), options.hermitian);
  const double epsilon = a.dtype() == kFloat64
                             ? std::numeric_limits<double>::epsilon()
                             : static_cast<double>(std::numeric_limits<float>::epsilon());
  Tensor threshold = zeros(batch_of(a), a.dtype(), a.device());
  if (values.size(-1) > 0) {
    const double usual = static_cast<double>(std::max(a.size(-2), a.size(-1))) * epsilon;
    Tensor rtol = options.rtol;
    if (!rtol.defined()) {
      rtol = scalar_tensor(usual, a.dtype(), a.device());
      if (options.atol.defined()) {
        rtol = where(options.atol.to(a.device()) > 0, 0, rtol).to(a.dtype());
      }
    }
    threshold = values.amax({-1}) * rtol.to(a.device());
  }
  if (options.atol.defined()) threshold = maximum(threshold, options.atol.to(a.device()));
  return {values, threshold.to(a.dtype())};
}

Tensor norm_of_last_two(const Tensor& a, const MatrixOrder& order) {
  if (const auto* name = std::get_if<MatrixNorm>(&order)) {
    return *name == MatrixNorm::kFrobenius ? wick::norm(a, 2, {-2, -1}) : svdvals(a).sum({-1});
  }
  const double number = std::get<double>(order), size = std::fabs(number);
  WICK_CHECK(size == 1 || size == 2 || std::isinf(size), "matrix_norm: order: got ", number,
             ", expected 1, 2 or infinity, of either sign, or the name of a norm");
  const Tensor sums = size == 2 ? svdvals(a) : a.abs().sum({size == 1 ? -2 : -1});
  return number > 0 ? sums.amax({-1}) : sums.amin({-1});
}

}  // namespace

Svd svd(const Tensor& a) {
  check_matrix("svd", a);
  const auto [u, s, vh] = apply(SvdOp{}, a);
  return {u, s, vh};
}

Tensor svdvals(const Tensor& a) {
  check_matrix("svdvals", a);
  return svd(a).s;
}

Eigh eigh(const Tensor& a, bool upper) {
  check_square("eigh", a);
  const auto [w, v] = apply(EighOp{}, upper ? transposed(a) : a);
  return {w, v};
}

Tensor eigvalsh(const Tensor& a, bool upper) {
  check_square("eigvalsh", a);
  return eigh(a, upper).w;
}

Tensor matrix_norm(const Tensor& a, const MatrixOrder& order, std::pair<int64_t, int64_t> axes,
                   bool keepdim) {
  const char* op = "matrix_norm";
  check_matrix(op, a);
  const int64_t rank = a.rank();
  const auto place = [&](int64_t axis) { return axis < 0 ? axis + rank : axis; };
  const int64_t row = place(axes.first), column = place(axes.second);
  WICK_CHECK(row >= 0 && row < rank && column >= 0 && column < rank && row != column, op,
             ": wrong axes: got ", axes.first, " and ", axes.second, " for shape ", a.shape());
  const Tensor found = norm_of_last_two(a.movedim({row, column}, {-2, -1}), order);
  if (!keepdim) return found;
  return found.unsqueeze(std::min(row, column)).unsqueeze(std::max(row, column));
}

Tensor norm(const Tensor& x, const std::optional<MatrixOrder>& order, const Shape& axes,
            bool keepdim) {
  const char* op = "linalg::norm";
  if (!order) return wick::norm(x, 2, axes, keepdim);
  Shape named = axes;
  if (named.empty()) {
    WICK_CHECK(x.rank(op) == 1 || x.rank() == 2, op,
               ": an order without axes needs a vector or a matrix: got shape ", x.shape());
    named = x.rank() == 1 ? Shape{0} : Shape{0, 1};
  }
  if (named.rank() == 2) return matrix_norm(x, *order, {named[0], named[1]}, keepdim);
  WICK_CHECK(named.rank() == 1 && std::holds_alternative<double>(*order), op,
             ": wrong axes for this order: got ", axes);
  return wick::norm(x, std::get<double>(*order), named, keepdim);
}

Tensor cond(const Tensor& a, const MatrixOrder& order) {
  check_matrix("cond", a);
  if (const auto* number = std::get_if<double>(&order); number && std::fabs(*number) == 2) {
    const Tensor s = svdvals(a);
    const Tensor most = s.select(-1, 0), least = s.select(-1, s.size(-1) - 1);
    return *number > 0 ? most / least : least / most;
  }
  return matrix_norm(a, order) * matrix_norm(inv(a), order);
}

Tensor matrix_rank(const Tensor& a, const RankOptions& options) {
  const auto [values, threshold] = values_and_threshold("matrix_rank", a, options);
  return (values > threshold.unsqueeze(-1)).sum({-1});
}

Tensor pinv(const Tensor& a, const RankOptions& options) {
  const Tensor threshold = values_and_threshold("pinv", a, options).second;
  return apply(Pinv{options.hermitian}, a, threshold);
}

}  // namespace wick::linalg
