#include "wick/tools/statistics.h"

#include <algorithm>
#include <cmath>

#include "wick/core/base/check.h"

namespace wick::tool {

double median(std::vector<double> values) {
  WICK_CHECK(!values.empty(), "median: of no values");
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

Interval median_interval(std::vector<double> values, double confidence) {
  WICK_CHECK(!values.empty(), "median_interval: of no values");
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  // The number of values below the true median is binomial: leaving out the k lowest and the k
  // highest misses it with twice the chance of k or fewer.
  const auto chance_of = [count = static_cast<double>(n)](double k) {
    return std::exp(std::lgamma(count + 1) - std::lgamma(k + 1) - std::lgamma(count - k + 1) -
                    count * std::log(2.0));
  };
  double outside = 0, reached = 1 - 2 * chance_of(0);
  size_t left_out = 0;
  for (size_t k = 0; k < n / 2; ++k) {
    outside += 2 * chance_of(static_cast<double>(k));
    if (1 - outside < confidence) break;
    left_out = k;
    reached = 1 - outside;
  }
  return {median(values), values[left_out], values[n - 1 - left_out], std::max(0.0, reached)};
}

}  // namespace wick::tool
