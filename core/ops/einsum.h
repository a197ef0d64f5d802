#pragma once

#include <string>
#include <vector>

#include "wick/core/tensor.h"

// Products of tensors beyond matmul, made of it. Inputs have one dtype; what is accumulated, and
// autocast's class, are matmul's.

namespace wick {

/// Einstein's sum: "bij,bjk->bik". Letters that are not behind the arrow are summed over; without
/// an arrow the result has those that come once, in alphabetical order. A letter that comes twice
/// in an operand takes its diagonal; "..." stands for axes that broadcast. Operands are multiplied
/// from left to right. Error for an equation that does not fit the operands.
Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands);

/// Sums of products over the last `axes` axes of a and the first of b.
Tensor tensordot(const Tensor& a, const Tensor& b, int64_t axes = 2);
/// The same over axes_a[i] of a with axes_b[i] of b.
Tensor tensordot(const Tensor& a, const Tensor& b, const Shape& axes_a, const Shape& axes_b);
/// Sums of products over the last axis of both: [..., K] and [.., K] -> [..., ..]. A number
/// multiplies.
Tensor inner(const Tensor& a, const Tensor& b);
/// Kronecker's product: each element of a times all of b, as blocks.
Tensor kron(const Tensor& a, const Tensor& b);
/// Matrix [M, K] times vector [K].
Tensor mv(const Tensor& matrix, const Tensor& vector);
/// beta x + alpha (a · b) for batches of matrices; x broadcasts. Here and in addmv and addbmm, beta
/// and alpha lose their fractions where x is of integers.
Tensor baddbmm(const Tensor& x, const Tensor& a, const Tensor& b, Scalar beta = 1,
               Scalar alpha = 1);
/// beta x + alpha (matrix · vector); x broadcasts to [M].
Tensor addmv(const Tensor& x, const Tensor& matrix, const Tensor& vector, Scalar beta = 1,
             Scalar alpha = 1);
/// beta x + alpha outer(a, b); x broadcasts to [M, N]. For bool this is "or" and "and". Error if x
/// is of integers and beta or alpha is not.
Tensor addr(const Tensor& x, const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1);

/// beta x + alpha times the sum of all products of a batch of matrices; x broadcasts.
Tensor addbmm(const Tensor& x, const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1);
/// dot, by another name.
Tensor vdot(const Tensor& a, const Tensor& b);
/// The vector products of vectors of 3 elements along `axis`; shapes broadcast.
Tensor cross(const Tensor& a, const Tensor& b, int64_t axis = -1);

/// x with those of its slices along `axis` scaled to the p-norm `most` whose norm is larger.
Tensor renorm(const Tensor& x, double p, int64_t axis, double most);
/// The p-norms of the differences of all rows: [..., P, M] and [..., R, M] -> [..., P, R]. The
/// gradient is 0 where the distance is. Euclidean distances of more than 25 rows are made of a
/// matrix product, and exact to about the square root of the dtype's precision. Floating.
Tensor cdist(const Tensor& x, const Tensor& y, double p = 2);
/// The p-norms of the differences of each row of x [N, M] with the rows behind it, in order:
/// [N (N - 1) / 2]. Floating.
Tensor pdist(const Tensor& x, double p = 2);

/// y[..., o] = x1[..., i] weight[o, i, j] x2[..., j] + bias[o]; bias [O] may be undefined.
Tensor bilinear(const Tensor& x1, const Tensor& x2, const Tensor& weight, const Tensor& bias = {});

}  // namespace wick
