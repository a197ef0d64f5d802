#include "wick/core/ops/linalg.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "wick/core/apply.h"
#include "wick/core/ops/arrange.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/detail/matrices.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/sort.h"
#include "wick/kernels/decompose.h"

namespace wick::linalg {

namespace {

Tensor unit_lower(const Tensor& lu, int64_t rank) {
  return lu.narrow(-1, 0, rank).tril(-1) + eye(lu.size(-2), rank, lu.dtype(), lu.device());
}
Tensor upper_of(const Tensor& lu, int64_t rank) { return lu.narrow(-2, 0, rank).triu(); }

// Which row of a matrix of `rows` rows comes to each place by the exchanges `pivots` [..., k].
struct RowOrder {
  static constexpr OpInfo info{.name = "row_order", .differentiable = false};
  int64_t rows;
  static constexpr auto fields = std::tuple{field("rows", &RowOrder::rows)};

  Tensor forward(Saved&, const Tensor& pivots) const {
    const Shape batch = batch_of(pivots.unsqueeze(-1));
    const int64_t count = batch.numel(), length = pivots.size(-1);
    const auto swaps = pivots.cpu().to(kInt64).to_vector<int64_t>();
    const Tensor order = empty(with(batch, {rows}), kInt64);
    for (int64_t b = 0; b < count; ++b) {
      int64_t* const mine = order.data<int64_t>() + b * rows;
      std::iota(mine, mine + rows, int64_t{0});
      for (int64_t i = 0; i < length; ++i) {
        const int64_t other = swaps[static_cast<size_t>(b * length + i)] - 1;
        WICK_CHECK(other >= i && other < rows, "lu: wrong pivot: got ", other + 1, " for row ",
                   i + 1, " of ", rows);
        std::swap(mine[i], mine[other]);
      }
    }
    return order.to(pivots.device());
  }
};
Tensor order_of(const Tensor& pivots, int64_t rows) { return apply(RowOrder{rows}, pivots); }

Tensor rows_at(const Tensor& x, const Tensor& order) {
  return take_along_axis(x, order.unsqueeze(-1), -2);
}
Tensor rows_back(const Tensor& x, const Tensor& order) { return rows_at(x, argsort(order)); }

// Both with the batch that they broadcast to.
std::pair<Tensor, Tensor> in_one_batch(const char* op, const Tensor& a, const Tensor& b) {
  const Shape batch = broadcast_shapes(op, batch_of(a), batch_of(b));
  return {a.expand(with(batch, {a.size(-2), a.size(-1)})),
          b.expand(with(batch, {b.size(-2), b.size(-1)}))};
}

// With equal batches.
struct SolveTriangular {
  static constexpr OpInfo info{.name = "solve_triangular", .autocast = kInFull};
  bool upper, unit;
  static constexpr auto fields =
      std::tuple{field("upper", &SolveTriangular::upper), field("unit", &SolveTriangular::unit)};

  Tensor forward(Saved& saved, const Tensor& a, const Tensor& b) const {
    WICK_CHECK(a.dtype() == b.dtype(), info.name, ": dtypes differ: got ", a.dtype(), " and ",
               b.dtype());
    check_matrix(info.name, b);
    const Shape square = with(batch_of(b), {b.size(-2), b.size(-2)});
    WICK_CHECK(a.shape() == square, info.name, ": b does not fit: got ", b.shape(), " for a of ",
               a.shape());
    const Tensor x = on_host(info.name, b).clone(MemoryFormat::kContiguous);
    wick::solve_triangular(on_host(info.name, a).view_for_kernel(), x.view_for_kernel(), upper,
                           unit);
    const Tensor result = x.view(b.shape()).to(b.device());
    saved.save(a, result);
    return result;
  }
  Gradients backward(const Saved& saved, const Tensor& dx) const {
    const Tensor db = apply(SolveTriangular{!upper, unit}, transposed(saved[0]), dx);
    const Tensor da = matmul(db, transposed(saved[1])).neg();
    return {upper ? da.triu(unit ? 1 : 0) : da.tril(unit ? -1 : 0), db};
  }
};

struct Cholesky {
  static constexpr OpInfo info{.name = "cholesky", .autocast = kInFull};

  Tensor forward(Saved& saved, const Tensor& a) const {
    check_square(info.name, a);
    const Tensor factor = on_host(info.name, a).clone(MemoryFormat::kContiguous);
    const int64_t failed = cholesky_in_place(factor.view_for_kernel());
    WICK_CHECK(failed < 0, "cholesky: matrix ", failed, " of the batch is not positive definite");
    const Tensor result = factor.view(a.shape()).to(a.device());
    saved.save(result);
    return result;
  }
  // Murray, "Differentiation of the Cholesky decomposition", 2016.
  Gradients backward(const Saved& saved, const Tensor& dfactor) const {
    const Tensor factor = saved[0];
    const Tensor all = matmul(transposed(factor), dfactor).tril();
    const Tensor half = all - diag_embed(all.diagonal(0, -2, -1)) * 0.5;
    const Tensor left = solve_triangular(transposed(factor), half, /*upper=*/true);
    const Tensor da = solve_triangular(factor, left, /*upper=*/false, /*left=*/false);
    return {(da + transposed(da)) * 0.5};
  }
};

struct CholeskySolve {
  static constexpr OpInfo info{.name = "cholesky_solve", .autocast = kInFull};
  bool upper;
  static constexpr auto fields = std::tuple{field("upper", &CholeskySolve::upper)};

  Tensor forward(Saved& saved, const Tensor& b, const Tensor& factor) const {
    const Tensor lower = upper ? transposed(factor) : factor;
    const Tensor y = solve_triangular(lower, b, /*upper=*/false);
    const Tensor x = solve_triangular(transposed(lower), y, /*upper=*/true);
    saved.save(factor, x);
    return x;
  }
  // Of all of the factor, as PyTorch has it: as if none of it were known to be 0.
  Gradients backward(const Saved& saved, const Tensor& dx) const {
    const Tensor factor = saved[0], db = cholesky_solve(dx, factor, upper);
    const Tensor half = matmul(db, transposed(saved[1])), all = half + transposed(half);
    return {db, (upper ? matmul(factor, all) : matmul(all, factor)).neg()};
  }
};

struct LuFactor {
  static constexpr OpInfo info{.name = "lu_factor", .autocast = kInFull};

  std::array<Tensor, 2> forward(Saved& saved, const Tensor& a) const {
    const int64_t rank = std::min(a.size(-2), a.size(-1));
    const Tensor factors = on_host(info.name, a).clone(MemoryFormat::kContiguous);
    const Tensor exchanges = empty({factors.size(0), rank}, kInt32);
    lu_in_place(factors.view_for_kernel(), exchanges.view_for_kernel());
    const Tensor lu = factors.view(a.shape()).to(a.device());
    const Tensor pivots = exchanges.view(with(batch_of(a), {rank})).to(a.device());
    saved.save(lu, pivots);
    return {lu, pivots};
  }
  // Of the square part, and of what is left of it or below; then the rows go back.
  Gradients backward(const Saved& saved, const Tensor& dlu, const Tensor&) const {
    const Tensor lu = saved[0];
    const int64_t rows = lu.size(-2), columns = lu.size(-1), rank = std::min(rows, columns);
    const Tensor l = unit_lower(lu, rank), u = upper_of(lu, rank);
    const Tensor dl = dlu.narrow(-1, 0, rank).tril(-1), du = dlu.narrow(-2, 0, rank).triu();
    const Tensor square_l = l.narrow(-2, 0, rank), square_u = u.narrow(-1, 0, rank);
    Tensor below = matmul(transposed(square_l), dl.narrow(-2, 0, rank));
    Tensor above = matmul(du.narrow(-1, 0, rank), transposed(square_u));
    if (columns > rank) {
      const int64_t rest = columns - rank;
      below = below - matmul(du.narrow(-1, rank, rest), transposed(u.narrow(-1, rank, rest)));
    }
    if (rows > rank) {
      const int64_t rest = rows - rank;
      above = above - matmul(transposed(l.narrow(-2, rank, rest)), dl.narrow(-2, rank, rest));
    }
    const auto by_l = [&](const Tensor& x) {
      return solve_triangular(transposed(square_l), x, /*upper=*/true, true, /*unit=*/true);
    };
    const auto by_u = [&](const Tensor& x) {
      return solve_triangular(transposed(square_u), x, /*upper=*/false, /*left=*/false);
    };
    Tensor da = by_u(by_l(below.tril(-1) + above.triu()));
    if (columns > rank) da = cat({da, by_l(du.narrow(-1, rank, columns - rank))}, -1);
    if (rows > rank) da = cat({da, by_u(dl.narrow(-2, rank, rows - rank))}, -2);
    return {rows_back(da, order_of(saved[1], rows))};
  }
};

void check_regular(const char* op, const Tensor& lu) {
  if (lu.numel() == 0) return;
  const Tensor singular = (lu.diagonal(0, -2, -1) == 0).any({-1}).reshape({-1});
  WICK_CHECK(!singular.any().item<bool>(), op, ": matrix ", singular.argmax().item<int64_t>(),
             " of the batch is singular");
}

// a x = b, with equal batches.
struct Solve {
  static constexpr OpInfo info{.name = "solve", .autocast = kInFull};

  Tensor forward(Saved& saved, const Tensor& a, const Tensor& b) const {
    check_full(info.name, a);
    const LuFactors factors = lu_factor(a);
    check_regular("solve", factors.lu);
    const Tensor x = lu_solve(factors.lu, factors.pivots, b);
    saved.save(a, x);
    return x;
  }
  Gradients backward(const Saved& saved, const Tensor& dx) const {
    const Tensor db = apply(Solve{}, transposed(saved[0]), dx);
    return {matmul(db, transposed(saved[1])).neg(), db};
  }
};

struct Slogdet {
  static constexpr OpInfo info{.name = "slogdet", .autocast = kInFull};

  std::array<Tensor, 2> forward(Saved& saved, const Tensor& a) const {
    check_full(info.name, a);
    const LuFactors factors = lu_factor(a);
    const Tensor diagonal = factors.lu.diagonal(0, -2, -1);
    const Tensor places = arange(1, a.size(-1) + 1, 1, kInt32, a.device());
    const Tensor exchanges = (factors.pivots != places).sum({-1}).to(a.dtype());
    const Tensor parity = exchanges - (exchanges * 0.5).floor() * 2;
    saved.save(a);
    return {diagonal.sign().prod({-1}) * (parity * -2 + 1), diagonal.abs().log().sum({-1})};
  }
  Gradients backward(const Saved& saved, const Tensor&, const Tensor& dlog) const {
    if (!dlog.defined()) return {Tensor()};
    return {transposed(inv(saved[0])) * dlog.unsqueeze(-1).unsqueeze(-1)};
  }
};

struct QrOp {
  static constexpr OpInfo info{.name = "qr", .autocast = kInFull};

  std::array<Tensor, 2> forward(Saved& saved, const Tensor& a) const {
    const int64_t rank = std::min(a.size(-2), a.size(-1)), count = batch_of(a).numel();
    const Tensor q = empty({count, a.size(-2), rank}, a.dtype());
    const Tensor r = empty({count, rank, a.size(-1)}, a.dtype());
    qr_decompose(on_host(info.name, a).view_for_kernel(), q.view_for_kernel(), r.view_for_kernel());
    const Tensor all_q = q.view(with(batch_of(a), {a.size(-2), rank})).to(a.device());
    const Tensor all_r = r.view(with(batch_of(a), {rank, a.size(-1)})).to(a.device());
    saved.save(a, all_q, all_r);
    return {all_q, all_r};
  }
  Gradients backward(const Saved& saved, const Tensor& given_dq, const Tensor& given_dr) const {
    const Tensor a = saved[0], q = saved[1], r = saved[2];
    const int64_t rank = r.size(-2), rest = r.size(-1) - rank;
    Tensor dq = given_dq.defined() ? given_dq : zeros_like(q);
    const Tensor dr = given_dr.defined() ? given_dr : zeros_like(r);
    if (rest == 0) return {of_full_columns(q, r, dq, dr)};
    // a = [x y], of which x = q r and y = q v: v = q^T y passes its gradient on to q.
    const Tensor y = a.narrow(-1, rank, rest), dv = dr.narrow(-1, rank, rest);
    dq = dq + matmul(y, transposed(dv));
    const Tensor dx = of_full_columns(q, r.narrow(-1, 0, rank), dq, dr.narrow(-1, 0, rank));
    return {cat({dx, matmul(q, dv)}, -1)};
  }

 private:
  // Walter and Lehmann, "Algorithmic Differentiation of Linear Algebra Functions", 2018.
  static Tensor of_full_columns(const Tensor& q, const Tensor& r, const Tensor& dq,
                                const Tensor& dr) {
    const Tensor m = matmul(r, transposed(dr)) - matmul(transposed(dq), q);
    const Tensor symmetric = m.tril() + transposed(m.tril(-1));
    return solve_triangular(transposed(r), dq + matmul(q, symmetric), /*upper=*/false,
                            /*left=*/false);
  }
};

}  // namespace

Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool left,
                        bool unitriangular) {
  const char* op = "solve_triangular";
  check_square(op, a);
  check_matrix(op, b);
  if (!left) {
    return transposed(solve_triangular(transposed(a), transposed(b), !upper, true, unitriangular));
  }
  WICK_CHECK(a.size(-1) == b.size(-2), op, ": b does not fit: got ", b.shape(), " for a of ",
             a.shape());
  const auto [triangle, right] = in_one_batch(op, a, b);
  return apply(SolveTriangular{upper, unitriangular}, triangle, right);
}

Tensor cholesky(const Tensor& a, bool upper) {
  check_square("cholesky", a);
  return upper ? transposed(apply(Cholesky{}, transposed(a))) : apply(Cholesky{}, a);
}

Tensor cholesky_solve(const Tensor& b, const Tensor& factor, bool upper) {
  const char* op = "cholesky_solve";
  check_square(op, factor);
  check_matrix(op, b);
  WICK_CHECK(factor.size(-1) == b.size(-2), op, ": b does not fit: got ", b.shape(),
             " for a factor of ", factor.shape());
  const auto [triangle, right] = in_one_batch(op, factor, b);
  return apply(CholeskySolve{upper}, right, triangle);
}

Tensor cholesky_inverse(const Tensor& factor, bool upper) {
  check_square("cholesky_inverse", factor);
  return cholesky_solve(eye(factor.size(-1), {}, factor.dtype(), factor.device()), factor, upper);
}

LuFactors lu_factor(const Tensor& a) {
  check_matrix("lu_factor", a);
  const auto [lu, pivots] = apply(LuFactor{}, a);
  return {lu, pivots};
}

Lu lu_unpack(const Tensor& lu, const Tensor& pivots) {
  check_matrix("lu_unpack", lu);
  check_defined("lu_unpack", pivots);
  const int64_t rows = lu.size(-2), rank = std::min(rows, lu.size(-1));
  const Tensor unit = eye(rows, {}, lu.dtype(), lu.device());
  const Tensor order = order_of(pivots, rows);
  const Tensor each = unit.expand(with(batch_of(lu), {rows, rows}));
  return {rows_back(each, order), unit_lower(lu, rank), upper_of(lu, rank)};
}

Lu lu(const Tensor& a) {
  check_defined("lu", a);
  const LuFactors factors = lu_factor(a);
  return lu_unpack(factors.lu, factors.pivots);
}

Tensor lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& b, bool left, bool adjoint) {
  check_square("lu_solve", lu);
  check_defined("lu_solve", pivots);
  check_matrix("lu_solve", b);
  if (!left) return transposed(lu_solve(lu, pivots, transposed(b), true, !adjoint));
  const auto [factors, right] = in_one_batch("lu_solve", lu, b);
  const Tensor order = order_of(pivots, lu.size(-1)).expand(with(batch_of(factors), {lu.size(-1)}));
  if (adjoint) {
    const Tensor y = solve_triangular(transposed(factors), right, /*upper=*/false);
    return rows_back(solve_triangular(transposed(factors), y, true, true, /*unit=*/true), order);
  }
  const Tensor y = solve_triangular(factors, rows_at(right, order), false, true, /*unit=*/true);
  return solve_triangular(factors, y, /*upper=*/true);
}

Tensor solve(const Tensor& a, const Tensor& b, bool left) {
  const char* op = "solve";
  check_square(op, a);
  Shape vectors = batch_of(a);
  vectors.push_back(a.size(-1));
  if (b.rank(op) == 1 || b.shape() == vectors) {
    return solve(a, b.unsqueeze(-1), true).squeeze(-1);
  }
  check_matrix(op, b);
  if (!left) return transposed(solve(transposed(a), transposed(b)));
  WICK_CHECK(a.size(-1) == b.size(-2), op, ": b does not fit: got ", b.shape(), " for a of ",
             a.shape());
  const auto [matrix, right] = in_one_batch(op, a, b);
  return apply(Solve{}, matrix, right);
}

Tensor inv(const Tensor& a) {
  check_square("inv", a);
  return solve(a, eye(a.size(-1), {}, a.dtype(), a.device()).expand(a.shape()));
}

SignAndLog slogdet(const Tensor& a) {
  check_square("slogdet", a);
  const auto [sign, logarithm] = apply(Slogdet{}, a);
  return {sign, logarithm};
}

Tensor det(const Tensor& a) {
  check_square("det", a);
  const SignAndLog found = slogdet(a);
  return found.sign * found.logabsdet.exp();
}

Tensor logdet(const Tensor& a) {
  check_square("logdet", a);
  const SignAndLog found = slogdet(a);
  return found.logabsdet + where(found.sign < 0, std::nan(""), zeros_like(found.sign));
}

Qr qr(const Tensor& a) {
  check_matrix("qr", a);
  const auto [q, r] = apply(QrOp{}, a);
  return {q, r};
}

Tensor matrix_power(const Tensor& a, int64_t exponent) {
  check_square("matrix_power", a);
  Tensor square = exponent < 0 ? inv(a) : a, power;
  for (auto left = static_cast<uint64_t>(std::abs(exponent)); left > 0; left >>= 1) {
    if ((left & 1) != 0) power = power.defined() ? matmul(power, square) : square;
    if (left > 1) square = matmul(square, square);
  }
  if (power.defined()) return power.is_leaf() ? power.clone() : power;
  return eye(a.size(-1), {}, a.dtype(), a.device()).expand(a.shape()).contiguous();
}

Tensor multi_dot(const std::vector<Tensor>& matrices) {
  const char* op = "multi_dot";
  WICK_CHECK(matrices.size() >= 2, op, ": needs two or more matrices: got ", matrices.size());
  std::vector<Tensor> chain = matrices;
  const bool from_vector = chain.front().rank(op) == 1, to_vector = chain.back().rank(op) == 1;
  if (from_vector) chain.front() = chain.front().unsqueeze(0);
  if (to_vector) chain.back() = chain.back().unsqueeze(1);
  for (const Tensor& one : chain) {
    WICK_CHECK(one.rank(op) == 2, op, ": needs matrices: got shape ", one.shape());
  }
  const size_t n = chain.size();
  // best[i][j]: the fewest multiplications for i ... j, and after which matrix to cut.
  std::vector<std::vector<std::pair<double, size_t>>> best(n);
  for (auto& row : best) row.resize(n);
  for (size_t length = 1; length < n; ++length) {
    for (size_t i = 0; i + length < n; ++i) {
      const size_t j = i + length;
      best[i][j].first = std::numeric_limits<double>::infinity();
      for (size_t cut = i; cut < j; ++cut) {
        const auto cost = static_cast<double>(chain[i].size(0)) *
                          static_cast<double>(chain[cut].size(1)) *
                          static_cast<double>(chain[j].size(1));
        const double all = best[i][cut].first + best[cut + 1][j].first + cost;
        if (all < best[i][j].first) best[i][j] = {all, cut};
      }
    }
  }
  const auto product = [&](const auto& self, size_t i, size_t j) -> Tensor {
    if (i == j) return chain[i];
    const size_t cut = best[i][j].second;
    return matmul(self(self, i, cut), self(self, cut + 1, j));
  };
  Tensor result = product(product, 0, n - 1);
  if (to_vector) result = result.squeeze(1);
  return from_vector ? result.squeeze(0) : result;
}

Tensor vander(const Tensor& x, std::optional<int64_t> columns) {
  if (x.rank("vander") == 0) return vander(x.reshape({1}), columns);
  const int64_t count = columns.value_or(x.size(-1));
  WICK_CHECK(count >= 1, "vander: columns: got ", count, ", expected 1 or more");
  Shape shape = x.shape();
  shape.push_back(1);
  const Tensor one = ones(shape, x.dtype() == kBool ? kInt64 : x.dtype(), x.device());
  shape[shape.rank() - 1] = count - 1;
  return cumprod(cat({one, x.unsqueeze(-1).to(one.dtype()).expand(shape)}, -1), -1);
}

}  // namespace wick::linalg
