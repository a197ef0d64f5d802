#include "wick/core/ops/histogram.h"

#include <gtest/gtest.h>

#include <cmath>

#include "wick/core/ops/compare.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

using Numbers = std::vector<double>;

Numbers numbers(const Tensor& x) { return x.cpu().to_vector<double>(); }

TEST(Histogram, CountsBetweenEdges) {
  for (const Device device : devices()) {
    const Tensor x = tensor({1.0, 2.0, 1.0, 4.0, 0.0, 9.0}).to(device);
    const Histogram equal_parts = histogram(x, 4, {.range = {{0, 4}}});
    EXPECT_EQ(numbers(equal_parts.counts), (Numbers{1, 2, 1, 1}));
    EXPECT_EQ(numbers(equal_parts.edges), (Numbers{0, 1, 2, 3, 4}));
    const Tensor edges = tensor({0.0, 1.0, 4.0}).to(device);
    EXPECT_EQ(numbers(histogram(x, edges).counts), (Numbers{1, 4}));
    HistogramOptions options;
    options.weight = tensor({1.0, 2.0, 3.0, 4.0, 0.5, 7.0}).to(device);
    EXPECT_EQ(numbers(histogram(x, edges, options).counts), (Numbers{0.5, 10}));
    options.density = true;
    EXPECT_TRUE(
        allclose(histogram(x, edges, options).counts.cpu(), tensor({0.5 / 10.5, 10 / 10.5 / 3})));
    EXPECT_EQ(numbers(histogram(x, 3).edges), (Numbers{0, 3, 6, 9}));
    EXPECT_EQ(numbers(histogram(full({2}, 3, kFloat64, device), 2).edges), (Numbers{2.5, 3, 3.5}));
  }
  EXPECT_EQ(error_of([] { histogram(ones({2}), 0); }),
            "histogram: bins: got 0, expected 1 or more");
  const Tensor endless = tensor({1.0, HUGE_VAL, std::nan(""), 2.0});
  EXPECT_EQ(numbers(histogram(endless, 3, {.range = {{0, 3}}}).counts), (Numbers{0, 1, 1}));
  EXPECT_EQ(error_of([&] { histogram(endless.narrow(0, 0, 2), 3); }),
            "histogram: the range is not finite: got 1 to inf, expected finite bounds");
  EXPECT_THROW(histogram(endless, 3), Error);
  EXPECT_EQ(error_of([] {
              histogram(ones({2}), 3, {.range = {{0, INFINITY}}});
            }),
            "histogram: the range is not finite: got 0 to inf, expected finite bounds");
  EXPECT_EQ(error_of([] { histogram(ones({2}), 2, {.weight = ones({3})}); }),
            "histogram: weight: got shape [3], expected one for each of 2 elements");
}

TEST(Histogram, CountsPoints) {
  for (const Device device : devices()) {
    const Tensor x = tensor({0.0, 1.0, 1.0, 0.0, 2.0, 0.0, 2.0, 2.0}, Shape{4, 2}).to(device);
    const HistogramOfPoints grid = histogramdd(x, std::vector<int64_t>{3, 3});
    EXPECT_EQ(numbers(grid.counts), (Numbers{0, 1, 0, 1, 0, 0, 1, 0, 1}));
    EXPECT_EQ(grid.edges.size(), 2u);
    HistogramOfPointsOptions options;
    options.density = true;
    options.range = {{0, 2}, {0, 1}};
    const HistogramOfPoints dense = histogramdd(x, std::vector<int64_t>{2, 1}, options);
    EXPECT_TRUE(allclose(dense.counts.cpu(), tensor({1.0 / 3, 2.0 / 3}, Shape{2, 1})));
    const std::vector<Tensor> edges = {tensor({0.0, 1.5, 2.0}).to(device),
                                       tensor({0.0, 2.0}).to(device)};
    EXPECT_EQ(numbers(histogramdd(x, edges).counts), (Numbers{2, 2}));
  }
}

}  // namespace
}  // namespace wick::testing
