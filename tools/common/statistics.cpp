#include "wick/tools/common/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "wick/core/base/check.h"

namespace wick::tool {

namespace {

double log_choose(double n, double k) {
  return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1);
}

// The chance that `k` of `n` values are below the median.
double chance_of(double n, double k) { return std::exp(log_choose(n, k) - n * std::log(2.0)); }

// The narrowest interval between two of the sorted values, as many left out below as above, of
// which `reached` (asked for 0, 1, 2 and so on left out on each side) gives enough confidence.
template <class Reached>
Interval narrowest(const std::vector<double>& sorted, double confidence, const Reached& reached) {
  const size_t n = sorted.size();
  size_t left_out = 0;
  double so_far = reached(0);
  for (size_t k = 1; k < (n + 1) / 2; ++k) {
    const double now = reached(k);
    if (now < confidence) break;
    left_out = k;
    so_far = now;
  }
  return {median(sorted), sorted[left_out], sorted[n - 1 - left_out], std::max(0.0, so_far)};
}

std::vector<double> pair_means(const std::vector<double>& values) {
  std::vector<double> means;
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t j = i; j < values.size(); ++j) means.push_back((values[i] + values[j]) / 2);
  }
  std::sort(means.begin(), means.end());
  return means;
}

// The largest k for which a sum of signed ranks of n values is below k with a chance of at most
// `tail`.
size_t signed_rank_cut(size_t n, double tail) {
  std::vector<double> chances(n * (n + 1) / 2 + 1, 0);  // of each sum
  chances[0] = 1;
  for (size_t rank = 1; rank <= n; ++rank) {
    for (size_t sum = chances.size(); sum-- > 0;) {
      chances[sum] = (chances[sum] + (sum >= rank ? chances[sum - rank] : 0)) / 2;
    }
  }
  double below = 0;
  size_t k = 0;
  while (k < chances.size() && below + chances[k] <= tail) below += chances[k++];
  return k;
}

}  // namespace

double median(std::vector<double> values) {
  WICK_CHECK(!values.empty(), "median: of no values");
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

Interval median_interval(std::vector<double> values, double confidence) {
  WICK_CHECK(!values.empty(), "median_interval: of no values");
  std::sort(values.begin(), values.end());
  // The number of values below the true median is binomial: leaving out the k lowest and the k
  // highest misses it with twice the chance of k or fewer.
  const auto n = static_cast<double>(values.size());
  double outside = 0;
  return narrowest(values, confidence, [&](size_t k) {
    outside += 2 * chance_of(n, static_cast<double>(k));
    return 1 - outside;
  });
}

Interval sequential_median_interval(std::vector<double> values, double confidence) {
  WICK_CHECK(!values.empty(), "sequential_median_interval: of no values");
  std::sort(values.begin(), values.end());
  // A player stakes a share of what they have on each value being above x, at even odds. If x is
  // the median or more, what they have is a supermartingale, and exceeds w times what they began
  // with at any time with a chance of at most 1 / w (Ville). Spread over all shares from 0 to 1
  // alike (chances from 1/2 to 1 that a value is above x), they have, with k of n not above x,
  //   2^n * 2 * integral of p^(n-k) (1-p)^k over p from 1/2 to 1.
  const auto n = static_cast<double>(values.size());
  double tail = 0;  // the chance of k or fewer of n + 1
  return narrowest(values, confidence, [&](size_t left_out) {
    const auto k = static_cast<double>(left_out);
    tail += chance_of(n + 1, k);
    const double wealth =
        std::exp((n + 1) * std::log(2.0) - std::log(n + 1) - log_choose(n, k)) * (1 - tail);
    return 1 - 2 / wealth;  // of both ends
  });
}

double centre(const std::vector<double>& values) { return median(pair_means(values)); }

Interval centre_interval(const std::vector<double>& values, double confidence) {
  const size_t k = signed_rank_cut(values.size(), (1 - confidence) / 2);
  if (k == 0) {
    const double infinity = std::numeric_limits<double>::infinity();
    return {centre(values), -infinity, infinity, 1};
  }
  const std::vector<double> means = pair_means(values);
  return {median(means), means[k - 1], means[means.size() - k], confidence};
}

}  // namespace wick::tool
