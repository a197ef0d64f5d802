#include "wick/bench/runner/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace wick::bench {

namespace {

constexpr double kTail = (1 - kConfidence) / 2;  // on each side

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

double centre(const std::vector<double>& values) { return median(pair_means(values)); }

Interval centre_interval(const std::vector<double>& values) {
  const size_t k = signed_rank_cut(values.size());
  if (k == 0) {
    const double infinity = std::numeric_limits<double>::infinity();
    return {centre(values), -infinity, infinity, 1};
  }
  const std::vector<double> means = pair_means(values);
  return {median(means), means[k - 1], means[means.size() - k], kConfidence};
}

}  // namespace wick::bench
