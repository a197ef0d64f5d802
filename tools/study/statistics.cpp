#include "wick/tools/study/statistics.h"

#include <algorithm>
#include <cmath>

namespace wick::study {

namespace {

constexpr double kConfidence = 0.99;

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

Interval median_interval(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  // The number of values below the true median is binomial: leaving out the k lowest and the k
  // highest misses it with twice the chance of k or fewer.
  double outside = 0, chance = std::pow(0.5, static_cast<double>(n));
  size_t left_out = 0;
  double confidence = 1 - 2 * chance;
  for (size_t k = 0; k < n / 2; ++k) {
    outside += 2 * chance;
    if (1 - outside < kConfidence) break;
    left_out = k;
    confidence = 1 - outside;
    chance *= static_cast<double>(n - k) / static_cast<double>(k + 1);
  }
  return {median(values), values[left_out], values[n - 1 - left_out], std::max(0.0, confidence)};
}

}  // namespace wick::study
