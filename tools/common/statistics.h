#pragma once

#include <vector>

namespace wick::tool {

/// The middle value; of an even number the mean of the middle two. Error for none.
double median(std::vector<double> values);

/// An estimate and the interval that holds the true value with the confidence given.
struct Interval {
  double middle = 1, low = 1, high = 1;
  double confidence = 0;
};

/// The narrowest interval between two of the values (the k-th smallest and the k-th largest) that
/// holds the median of what they are drawn from with `confidence` or more, by the binomial
/// distribution and nothing else; where the values are too few all of them, and less confidence.
/// Error for none.
Interval median_interval(std::vector<double> values, double confidence);

/// The same for values that come one by one until somebody has seen enough of them: whatever makes
/// them stop, the interval's own width included, it holds that median with `confidence` or more.
/// Where the values come from several places, neither end is beyond the medians of all of them.
/// Takes more values for the same interval: 11 before it has 99 %, 15 before it leaves out any.
Interval sequential_median_interval(std::vector<double> values, double confidence);

/// The centre of `values` by Hodges and Lehmann (1963): the median of the means of all pairs of
/// them, a value paired with itself included. Error for none.
double centre(const std::vector<double>& values);

/// Where Wilcoxon's signed-rank test (1945), without approximation, leaves that centre with
/// `confidence`: values are taken to scatter around it evenly to both sides, in any way. Too
/// few (fewer than six for 95 %) cannot exclude anything: then it is unbounded. Error for none.
Interval centre_interval(const std::vector<double>& values, double confidence);

}  // namespace wick::tool
