#pragma once

#include "wick/core/tensor.h"

// Division to whole numbers, and what it leaves. Shapes broadcast and dtypes are promoted as for
// add: integers give integers. Integers cannot be divided by 0: an error on the CPU, 0 on a GPU,
// which the host does not wait for.

namespace wick {

/// How a quotient becomes a whole number.
enum class Rounding : uint8_t { kTrunc, kFloor };

/// x / y, rounded towards 0 (kTrunc, as C) or down (kFloor, as Python's //). Its gradient is 0.
Tensor div(const Tensor& x, const Tensor& y, Rounding rounding);
Tensor div(const Tensor& x, Scalar y, Rounding rounding);
/// div with kFloor.
Tensor floor_divide(const Tensor& x, const Tensor& y);
Tensor floor_divide(const Tensor& x, Scalar y);
/// x - y floor(x / y): of the sign of y, as Python's %.
Tensor remainder(const Tensor& x, const Tensor& y);
Tensor remainder(const Tensor& x, Scalar y);
/// x - y trunc(x / y): of the sign of x, as C's fmod.
Tensor fmod(const Tensor& x, const Tensor& y);
Tensor fmod(const Tensor& x, Scalar y);

}  // namespace wick
