#pragma once

#include <optional>

#include "wick/core/tensor.h"

// Reductions over a set of axes. `axes` may be negative and in any order; none means all. With
// `keepdim` the reduced axes stay, with size 1. Floating results have x's dtype and are accumulated
// in at least float, with partial sums in double; they are the same bits for any number of threads.
// Common errors: an axis out of range or named twice.
namespace wick {

/// Sum of elements; 0 of none. Integers and bool give int64.
Tensor sum(const Tensor& x, const Shape& axes = {}, bool keepdim = false);
/// The same as `dtype`: to float64 a floating x's partial sums are not rounded at the end, to all
/// others it is converted first.
Tensor sum(const Tensor& x, const Shape& axes, bool keepdim, Dtype dtype);
/// Arithmetic mean; NaN of no elements. Error for integers.
Tensor mean(const Tensor& x, const Shape& axes = {}, bool keepdim = false);
/// Product of elements; 1 of none. Integers and bool give int64.
Tensor prod(const Tensor& x, const Shape& axes = {}, bool keepdim = false);
/// The same as `dtype`, to which x is converted first.
Tensor prod(const Tensor& x, const Shape& axes, bool keepdim, Dtype dtype);
/// Largest element, NaN if one is; its gradient is shared evenly among equals. Error for no
/// elements.
Tensor amax(const Tensor& x, const Shape& axes = {}, bool keepdim = false);
/// Smallest element; see amax.
Tensor amin(const Tensor& x, const Shape& axes = {}, bool keepdim = false);
/// Of all elements; along an axis, with positions: see sort.h.
Tensor max(const Tensor& x);
Tensor min(const Tensor& x);
/// Mean squared deviation from the mean, over n - `correction` degrees of freedom.
Tensor var(const Tensor& x, const Shape& axes = {}, int64_t correction = 1, bool keepdim = false);
/// Square root of var(), with gradient 0 where it is 0.
Tensor stddev(const Tensor& x, const Shape& axes = {}, int64_t correction = 1,
              bool keepdim = false);
/// log(sum(exp(x))) without overflow, of integers in float32; -inf of no elements.
Tensor logsumexp(const Tensor& x, const Shape& axes = {}, bool keepdim = false);
/// (sum |x|^ord)^(1/ord); `ord` may be 0 (elements that are not 0) and infinity (largest or, if
/// negative, smallest |x|). Its gradient is 0 where the norm is 0.
Tensor norm(const Tensor& x, double ord = 2, const Shape& axes = {}, bool keepdim = false);
/// The cosine of the angle between x and y, which broadcast, along `axis`: the sum of x y over the
/// product of their norms, of which neither counts as less than `eps`. Error for integers.
Tensor cosine_similarity(const Tensor& x, const Tensor& y, int64_t axis = 1, double eps = 1e-8);
/// Whether an element is not 0 (NaN is not); bool.
Tensor any(const Tensor& x, const Shape& axes = {}, bool keepdim = false);
/// Whether no element is 0; bool.
Tensor all(const Tensor& x, const Shape& axes = {}, bool keepdim = false);
/// Position of the first largest element along `axis`, or in row-major order of all; int64. NaN
/// counts as largest. Error for no elements.
Tensor argmax(const Tensor& x, std::optional<int64_t> axis = {}, bool keepdim = false);
/// Position of the first smallest element; see argmax.
Tensor argmin(const Tensor& x, std::optional<int64_t> axis = {}, bool keepdim = false);

}  // namespace wick
