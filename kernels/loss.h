#pragma once

#include "wick/core/base/workspace.h"
#include "wick/kernels/declare.h"

namespace wick {

/// Cross entropy of rows of logits with class indices. Views: x, dx [rows, classes], row-major,
/// floating; target int64 [rows]; weight [classes], or undefined, and loss [rows] of the
/// accumulator's type of x; lse float64 [rows]; totals float64 [4].
struct CrossEntropyRows {
  View x, target, weight;
  View loss, lse, totals;
  View dy, dx;  // dy: accumulator's type, one per row or one for all
  int64_t ignore_index = -100;
  double smoothing = 0;
  bool is_log = false;  // x are log-probabilities already; without smoothing
};

/// loss[r] = (1 - smoothing) * weight[t] * (lse[r] - x[r][t])
///           + smoothing / classes * sum over c of weight[c] * (lse[r] - x[r][c]),
/// where lse[r] = log of the sum of exp(x[r]), or 0 if `is_log`, and 0 where t = target[r] is
/// ignore_index. totals: the sum of losses, the sum of weight[t], their quotient, and the first row
/// whose target is out of range (its loss is NaN), or -1. On a GPU such a target ends the kernel
/// with an error instead: the caller would have to wait to learn of it.
WICK_KERNEL(cross_entropy_forward, (const CrossEntropyRows& rows, Workspace& workspace));
/// dx = dy times the derivative of loss; dx may be x.
WICK_KERNEL(cross_entropy_backward, (const CrossEntropyRows& rows, Workspace& workspace));

}  // namespace wick
