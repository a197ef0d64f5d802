#pragma once

#include "wick/kernels/declare.h"

namespace wick {

/// When tensors are interpolated: always without a flag, else if whether it is not 0 is what is
/// `wanted`.
struct LerpCondition {
  const float* flag = nullptr;
  bool wanted = true;
  WICK_HOST_DEVICE bool holds() const { return flag == nullptr || (*flag != 0) == wanted; }
};

/// Every element of `count` tensors becomes keep * to + (1 - keep) * from, or from's if keep is 0.
/// Each `to` is float32 or float64, its `from` floating, of its shape and dense layout.
WICK_KERNEL(lerp, (const View* to, const View* from, int64_t count, double keep,
                   const LerpCondition& condition));

}  // namespace wick
