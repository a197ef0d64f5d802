#pragma once

#include "wick/kernels/declare.h"

namespace wick {

/// The views of connectionist temporal classification (Graves et al. 2006) over T steps, N samples
/// and C classes. A sample's path goes through the states blank, label, blank, ..., label, blank.
struct CtcPaths {
  View log_probs;  // [T, N, C], float32 or float64, as all but integers
  View targets;    // int64: all labels in a row
  View lengths;    // int64 [3, N]: steps, labels, and where the labels begin in `targets`
  View losses;     // [N]: -log of the probability of all paths
  // [N, 2 + T, L], L = 2 labels + 1 of the longest: log of the paths to a state, in an order of the
  // kernel's own. The first two rows of a sample, before its steps, are for the kernel's own use.
  View alphas;
  int64_t blank = 0;
};

WICK_KERNEL(ctc_forward, (const CtcPaths& paths));
// dx [T, N, C] = dloss [N] times exp(log_probs) less the probability that a step is of the class:
// the gradient with respect to what a log_softmax makes log_probs of, which leaves it as it is.
// betas: scratch, as alphas. With zero_infinity samples without a path have no gradient.
WICK_KERNEL(ctc_backward, (const CtcPaths& paths, const View& dloss, const View& betas,
                           const View& dx, bool zero_infinity));

}  // namespace wick
