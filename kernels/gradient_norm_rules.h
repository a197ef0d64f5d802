#pragma once

#include <math.h>

#include "wick/kernels/gradient_norm.h"

// What the norm of gradients, unscaling and the scaler do to single numbers, on every device.

namespace wick {

/// What a scaled gradient is multiplied by.
WICK_HOST_DEVICE float unscale_factor(const float* scale) {
  return scale != nullptr ? static_cast<float>(1 / static_cast<double>(*scale)) : 1.0f;
}

/// Infinity and NaN, whose difference to themselves is NaN.
template <class T>
WICK_HOST_DEVICE bool is_finite(T x) {
  return x - x == T(0);
}

WICK_HOST_DEVICE void update_scale(const GradScaleUpdate& u) {
  if (*u.any_inf != 0) {
    const double smaller = *u.scale * u.backoff;
    *u.scale = static_cast<float>(smaller < u.floor ? u.floor : smaller);
    *u.growth_tracker = 0;
    u.counts[0] += 1;
  } else {
    u.counts[0] = 0;
    *u.growth_tracker += 1;
    if (*u.growth_tracker == u.interval) {
      const float larger = static_cast<float>(*u.scale * u.growth);
      if (is_finite(larger)) *u.scale = larger;
      *u.growth_tracker = 0;
    }
  }
  *u.any_inf = 0;
  u.counts[1] += 1;
}

}  // namespace wick
