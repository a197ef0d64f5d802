#pragma once

#include <vector>

namespace wick::bench {

struct Interval {
  double low, high;
};

/// The middle value; of an even number the mean of the middle two. Error for none.
double median(std::vector<double> values);

/// Between which of the sorted values the median of what they are drawn from lies with 95 %, by the
/// binomial distribution and nothing else; the smallest and largest value if they are too few.
Interval median_interval(std::vector<double> values);

/// The centre of `values` by Hodges and Lehmann (1963): the median of the means of all pairs of
/// them, a value paired with itself included.
double centre(const std::vector<double>& values);

/// Where Wilcoxon's signed-rank test (1945), without approximation, leaves that centre with 95 %:
/// values are taken to scatter around it evenly to both sides, in whatever way. Fewer than six
/// cannot exclude anything: then it is unbounded.
Interval centre_interval(const std::vector<double>& values);

}  // namespace wick::bench
