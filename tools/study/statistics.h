#pragma once

#include <vector>

namespace wick::study {

double median(std::vector<double> values);

/// A median and the interval that holds the true one with the confidence given.
struct Interval {
  double middle = 1, low = 1, high = 1;
  double confidence = 0;
  bool above(double x) const { return low > x && middle > x; }
  bool below(double x) const { return high < x && middle < x; }
};

/// The narrowest interval between two of the values (the k-th smallest and the k-th largest) that
/// holds the median of what they are drawn from with a confidence of 0.99 or more, whatever its
/// distribution; with fewer than 8 values all of them, and less confidence.
Interval median_interval(std::vector<double> values);

}  // namespace wick::study
