#pragma once

#include "wick/bench/runner/options.h"

namespace wick::bench {

/// Prints what the kernels of each row do with memory, counted on the simulated GPU, instead of
/// times: warps' accesses to device memory, the 32-byte sectors those touch over the least that
/// would hold their bytes, passes over the banks of shared memory over those without conflicts, and
/// how many of a warp's 32 lanes take part. UsageError in a build that does not count.
int run_counts(const Options& options);

}  // namespace wick::bench
