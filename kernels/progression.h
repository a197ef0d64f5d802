#pragma once

#include <math.h>

#include "wick/core/base/dtype.h"
#include "wick/core/base/wraps.h"

namespace wick {

/// Elements of an arithmetic progression of T, with the same bits on every device.
template <class T>
class Progression {
 public:
  /// start + i * step, or first + i * by for integers and bool.
  WICK_INLINE Progression(double start, double step, int64_t first, int64_t by)
      : start_(start), step_(step), first_(first), by_(by) {}
  WICK_WRAPS WICK_HOST_DEVICE T operator()(int64_t i) const {
    if constexpr (is_floating(dtype_of<T>)) {
      return T(static_cast<Accumulator<T>>(::fma(static_cast<double>(i), step_, start_)));
    } else {
      // Unsigned, so that running over is defined.
      return static_cast<T>(static_cast<int64_t>(
          static_cast<uint64_t>(first_) + static_cast<uint64_t>(i) * static_cast<uint64_t>(by_)));
    }
  }

 private:
  double start_, step_;
  int64_t first_, by_;
};

}  // namespace wick
