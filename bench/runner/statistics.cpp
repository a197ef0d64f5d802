#include "wick/bench/runner/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "wick/core/base/check.h"

namespace wick::bench {

namespace {

constexpr double kTail = 0.025;  // on each side

std::vector<double> pair_means(const std::vector<double>& values) {
  std::vector<double> means;
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t j = i; j < values.size(); ++j) means.push_back((values[i] + values[j]) / 2);
  }
  std::sort(means.begin(), means.end());
  return means;
}

// The largest k for which a sum of signed ranks of n values is below k with at most kTail.
size_t signed_rank_cut(size_t n) {
  std::vector<double> chances(n * (n + 1) / 2 + 1, 0);  // of each sum
  chances[0] = 1;
  for (size_t rank = 1; rank <= n; ++rank) {
    for (size_t sum = chances.size(); sum-- > 0;) {
      chances[sum] = (chances[sum] + (sum >= rank ? chances[sum - rank] : 0)) / 2;
    }
  }
  double below = 0;
  size_t k = 0;
  while (k < chances.size() && below + chances[k] <= kTail) below += chances[k++];
  return k;
}

}  // namespace

double median(std::vector<double> values) {
  WICK_CHECK(!values.empty(), "median: of no values");
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

Interval median_interval(std::vector<double> values) {
  WICK_CHECK(!values.empty(), "median_interval: of no values");
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  // Chance that at most k of n values lie below the median.
  double below = 0;
  size_t k = 0;
  for (; k < values.size() / 2; ++k) {
    const auto i = static_cast<double>(k);
    below += std::exp(std::lgamma(n + 1) - std::lgamma(i + 1) - std::lgamma(n - i + 1) -
                      n * std::log(2.0));
    if (below > kTail) break;
  }
  const size_t skipped = k > 0 ? k - 1 : 0;
  return {values[skipped], values[values.size() - 1 - skipped]};
}

double centre(const std::vector<double>& values) { return median(pair_means(values)); }

Interval centre_interval(const std::vector<double>& values) {
  const size_t k = signed_rank_cut(values.size());
  if (k == 0) {
    const double infinity = std::numeric_limits<double>::infinity();
    return {-infinity, infinity};
  }
  const std::vector<double> means = pair_means(values);
  return {means[k - 1], means[means.size() - k]};
}

}  // namespace wick::bench
