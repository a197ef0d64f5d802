#include "wick/tests/core/functions/functions.h"

// Products and linear algebra: einsum.h, linalg.h, matmul.h.
namespace wick::testing {
namespace {

using T = const Tensor&;

std::vector<Function> products() {
  const Tensor x = ones({3, 3}, kFloat64), cube = ones({2, 3, 3}, kFloat64);
  const Tensor vector = ones({3}, kFloat64);
  return {
      entry("einsum", {x, x},
            [](T a, T b) {
              return einsum("ij,jk->ik", {a, b});
            }),
      entry("einsum", {x, x, x},
            [](T a, T b, T c) {
              return einsum("ij,jk,kl->il", {a, b, c});
            }),
      entry("tensordot", {x, x}, [](T a, T b) { return tensordot(a, b); }),
      entry("tensordot", {x, x}, [](T a, T b) { return tensordot(a, b, {1}, {0}); }),
      binary("inner", inner, x, x),
      binary("kron", kron, x, x),
      binary("mv", mv, x, vector),
      entry("baddbmm", {cube, cube, cube}, [](T in, T a, T b) { return baddbmm(in, a, b); }),
      entry("addmv", {vector, x, vector}, [](T in, T a, T b) { return addmv(in, a, b); }),
      entry("addr", {x, vector, vector}, [](T in, T a, T b) { return addr(in, a, b); }),
      entry("addbmm", {x, cube, cube}, [](T in, T a, T b) { return addbmm(in, a, b); }),
      binary("vdot", vdot, vector, vector),
      entry("cross", {x, x}, [](T a, T b) { return cross(a, b); }),
      entry("renorm", {x}, [](T in) { return renorm(in, 2, 0, 1); }),
      entry("cdist", {x, x}, [](T a, T b) { return cdist(a, b); }),
      entry("pdist", {x}, [](T in) { return pdist(in); }),
      entry("bilinear", {x, x, cube}, [](T a, T b, T weight) { return bilinear(a, b, weight); }),
      binary("matmul", matmul, x, x),
      binary("mm", mm, x, x),
      binary("bmm", bmm, cube, cube),
      entry("addmm", {x, x, x}, [](T in, T a, T b) { return addmm(in, a, b); }),
      binary("dot", dot, vector, vector),
      binary("outer", outer, vector, vector),
      entry("linear", {x, x}, [](T in, T weight) { return linear(in, weight); }),
  };
}

std::vector<Function> decompositions() {
  const Tensor x = eye(3, 3, kFloat64), pivots = tensor<int64_t>({1, 2, 3}).to(kInt32);
  return {
      entry("linalg::solve_triangular", {x, x},
            [](T a, T b) { return linalg::solve_triangular(a, b, true); }),
      entry("linalg::cholesky", {x}, [](T a) { return linalg::cholesky(a); }),
      entry("linalg::cholesky_solve", {x, x},
            [](T b, T a) { return linalg::cholesky_solve(b, a); }),
      entry("linalg::cholesky_inverse", {x}, [](T a) { return linalg::cholesky_inverse(a); }),
      entry("linalg::lu_factor", {x}, [](T a) { return linalg::lu_factor(a).lu; }),
      entry("linalg::lu", {x}, [](T a) { return linalg::lu(a).u; }),
      entry("linalg::lu_unpack", {x, pivots}, [](T a, T p) { return linalg::lu_unpack(a, p).u; }),
      entry("linalg::lu_solve", {x, pivots, x},
            [](T a, T p, T b) { return linalg::lu_solve(a, p, b); }),
      entry("linalg::solve", {x, x}, [](T a, T b) { return linalg::solve(a, b); }),
      unary("linalg::inv", linalg::inv, x),
      unary("linalg::det", linalg::det, x),
      entry("linalg::slogdet", {x}, [](T a) { return linalg::slogdet(a).logabsdet; }),
      unary("linalg::logdet", linalg::logdet, x),
      entry("linalg::qr", {x}, [](T a) { return linalg::qr(a).q; }),
      entry("linalg::svd", {x}, [](T a) { return linalg::svd(a).s; }),
      unary("linalg::svdvals", linalg::svdvals, x),
      entry("linalg::eigh", {x}, [](T a) { return linalg::eigh(a).w; }),
      entry("linalg::eigvalsh", {x}, [](T a) { return linalg::eigvalsh(a); }),
      entry("linalg::matrix_norm", {x}, [](T a) { return linalg::matrix_norm(a); }),
      entry("linalg::norm", {x}, [](T a) { return linalg::norm(a); }),
      entry("linalg::cond", {x}, [](T a) { return linalg::cond(a); }),
      entry("linalg::matrix_rank", {x}, [](T a) { return linalg::matrix_rank(a); }),
      entry("linalg::pinv", {x}, [](T a) { return linalg::pinv(a); }),
      entry("linalg::matrix_power", {x}, [](T a) { return linalg::matrix_power(a, 2); }),
      entry("linalg::multi_dot", {x, x, x},
            [](T a, T b, T c) {
              return linalg::multi_dot({a, b, c});
            }),
      entry("linalg::vander", {x}, [](T a) { return linalg::vander(a); }),
  };
}

}  // namespace

std::vector<Function> product_functions() {
  std::vector<Function> all = products();
  const std::vector<Function> rest = decompositions();
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

}  // namespace wick::testing
