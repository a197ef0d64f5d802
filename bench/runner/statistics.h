#pragma once

#include <vector>

#include "wick/tools/statistics.h"

namespace wick::bench {

using tool::Interval;
using tool::median;
using tool::median_interval;

/// Of all intervals that a benchmark gives.
inline constexpr double kConfidence = 0.95;

/// The centre of `values` by Hodges and Lehmann (1963): the median of the means of all pairs of
/// them, a value paired with itself included.
double centre(const std::vector<double>& values);

/// Where Wilcoxon's signed-rank test (1945), without approximation, leaves that centre with 95 %:
/// values are taken to scatter around it evenly to both sides, in whatever way. Fewer than six
/// cannot exclude anything: then it is unbounded.
Interval centre_interval(const std::vector<double>& values);

}  // namespace wick::bench
