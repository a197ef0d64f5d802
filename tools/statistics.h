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

}  // namespace wick::tool
