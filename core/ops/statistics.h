#pragma once

#include <optional>
#include <utility>

#include "wick/core/ops/sort.h"
#include "wick/core/tensor.h"

// Order statistics, running extremes and reductions that leave NaN out. Axes and `keepdim` are as
// in reduce.h.

namespace wick {

/// var (or its square root) and mean of the same elements.
std::pair<Tensor, Tensor> var_mean(const Tensor& x, const Shape& axes = {}, int64_t correction = 1,
                                   bool keepdim = false);
std::pair<Tensor, Tensor> std_mean(const Tensor& x, const Shape& axes = {}, int64_t correction = 1,
                                   bool keepdim = false);
/// Smallest and largest element, along an axis or of all.
std::pair<Tensor, Tensor> aminmax(const Tensor& x, std::optional<int64_t> axis = {},
                                  bool keepdim = false);
/// Sum and mean of the elements that are not NaN.
Tensor nansum(const Tensor& x, const Shape& axes = {}, bool keepdim = false);
Tensor nanmean(const Tensor& x, const Shape& axes = {}, bool keepdim = false);
/// How many elements are not 0; int64.
Tensor count_nonzero(const Tensor& x, const Shape& axes = {});

/// The k-th smallest element (from 1) along `axis` and where it is; NaN counts as greatest.
Sorted kthvalue(const Tensor& x, int64_t k, int64_t axis = -1, bool keepdim = false);
/// The middle element along `axis`, the lower of two, and where it is: NaN if one is.
Sorted median(const Tensor& x, int64_t axis, bool keepdim = false);
/// Of all elements, NaN of none. The gradient goes in equal shares to those that are equal to it.
Tensor median(const Tensor& x);
/// The same of the elements that are not NaN.
Sorted nanmedian(const Tensor& x, int64_t axis, bool keepdim = false);
Tensor nanmedian(const Tensor& x);
/// The element that comes most often along `axis`, the smallest of several, and where it comes
/// last.
Sorted mode(const Tensor& x, int64_t axis = -1, bool keepdim = false);

/// What a quantile between two elements is.
enum class QuantileMode : uint8_t { kLinear, kLower, kHigher, kNearest, kMidpoint };

/// The element below which the share q (0 to 1) of the elements along `axis`, or of all, lies: NaN
/// if one is. For a vector q of x's dtype or float64 the result has its size as a first axis;
/// kLinear is differentiable by q too. Floating.
Tensor quantile(const Tensor& x, double q, std::optional<int64_t> axis = {}, bool keepdim = false,
                QuantileMode mode = QuantileMode::kLinear);
Tensor quantile(const Tensor& x, const Tensor& q, std::optional<int64_t> axis = {},
                bool keepdim = false, QuantileMode mode = QuantileMode::kLinear);
/// The same of the elements that are not NaN.
Tensor nanquantile(const Tensor& x, double q, std::optional<int64_t> axis = {},
                   bool keepdim = false, QuantileMode mode = QuantileMode::kLinear);
Tensor nanquantile(const Tensor& x, const Tensor& q, std::optional<int64_t> axis = {},
                   bool keepdim = false, QuantileMode mode = QuantileMode::kLinear);

/// The largest (smallest) element so far along `axis` and where it is, the last of equal ones. NaN
/// counts as both.
Sorted cummax(const Tensor& x, int64_t axis);
Sorted cummin(const Tensor& x, int64_t axis);
/// log(cumsum(exp(x))) along `axis` without overflow. Floating.
Tensor logcumsumexp(const Tensor& x, int64_t axis);

}  // namespace wick
