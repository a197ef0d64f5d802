#pragma once

#include <vector>

#include "wick/core/tensor.h"

namespace wick::optim {

/// Scales the gradients of `params` in place by min(1, max_norm / (total + 1e-6)), where total is
/// the `norm_type`-norm of all their elements. HUGE_VAL is for the largest absolute value,
/// -HUGE_VAL for the smallest, and 0 for the number of gradients with an element other than 0.
/// Gradients must be on one device.
///
/// Returns total as it was: a tensor of rank 0 on their device, which nothing has waited for; 0 if
/// there are no gradients. It is float64 if a gradient is, else float32. With `error_if_nonfinite`
/// it waits, and a total that is not finite is an error; else it spoils the gradients.
Tensor clip_grad_norm_(const std::vector<Tensor>& params, double max_norm, double norm_type = 2,
                       bool error_if_nonfinite = false);

/// Clamps each element of the gradients of `params` to [-clip_value, clip_value] in place; NaN
/// stays. Gradients must be on one device.
void clip_grad_value_(const std::vector<Tensor>& params, double clip_value);

}  // namespace wick::optim
