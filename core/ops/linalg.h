#pragma once

#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "wick/core/tensor.h"

// Linear algebra, as torch.linalg. Matrices are the last two axes; what stands before them is a
// batch, which broadcasts between arguments. float32 and float64; computed on the CPU: tensors of a
// GPU are copied there and back. All but lu_factor's pivots, ranks and the results of qr's kR have
// a gradient, where the function has one.

namespace wick::linalg {

/// The x of a x = b [..., n, k], or of x a = b [..., k, n] unless `left`. `a` [..., n, n] is
/// triangular: only its upper or lower triangle is read, without its diagonal, which counts as
/// ones, if `unitriangular`.
Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool left = true,
                        bool unitriangular = false);

/// The lower triangular L [..., n, n] of a = L L^T, or U of a = U^T U if `upper`. Only the lower
/// (upper) triangle of `a` is read. Error if a matrix is not positive definite.
Tensor cholesky(const Tensor& a, bool upper = false);
/// The x of a x = b [..., n, k] for a = L L^T (U^T U if `upper`), from that `factor`.
Tensor cholesky_solve(const Tensor& b, const Tensor& factor, bool upper = false);
/// The inverse of a = L L^T (U^T U if `upper`), from that `factor`.
Tensor cholesky_inverse(const Tensor& factor, bool upper = false);

/// P a = L U, packed: `lu` [..., m, n] has U in its upper triangle and L, whose diagonal is ones,
/// below. Row i was swapped with row pivots[i] - 1; int32, [..., min(m, n)].
struct LuFactors {
  Tensor lu, pivots;
};
LuFactors lu_factor(const Tensor& a);
/// a = p l u, with p [..., m, m], l [..., m, k] and u [..., k, n], where k is min(m, n).
struct Lu {
  Tensor p, l, u;
};
Lu lu(const Tensor& a);
Lu lu_unpack(const Tensor& lu, const Tensor& pivots);
/// The x of a x = b, of x a = b unless `left`, of a^T x = b if `adjoint`, from a's factors.
Tensor lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& b, bool left = true,
                bool adjoint = false);

/// The x of a x = b, or of x a = b unless `left`. a [..., n, n]; b [..., n, k], or vectors [...,
/// n], as which b counts if it has one axis, or all of a's but the last. Error for a singular
/// matrix.
Tensor solve(const Tensor& a, const Tensor& b, bool left = true);
/// The inverse of a [..., n, n]. Error for a singular matrix.
Tensor inv(const Tensor& a);
/// The determinant of a [..., n, n]. Its gradient needs a regular matrix.
Tensor det(const Tensor& a);
/// The determinant's sign (0 for a singular matrix) and the logarithm of its absolute value.
struct SignAndLog {
  Tensor sign, logabsdet;
};
SignAndLog slogdet(const Tensor& a);
/// log(det(a)); NaN where the determinant is negative.
Tensor logdet(const Tensor& a);

/// a = q r, with q [..., m, k] orthonormal and r [..., k, n] upper triangular, where k is min(m,
/// n).
struct Qr {
  Tensor q, r;
};
Qr qr(const Tensor& a);

/// a = u diag(s) vh, with u [..., m, k], s [..., k], the largest first, and vh [..., k, n], where k
/// is min(m, n). The signs of the columns of u are not determined. The gradient needs singular
/// values that differ.
struct Svd {
  Tensor u, s, vh;
};
Svd svd(const Tensor& a);
/// The singular values alone; their gradient is finite where some are equal, too.
Tensor svdvals(const Tensor& a);
/// a = v diag(w) v^T of a symmetric a [..., n, n], whose lower (upper) triangle is read; w [...,
/// n], the smallest first. The signs of the columns of v are not determined. The gradient through v
/// needs eigenvalues that differ.
struct Eigh {
  Tensor w, v;
};
Eigh eigh(const Tensor& a, bool upper = false);
/// The eigenvalues alone.
Tensor eigvalsh(const Tensor& a, bool upper = false);

/// A norm of matrices. kFrobenius: of all elements. kNuclear: the sum of the singular values. 2 and
/// -2: the largest and the smallest singular value. 1 and -1: the largest and the smallest sum of
/// absolute values in a column. Infinity and -infinity: in a row.
enum class MatrixNorm : uint8_t { kFrobenius, kNuclear };
using MatrixOrder = std::variant<MatrixNorm, double>;
Tensor matrix_norm(const Tensor& a, const MatrixOrder& order = MatrixNorm::kFrobenius,
                   std::pair<int64_t, int64_t> axes = {-2, -1}, bool keepdim = false);
/// matrix_norm of the two axes that `axes` names, or wick::norm along the one. By default, of all
/// elements: with an order x must have one or two axes then.
Tensor norm(const Tensor& x, const std::optional<MatrixOrder>& order = {}, const Shape& axes = {},
            bool keepdim = false);
/// norm(a, order) norm(a^-1, order); of order 2 and -2 by singular values, for any shape.
Tensor cond(const Tensor& a, const MatrixOrder& order = 2.0);

/// Which singular values count as zero, for matrix_rank() and pinv().
struct RankOptions {
  Tensor atol = {}, rtol = {};  // numbers, or one per matrix
  bool hermitian = false;       // symmetric: by eigenvalues of the lower triangle
};
/// The number of singular values above max(atol, rtol times the largest); int64, [...]. By default
/// rtol is max(m, n) times the dtype's rounding error, and 0 if only atol is given.
Tensor matrix_rank(const Tensor& a, const RankOptions& options = {});
/// The pseudo-inverse [..., n, m], of the singular values that matrix_rank counts.
Tensor pinv(const Tensor& a, const RankOptions& options = {});

/// a [..., n, n] to a whole power, of the inverse if negative.
Tensor matrix_power(const Tensor& a, int64_t exponent);
/// The product of two or more matrices, in the order that takes the fewest multiplications. The
/// first and the last may be vectors.
Tensor multi_dot(const std::vector<Tensor>& matrices);
/// x_i^j for x [..., n], j = 0 ... columns - 1; by default n columns.
Tensor vander(const Tensor& x, std::optional<int64_t> columns = {});

}  // namespace wick::linalg
