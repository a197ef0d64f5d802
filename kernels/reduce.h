#pragma once

#include "wick/core/base/workspace.h"
#include "wick/kernels/declare.h"

namespace wick {

/// What a reduction makes of each group of elements.
enum class Reduction : uint8_t {
  kSum,
  kProd,
  kMax,  // NaN if any element is NaN
  kMin,
  // Floating only:
  kSumSquares,
  kSumDeviations,         // sum of x - center
  kSumSquaredDeviations,  // sum of (x - center)^2
  kSumExp,                // sum of exp(x - center)
};

/// y = `factor` times the reduction of x's elements along the axes where y has size 1. Views: x any
/// strides and dtype; y of x's rank and any dtype, `factor` other than 1 only for floating ones;
/// center, for the kinds that use it, float64 with y's shape and strides. Sums of float32 and
/// narrower types are as accurate as those in double, to about 2e-7.
WICK_KERNEL(reduce, (Reduction kind, const View& x, const View& center, const View& y,
                     double factor, Workspace& workspace));

/// y = index along `axis` of the first largest (or smallest) element, NaN counting as such. Views:
/// x row-major, any dtype; y int64, row-major.
WICK_KERNEL(arg_reduce,
            (const View& x, const View& y, int axis, bool largest, Workspace& workspace));

}  // namespace wick
