#pragma once

#include <cstdint>

#include "wick/core/base/view.h"

// Decompositions of matrices, on the CPU alone. Views are contiguous, of float32 or
// float64, with axes [batch, rows, columns]. Matrices of a batch are shared out among the threads.

namespace wick {

/// x = a^-1 x. `a` [B, n, n]: only the upper or lower triangle is read, its diagonal as ones if
/// `unit`. x: [B, n, k].
void solve_triangular(const View& a, const View& x, bool upper, bool unit);

/// The lower triangle of `a` [B, n, n] becomes the one whose product with its transpose is a.
/// Returns the first matrix of the batch that is not positive definite, or -1.
int64_t cholesky_in_place(const View& a);

/// `a` [B, m, n] becomes L, whose diagonal of ones is not stored, below the diagonal, and U above:
/// P a = L U. `pivots` [B, min(m, n)], int32: row i was swapped with row pivots[i] - 1.
void lu_in_place(const View& a, const View& pivots);

/// a [B, m, n] = q [B, m, k] r [B, k, n], where k is min(m, n).
void qr_decompose(const View& a, const View& q, const View& r);

/// a [B, m, n] = u [B, m, k] diag(s [B, k]) vt [B, k, n]; the largest singular value first.
void svd_decompose(const View& a, const View& u, const View& s, const View& vt);

/// The lower triangle of a [B, n, n] is that of v diag(w) v^T; the smallest eigenvalue first.
void eigh_decompose(const View& a, const View& w, const View& v);

}  // namespace wick
