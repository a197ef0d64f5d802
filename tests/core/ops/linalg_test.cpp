#include "wick/core/ops/linalg.h"

#include <gtest/gtest.h>

#include <cmath>

#include "wick/core/gradcheck.h"
#include "wick/core/ops/arrange.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/reduce.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/op_case.h"

namespace wick::testing {
namespace {

using linalg::MatrixNorm;

Tensor random_of(const Shape& shape, Device device = kCpu, Dtype dtype = kFloat64) {
  Generator generator(11);
  return randn(shape, dtype, kCpu, &generator).to(device);
}

Tensor mt(const Tensor& a) { return a.transpose(-2, -1); }

// Symmetric and positive definite.
Tensor random_positive(const Shape& shape, Device device = kCpu) {
  const Tensor a = random_of(shape, device);
  return matmul(a, mt(a)) + eye(shape.back(), {}, kFloat64, device);
}

void expect_close(const Tensor& got, const Tensor& want, double tolerance = 1e-10) {
  ASSERT_EQ(got.shape(), want.shape());
  EXPECT_TRUE(allclose(got, want, tolerance, tolerance)) << to_string(got) << to_string(want);
}

void expect_orthonormal(const Tensor& columns) {
  const Tensor unit = eye(columns.size(-1), {}, columns.dtype(), columns.device());
  const Tensor product = matmul(mt(columns), columns);
  expect_close(product, unit.expand(product.shape()));
}

void expect_gradients(const TensorFunction& function, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> leaves;
  for (const Tensor& input : inputs) leaves.push_back(input.detach().clone().requires_grad_());
  EXPECT_TRUE(gradcheck(function, leaves));
}

const std::vector<Dtype> kInFull = {kFloat64, kFloat32};
const Samples kMatrices = {{normal({2, 3, 3})}, {normal({1, 1})}, {normal({5, 5})}};
const Samples kSystems = {{normal({2, 3, 3}), normal({3, 2})},
                          {normal({1, 1}), normal({4, 1, 1})},
                          {normal({2, 2}), normal({2, 0})}};

// Far from a singular matrix.
Tensor regular(const Tensor& x) { return x + eye(x.size(-1), {}, x.dtype(), x.device()) * 6; }

Tensor definite(const Tensor& x) { return regular(matmul(x, mt(x))); }

WICK_OP_CASE(
    solve_triangular, .samples = kSystems,
    .call = [](const Tensors& x) -> Tensors {
      return {linalg::solve_triangular(regular(x[0]), x[1], true),
              linalg::solve_triangular(x[0], x[1], false, true, true)};
    },
    .dtypes = kInFull, .tolerance = Tolerance::matmul(), .second_order = true);

WICK_OP_CASE(
    solve, .samples = kSystems,
    .call = [](const Tensors& x) -> Tensors { return {linalg::solve(regular(x[0]), x[1])}; },
    .dtypes = kInFull, .tolerance = Tolerance::matmul(), .second_order = true);

WICK_OP_CASE(
    cholesky, .samples = kMatrices,
    .call = [](const Tensors& x) -> Tensors { return {linalg::cholesky(definite(x[0]))}; },
    .dtypes = kInFull, .tolerance = Tolerance::matmul(), .second_order = true);

WICK_OP_CASE(
    cholesky_solve, .samples = kSystems,
    .call = [](const Tensors& x) -> Tensors {
      return {linalg::cholesky_solve(x[1], linalg::cholesky(definite(x[0])))};
    },
    .dtypes = kInFull, .tolerance = Tolerance::matmul(), .second_order = true);

WICK_OP_CASE(
    lu_factor, .covers = {"row_order"},
    .samples = {{normal({2, 3, 3})}, {normal({4, 2})}, {normal({2, 4})}},
    .call = [](const Tensors& x) -> Tensors { return {linalg::lu_factor(x[0]).lu}; },
    .dtypes = kInFull, .tolerance = Tolerance::matmul(), .second_order = true);

WICK_OP_CASE(
    slogdet, .samples = kMatrices,
    .call = [](const Tensors& x) -> Tensors {
      const linalg::SignAndLog found = linalg::slogdet(regular(x[0]));
      return {found.sign, found.logabsdet};
    },
    .dtypes = kInFull, .tolerance = Tolerance::matmul(), .second_order = true);

WICK_OP_CASE(
    qr, .samples = {{normal({2, 3, 3})}, {normal({4, 2})}, {normal({2, 4})}},
    .call = [](const Tensors& x) -> Tensors {
      const auto [q, r] = linalg::qr(x[0]);
      return {q, r};
    },
    .dtypes = kInFull, .tolerance = {1000, 1000}, .second_order = true);

WICK_OP_CASE(
    svd, .samples = {{normal({2, 3, 3})}, {normal({4, 2})}, {normal({2, 4})}},
    .call = [](const Tensors& x) -> Tensors { return {linalg::svdvals(x[0])}; }, .dtypes = kInFull,
    .tolerance = {1000, 1000}, .second_order = true);

WICK_OP_CASE(
    eigh, .samples = kMatrices,
    .call = [](const Tensors& x) -> Tensors { return {linalg::eigvalsh(x[0] + mt(x[0]))}; },
    .dtypes = kInFull, .tolerance = {1000, 1000}, .second_order = true);

WICK_OP_CASE(
    pinv, .samples = {{normal({2, 3, 3})}, {normal({4, 2})}, {normal({2, 4})}},
    .call = [](const Tensors& x) -> Tensors { return {linalg::pinv(x[0])}; }, .dtypes = kInFull,
    .tolerance = {1e5, 1e5}, .second_order = true);

const std::vector<Shape> kShapes = {{4, 4}, {2, 5, 3}, {2, 3, 5}, {1, 1}, {33, 20}, {2, 0, 0}};

TEST(Linalg, SolvesTriangles) {
  for (const Device device : devices()) {
    const Tensor a = random_of({3, 4, 4}, device) + eye(4, {}, kFloat64, device) * 4;
    const Tensor b = random_of({4, 2}, device);
    for (const bool upper : {false, true}) {
      for (const bool unit : {false, true}) {
        Tensor triangle = upper ? a.triu() : a.tril();
        if (unit) {
          triangle =
              triangle - diag_embed(triangle.diagonal(0, -2, -1)) + eye(4, {}, kFloat64, device);
        }
        const Tensor x = linalg::solve_triangular(a, b, upper, true, unit);
        expect_close(matmul(triangle, x), b.expand({3, 4, 2}));
        const Tensor y = linalg::solve_triangular(a, mt(b), upper, false, unit);
        expect_close(matmul(y, triangle), mt(b).expand({3, 2, 4}));
      }
    }
  }
  const Tensor a = random_of({3, 3}) + eye(3, {}, kFloat64) * 3, b = random_of({2, 3, 2});
  for (const bool upper : {false, true}) {
    const auto solve = [upper](const std::vector<Tensor>& x) -> std::vector<Tensor> {
      return {linalg::solve_triangular(x[0], x[1], upper),
              linalg::solve_triangular(x[0], mt(x[1]), upper, false, true)};
    };
    expect_gradients(solve, {a, b});
  }
}

TEST(Linalg, FactorsPositiveDefinite) {
  for (const Device device : devices()) {
    const Tensor a = random_positive({2, 5, 5}, device), b = random_of({5, 3}, device);
    const Tensor lower = linalg::cholesky(a), upper = linalg::cholesky(a, true);
    expect_close(matmul(lower, mt(lower)), a);
    expect_close(lower, lower.tril());
    expect_close(upper, mt(lower));
    expect_close(matmul(a, linalg::cholesky_solve(b, lower)), b.expand({2, 5, 3}));
    expect_close(matmul(a, linalg::cholesky_inverse(upper, true)),
                 eye(5, {}, kFloat64, device).expand({2, 5, 5}));
  }
  expect_gradients(
      [](const std::vector<Tensor>& x) -> std::vector<Tensor> {
        const Tensor symmetric = x[0] + mt(x[0]);
        return {linalg::cholesky(symmetric), linalg::cholesky(symmetric, true)};
      },
      {random_positive({3, 3})});
  // The factor's gradient is that of a matrix whose elements are all free.
  expect_gradients(
      [](const std::vector<Tensor>& x) -> std::vector<Tensor> {
        return {linalg::cholesky_solve(x[1], linalg::cholesky(x[0] + mt(x[0]))),
                linalg::cholesky_inverse(linalg::cholesky(x[0] + mt(x[0]), true), true)};
      },
      {random_positive({3, 3}), random_of({3, 2})});
  EXPECT_EQ(error_of([] {
              linalg::cholesky(stack({eye(2), eye(2).neg()}));
            }),
            "cholesky: matrix 1 of the batch is not positive definite");
}

TEST(Linalg, FactorsByRowExchanges) {
  for (const Device device : devices()) {
    for (const Shape& shape : kShapes) {
      const Tensor a = random_of(shape, device);
      const linalg::Lu parts = linalg::lu(a);
      expect_close(matmul(matmul(parts.p, parts.l), parts.u), a);
      if (a.numel() == 0 || a.size(-1) != a.size(-2)) continue;
      const linalg::LuFactors factors = linalg::lu_factor(a);
      const Tensor b = random_of({a.size(-1), 2}, device), wanted = b.expand(b.shape());
      for (const bool adjoint : {false, true}) {
        const Tensor x = linalg::lu_solve(factors.lu, factors.pivots, b, true, adjoint);
        expect_close(matmul(adjoint ? mt(a) : a, x), wanted);
        const Tensor y = linalg::lu_solve(factors.lu, factors.pivots, mt(b), false, adjoint);
        expect_close(matmul(y, adjoint ? mt(a) : a), mt(wanted));
      }
    }
  }
  for (const Shape& shape : {Shape{3, 3}, Shape{4, 2}, Shape{2, 4}}) {
    expect_gradients(
        [](const std::vector<Tensor>& x) -> std::vector<Tensor> {
          const linalg::Lu parts = linalg::lu(x[0]);
          return {parts.l, parts.u};
        },
        {random_of(shape)});
  }
  EXPECT_EQ(error_of([] {
              linalg::lu_unpack(eye(2), tensor<int64_t>({1, 3}).to(kInt32));
            }),
            "lu: wrong pivot: got 3 for row 2 of 2");
}

TEST(Linalg, SolvesAndInverts) {
  for (const Device device : devices()) {
    const Tensor a = random_of({2, 4, 4}, device), b = random_of({4, 3}, device);
    expect_close(matmul(a, linalg::solve(a, b)), b.expand({2, 4, 3}));
    expect_close(matmul(linalg::solve(a, mt(b), false), a), mt(b).expand({2, 3, 4}));
    const Tensor vectors = random_of({2, 4}, device);
    expect_close(matmul(a, linalg::solve(a, vectors).unsqueeze(-1)).squeeze(-1), vectors);
    expect_close(matmul(linalg::inv(a), a), eye(4, {}, kFloat64, device).expand({2, 4, 4}));
    expect_close(linalg::matrix_power(a, -3), linalg::inv(matmul(a, matmul(a, a))), 1e-7);
    expect_close(linalg::matrix_power(a, 5), matmul(matmul(matmul(a, a), matmul(a, a)), a));
    expect_close(linalg::matrix_power(a, 0), eye(4, {}, kFloat64, device).expand({2, 4, 4}));
  }
  expect_gradients(
      [](const std::vector<Tensor>& x) -> std::vector<Tensor> {
        return {linalg::solve(x[0], x[1]), linalg::inv(x[0]), linalg::matrix_power(x[0], 3)};
      },
      {random_of({2, 3, 3}), random_of({3, 2})});
  EXPECT_EQ(error_of([] {
              linalg::inv(zeros({2, 2}));
            }),
            "solve: matrix 0 of the batch is singular");
  EXPECT_EQ(error_of([] {
              linalg::inv(zeros({2, 3}));
            }),
            "inv: needs square matrices: got shape [2, 3]");
  EXPECT_EQ(error_of([] {
              linalg::inv(zeros({2, 2}, kFloat16));
            }),
            "solve: needs float32 or float64: got float16");
}

TEST(Linalg, FindsDeterminants) {
  for (const Device device : devices()) {
    const Tensor a = tensor({0.0, 2.0, 3.0, 1.0}, Shape{2, 2}).to(device);
    EXPECT_NEAR(linalg::det(a).item<double>(), -6, 1e-12);
    EXPECT_EQ(linalg::slogdet(a).sign.item<double>(), -1);
    EXPECT_NEAR(linalg::slogdet(a).logabsdet.item<double>(), std::log(6), 1e-12);
    EXPECT_TRUE(std::isnan(linalg::logdet(a).item<double>()));
    EXPECT_EQ(linalg::det(zeros({2, 2}, kFloat64, device)).item<double>(), 0);
  }
  expect_gradients(
      [](const std::vector<Tensor>& x) -> std::vector<Tensor> {
        return {linalg::det(x[0]), linalg::logdet(matmul(x[0], mt(x[0])))};
      },
      {random_of({2, 3, 3})});
}

TEST(Linalg, FactorsIntoOrthonormal) {
  for (const Device device : devices()) {
    for (const Shape& shape : kShapes) {
      const Tensor a = random_of(shape, device);
      const auto [q, r] = linalg::qr(a);
      expect_close(matmul(q, r), a);
      expect_close(r, r.triu());
      expect_orthonormal(q);
      const auto [u, s, vh] = linalg::svd(a);
      expect_close(matmul(u * s.unsqueeze(-2), vh), a);
      expect_orthonormal(u);
      expect_orthonormal(mt(vh));
      EXPECT_TRUE(
          (s.slice(-1, 1, s.size(-1)) <= s.slice(-1, 0, s.size(-1) - 1)).all().item<bool>());
    }
  }
  for (const Shape& shape : {Shape{3, 3}, Shape{4, 2}, Shape{2, 4}}) {
    expect_gradients(
        [](const std::vector<Tensor>& x) -> std::vector<Tensor> {
          const auto [q, r] = linalg::qr(x[0]);
          const auto [u, s, vh] = linalg::svd(x[0]);
          // Signs cancel.
          return {q, r, u * vh.select(-1, 0).unsqueeze(-2), s, linalg::svdvals(x[0])};
        },
        {random_of(shape)});
  }
}

TEST(Linalg, CompletesVectorsOfZeroSingularValues) {
  const Tensor a = matmul(random_of({40, 2}), random_of({2, 30}));
  const auto [u, s, vh] = linalg::svd(a);
  expect_orthonormal(u);
  expect_orthonormal(mt(vh));
  expect_close(matmul(u * s, vh), a);
  EXPECT_EQ(linalg::matrix_rank(a).item<int64_t>(), 2);
  expect_orthonormal(linalg::svd(zeros({4, 3}, kFloat64)).u);
}

TEST(Linalg, FindsEigenvalues) {
  for (const Device device : devices()) {
    const Tensor a = random_positive({2, 6, 6}, device);
    for (const bool upper : {false, true}) {
      const auto [w, v] = linalg::eigh(upper ? a.triu() : a.tril(), upper);
      expect_close(matmul(v * w.unsqueeze(-2), mt(v)), a);
      expect_orthonormal(v);
      expect_close(w, linalg::eigvalsh(a));
      expect_close(w.flip({-1}), linalg::svdvals(a));
    }
  }
  expect_gradients(
      [](const std::vector<Tensor>& x) -> std::vector<Tensor> {
        const auto [w, v] = linalg::eigh(x[0] + mt(x[0]));
        return {w, v.square()};
      },
      {random_of({3, 3})});
  const Tensor nan = full({2, 2}, std::nan(""), kFloat64);
  EXPECT_EQ(error_of([&] { linalg::eigh(nan); }),
            "eigh: matrix 0 of the batch holds NaN, infinity or numbers whose squares overflow");
}

TEST(Linalg, FindsNorms) {
  const Tensor a = tensor({3.0, 0.0, 0.0, -4.0}, Shape{2, 2});
  const auto norm = [&](const linalg::MatrixOrder& order) {
    return linalg::matrix_norm(a, order).item<double>();
  };
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_NEAR(norm(MatrixNorm::kFrobenius), 5, 1e-12);
  EXPECT_NEAR(norm(MatrixNorm::kNuclear), 7, 1e-12);
  EXPECT_NEAR(norm(2.0), 4, 1e-12);
  EXPECT_NEAR(norm(-2.0), 3, 1e-12);
  const Tensor b = tensor({1.0, -2.0, 3.0, 4.0, 5.0, -6.0}, Shape{1, 2, 3});
  EXPECT_EQ(linalg::matrix_norm(b, 1.0).item<double>(), 9);
  EXPECT_EQ(linalg::matrix_norm(b, -1.0).item<double>(), 5);
  EXPECT_EQ(linalg::matrix_norm(b, infinity).item<double>(), 15);
  EXPECT_EQ(linalg::matrix_norm(b, -infinity, {2, 1}, true).shape(), Shape({1, 1, 1}));
  EXPECT_EQ(linalg::matrix_norm(b, infinity, {2, 1}).item<double>(), 9);
  EXPECT_NEAR(linalg::norm(b).item<double>(), std::sqrt(91), 1e-12);
  EXPECT_EQ(linalg::norm(b, 1.0, {2}).shape(), Shape({1, 2}));
  EXPECT_NEAR(linalg::cond(a).item<double>(), 4.0 / 3, 1e-12);
  EXPECT_NEAR(linalg::cond(a, 1.0).item<double>(), 4.0 / 3, 1e-12);
  expect_gradients(
      [&](const std::vector<Tensor>& x) -> std::vector<Tensor> {
        return {linalg::matrix_norm(x[0], MatrixNorm::kNuclear), linalg::matrix_norm(x[0], 2.0),
                linalg::matrix_norm(x[0], 1.0), linalg::cond(x[0])};
      },
      {random_of({2, 3, 4})});
  EXPECT_EQ(error_of([&] { linalg::matrix_norm(a, 3.0); }),
            "matrix_norm: order: got 3, expected 1, 2 or infinity, of either sign, or the name of "
            "a norm");
}

TEST(Linalg, InvertsWhatHasNoInverse) {
  for (const Device device : devices()) {
    for (const Shape& shape : {Shape{5, 3}, Shape{2, 3, 5}}) {
      const Tensor a = random_of(shape, device), x = linalg::pinv(a);
      expect_close(matmul(matmul(a, x), a), a);
      expect_close(matmul(matmul(x, a), x), x);
      expect_close(mt(matmul(a, x)), matmul(a, x));
      expect_close(mt(matmul(x, a)), matmul(x, a));
    }
    const Tensor flat = ones({3, 3}, kFloat64, device);
    expect_close(linalg::pinv(flat), flat / 9);
    expect_close(linalg::pinv(flat, {.hermitian = true}), flat / 9);
    const Tensor scaled = tensor({1.0, 0.0, 0.0, 1e-3}, Shape{2, 2}).to(device);
    EXPECT_EQ(linalg::matrix_rank(scaled).item<int64_t>(), 2);
    EXPECT_EQ(linalg::matrix_rank(scaled, {.rtol = scalar_tensor(0.01)}).item<int64_t>(), 1);
    EXPECT_EQ(linalg::matrix_rank(scaled, {.atol = scalar_tensor(2.0)}).item<int64_t>(), 0);
  }
  for (const Shape& shape : {Shape{4, 2}, Shape{2, 4}}) {
    expect_gradients(
        [](const std::vector<Tensor>& x) -> std::vector<Tensor> { return {linalg::pinv(x[0])}; },
        {random_of(shape)});
  }
}

TEST(Linalg, MultipliesChains) {
  const Tensor a = random_of({2, 30}), b = random_of({30, 4}), c = random_of({4, 9});
  expect_close(linalg::multi_dot({a, b, c}), matmul(matmul(a, b), c));
  const Tensor v = random_of({9});
  expect_close(linalg::multi_dot({a, b, c, v}), matmul(matmul(matmul(a, b), c), v));
  const Tensor x = tensor<int64_t>({2, 3});
  EXPECT_EQ(linalg::vander(x, 3).to(kFloat64).to_vector<double>(),
            (std::vector<double>{1, 2, 4, 1, 3, 9}));
  EXPECT_EQ(linalg::vander(x).shape(), Shape({2, 2}));
}

}  // namespace
}  // namespace wick::testing
