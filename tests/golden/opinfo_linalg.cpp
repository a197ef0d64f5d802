// Linear algebra. Not here: what only a sign tells apart (eigenvectors, singular vectors).
#include "wick/core/ops/linalg.h"

#include "wick/tests/golden/opinfo.h"

namespace wick::golden {
namespace {

using X = const Tensor&;

linalg::MatrixOrder order_of(const Argument& a) {
  if (a.is_number()) return a.number();
  return a.word<linalg::MatrixNorm>(
      {{"fro", linalg::MatrixNorm::kFrobenius}, {"nuc", linalg::MatrixNorm::kNuclear}});
}

Tensors parts(const linalg::Lu& lu) { return {lu.p, lu.l, lu.u}; }
Tensors parts(const linalg::SignAndLog& found) { return {found.sign, found.logabsdet}; }
Tensors parts(const linalg::Qr& found) { return {found.q, found.r}; }

Tensor number_or_tensor(const Argument& a) {
  if (a.value->is_null()) return {};
  return a.is_tensor() ? read<Tensor>(a) : scalar_tensor(a.number(), kFloat64);
}

Spelling by_rank(const char* signature, Tensor (*function)(X, const linalg::RankOptions&)) {
  return {signature, [function](const std::vector<Argument>& a) {
            return results(
                function(read<Tensor>(a[0]),
                         {number_or_tensor(a[1]), number_or_tensor(a[2]), read<bool>(a[3])}));
          }};
}

// A sample that makes matrices of low rank calls with two factors.
Spelling of_product() {
  return {"input factor", [](const std::vector<Argument>& a) {
            const auto x = read<Tensor>(a[0]), y = read<Tensor>(a[1]);
            if (y.rank() != x.rank() || y.rank() < 2) a[1].unfit("a factor");
            return results(linalg::pinv(x.matmul(y.transpose(-2, -1))));
          }};
}

const Opinfo solvers({
    {"linalg.solve_triangular",
     {call(linalg::solve_triangular, "input B upper left=true unitriangular=false")}},
    {"triangular_solve",
     {call(
         +[](X b, X a, bool upper, bool transpose, bool unit) {
           const Tensor matrix = transpose ? a.transpose(-2, -1) : a;
           return Tensors{linalg::solve_triangular(matrix, b, upper != transpose, true, unit), a};
         },
         "input A upper=true transpose=false unitriangular=false")}},
    {"linalg.cholesky", {call(linalg::cholesky, "input upper=false")}},
    {"cholesky", {call(linalg::cholesky, "input upper=false")}},
    {"cholesky_solve", {call(linalg::cholesky_solve, "input input2 upper=false")}},
    {"cholesky_inverse", {call(linalg::cholesky_inverse, "input upper=false")}},
    {"linalg.lu_factor",
     {call(
         +[](X a) {
           const linalg::LuFactors factors = linalg::lu_factor(a);
           return Tensors{factors.lu, factors.pivots};
         },
         "input !pivot=true")}},
    {"linalg.lu",
     {call(
         +[](X a) { return parts(linalg::lu(a)); }, "input !pivot=true")}},
    {"lu_unpack",
     {call(
         +[](X lu, X pivots) { return parts(linalg::lu_unpack(lu, pivots)); },
         "input pivots !unpack_data=true !unpack_pivots=true")}},
    {"linalg.lu_solve", {call(linalg::lu_solve, "input pivots B left=true adjoint=false")}},
    {"lu_solve",
     {call(
         +[](X b, X lu, X pivots) { return linalg::lu_solve(lu, pivots, b); },
         "input LU_data LU_pivots")}},
    {"linalg.solve", {call(linalg::solve, "input B left=true")}},
    {"linalg.inv", {call(linalg::inv, "input")}},
    {"inverse", {call(linalg::inv, "input")}},
    {"linalg.det", {call(linalg::det, "input")}},
    {"det", {call(linalg::det, "input")}},
    {"linalg.slogdet",
     {call(
         +[](X a) { return parts(linalg::slogdet(a)); }, "input")}},
    {"slogdet",
     {call(
         +[](X a) { return parts(linalg::slogdet(a)); }, "input")}},
    {"logdet", {call(linalg::logdet, "input")}},
    {"linalg.matrix_power", {call(linalg::matrix_power, "input n")}},
    {"matrix_power", {call(linalg::matrix_power, "input n")}},
    {"linalg.multi_dot", {call(linalg::multi_dot, "tensors")}},
    {"linalg.vander", {call(linalg::vander, "input N=null")}},
    {"linalg.diagonal",
     {call(
         +[](X a, int64_t offset, int64_t axis0, int64_t axis1) {
           return a.diagonal(offset, axis0, axis1);
         },
         "input offset=0 dim1=-2 dim2=-1")}},
});

const Opinfo spectra({
    {"linalg.qr",
     {call(
         +[](X a) { return parts(linalg::qr(a)); }, "input !mode=\"reduced\"")}},
    {"qr",
     {call(
         +[](X a) { return parts(linalg::qr(a)); }, "input !some=true")}},
    {"linalg.svdvals", {call(linalg::svdvals, "input !driver=null")}},
    {"linalg.eigvalsh",
     {call(
         +[](X a, const std::string& triangle) { return linalg::eigvalsh(a, triangle == "U"); },
         "input UPLO=\"L\"")}},
    {"linalg.matrix_norm",
     {{"input ord=\"fro\" dim=[-2,-1] keepdim=false !dtype=null",
       [](const std::vector<Argument>& a) {
         const auto axes = read<Shape>(a[2]);
         return results(linalg::matrix_norm(read<Tensor>(a[0]), order_of(a[1]), {axes[0], axes[1]},
                                            read<bool>(a[3])));
       }}}},
    {"linalg.norm",
     {{"input ord=null dim=null keepdim=false !dtype=null",
       [](const std::vector<Argument>& a) {
         std::optional<linalg::MatrixOrder> order;
         if (!a[1].value->is_null()) order = order_of(a[1]);
         return results(
             linalg::norm(read<Tensor>(a[0]), order, read<Shape>(a[2]), read<bool>(a[3])));
       }}}},
    {"linalg.cond",
     {{"input p=null",
       [](const std::vector<Argument>& a) {
         return results(
             linalg::cond(read<Tensor>(a[0]), a[1].value->is_null() ? 2.0 : order_of(a[1])));
       }}}},
    {"linalg.matrix_rank",
     {by_rank("input atol=null rtol=null hermitian=false", linalg::matrix_rank)}},
    {"linalg.matrix_rank/hermitian",
     {by_rank("input atol=null rtol=null hermitian=false", linalg::matrix_rank)}},
    {"linalg.pinv",
     {of_product(), by_rank("input atol=null rtol=null hermitian=false", linalg::pinv)}},
    {"pinverse",
     {call(
         +[](X a, double rcond) {
           return linalg::pinv(a, {.rtol = scalar_tensor(rcond, kFloat64)});
         },
         "input rcond=1e-15")}},
});

}  // namespace
}  // namespace wick::golden
