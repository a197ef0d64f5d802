#include "wick/core/ops/count.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/sort.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

using Integers = std::vector<int64_t>;
using Numbers = std::vector<double>;

Integers integers(const Tensor& x) { return x.cpu().to_vector<int64_t>(); }

TEST(Unique, AgreesWithAMap) {
  Generator generator(1);
  const Tensor host = randint(-50, 50, {37, 41}, kInt64, kCpu, &generator);
  std::map<int64_t, int64_t> expected;
  for (const int64_t v : integers(host)) ++expected[v];
  Integers values, counts;
  for (const auto& entry : expected) {
    values.push_back(entry.first);
    counts.push_back(entry.second);
  }
  for (const Device device : devices()) {
    const Unique found = unique(host.to(device));
    EXPECT_EQ(integers(found.values), values);
    EXPECT_EQ(integers(found.counts), counts);
    EXPECT_EQ(found.inverse.shape(), host.shape());
    EXPECT_TRUE(equal(
        index_select(found.values, 0, found.inverse.reshape({-1})).reshape(host.shape()).cpu(),
        host));
  }
}

TEST(Unique, TakesRunsNanAndNothing) {
  const Unique runs = unique_consecutive(tensor<int64_t>({1, 1, 2, 2, 1}));
  EXPECT_EQ(integers(runs.values), (Integers{1, 2, 1}));
  EXPECT_EQ(integers(runs.inverse), (Integers{0, 0, 1, 1, 2}));
  EXPECT_EQ(integers(runs.counts), (Integers{2, 2, 1}));
  EXPECT_EQ(unique(tensor({NAN, 1.f, NAN})).values.numel(), 3);
  EXPECT_EQ(unique(zeros({0})).counts.numel(), 0);
  EXPECT_EQ(unique(scalar_tensor(3)).inverse.rank(), 0);
  EXPECT_FALSE(unique(ones({3}).set_requires_grad()).values.requires_grad());
}

TEST(Unique, ComparesSlices) {
  for (const Device device : devices()) {
    const Tensor x = tensor<int64_t>({3, 1, 1, 2, 3, 1, 1, 1}, Shape{4, 2}).to(device);
    const Unique rows = unique(x, 0);
    EXPECT_EQ(integers(rows.values), (Integers{1, 1, 1, 2, 3, 1}));
    EXPECT_EQ(integers(rows.inverse), (Integers{2, 1, 2, 0}));
    EXPECT_EQ(integers(rows.counts), (Integers{1, 1, 2}));
    const Unique columns = unique(x.t(), -1);
    EXPECT_TRUE(equal(columns.values, rows.values.t()));
    EXPECT_EQ(integers(columns.inverse), integers(rows.inverse));
    const Unique runs = unique_consecutive(x.index_select(0, rows.inverse), 0);
    EXPECT_EQ(integers(runs.counts), (Integers{1, 1, 2}));
    EXPECT_EQ(integers(unique_consecutive(x.flip({1}).slice(0, 2, 4), 0).inverse),
              (Integers{0, 1}));
  }
  EXPECT_EQ(unique(zeros({0, 3}), 0).values.shape(), Shape({0, 3}));
  EXPECT_EQ(error_of([] {
              unique(zeros({3, 0}), 0);
            }),
            "unique: the slices are empty: got shape [3, 0]");
}

TEST(Bincount, CountsAndWeighs) {
  for (const Device device : devices()) {
    const Tensor x = tensor<int64_t>({1, 1, 3}).to(device);
    EXPECT_EQ(integers(bincount(x)), (Integers{0, 2, 0, 1}));
    EXPECT_EQ(integers(bincount(x, {}, 6)), (Integers{0, 2, 0, 1, 0, 0}));
    const Tensor weighed = bincount(x, tensor({0.5f, 1.f, 2.f}).to(device));
    EXPECT_EQ(weighed.cpu().to_vector<float>(), (std::vector<float>{0, 1.5, 0, 2}));
    EXPECT_EQ(bincount(x, x).dtype(), kFloat64);
  }
  EXPECT_EQ(bincount(zeros({0}, kInt64), {}, 2).numel(), 2);
  EXPECT_EQ(error_of([] {
              bincount(tensor<int64_t>({2, -3}));
            }),
            "bincount: negative number: got -3, expected 0 or more");
  EXPECT_EQ(error_of([] { bincount(ones({2})); }),
            "bincount: needs a vector of integers: got float32 [2]");
}

TEST(Searchsorted, AgreesWithBounds) {
  Generator generator(2);
  for (const int64_t n : {0, 1, 2, 7, 64, 65}) {
    const Tensor sorted = sort(randint(0, 20, {n}, kInt64, kCpu, &generator)).values;
    const Tensor wanted = randint(-2, 22, {5, 9}, kInt64, kCpu, &generator);
    const Integers line = integers(sorted), values = integers(wanted);
    Integers lower, upper;
    for (const int64_t v : values) {
      lower.push_back(std::lower_bound(line.begin(), line.end(), v) - line.begin());
      upper.push_back(std::upper_bound(line.begin(), line.end(), v) - line.begin());
    }
    for (const Device device : devices()) {
      const Tensor a = sorted.to(device), b = wanted.to(device);
      EXPECT_EQ(integers(searchsorted(a, b)), lower) << n;
      EXPECT_EQ(integers(bucketize(b, a, true)), upper) << n;
    }
  }
}

TEST(Searchsorted, TakesRowsAndNan) {
  const Tensor sorted = tensor({1.0, 3.0, 5.0, 2.0, 4.0, 6.0}, Shape{2, 3});
  EXPECT_EQ(integers(searchsorted(sorted, tensor({3.0, 9.0, 3.0, 1.0}, Shape{2, 2}))),
            (Integers{1, 3, 1, 0}));
  const Tensor line = tensor({1.f, 3.f, 3.f, 5.f, NAN}), wanted = tensor({0.f, 3.f, 6.f, NAN});
  EXPECT_EQ(integers(searchsorted(line, wanted)), (Integers{0, 1, 4, 4}));
  EXPECT_EQ(integers(searchsorted(line, wanted, true)), (Integers{0, 3, 4, 5}));
  EXPECT_EQ(searchsorted(line, scalar_tensor(4.f)).item<int64_t>(), 3);
  EXPECT_THROW(searchsorted(sorted, ones({3, 2})), Error);
  EXPECT_THROW(bucketize(ones({2, 2}), sorted), Error);
}

TEST(Histc, CountsInEqualParts) {
  for (const Device device : devices()) {
    const auto of = [&](const Tensor& x, int64_t bins, double low = 0, double high = 0) {
      return histc(x.to(device), bins, low, high).cpu().to_vector<double>();
    };
    const Tensor x = tensor({1.0, 2.0, 1.0, 4.0, 2.5});
    EXPECT_EQ(of(x, 4, 0, 4), (Numbers{0, 2, 2, 1}));  // PyTorch's
    EXPECT_EQ(of(x, 3), (Numbers{2, 2, 1}));
    EXPECT_EQ(of(tensor({1.0, 1.0, 1.0}), 3), (Numbers{0, 3, 0}));
    EXPECT_EQ(of(x, 2, 1.5, 2.5), (Numbers{0, 2}));
  }
  EXPECT_EQ(histc(zeros({0}), 3).numel(), 3);
  EXPECT_EQ(histc(ones({4}, kFloat16), 2).dtype(), kFloat16);
  const Tensor endless = tensor({1.f, INFINITY, 2.f});
  EXPECT_EQ(histc(endless, 3, 0, 3).to_vector<float>(), (std::vector<float>{0, 1, 1}));
  EXPECT_EQ(error_of([&] { histc(endless, 3); }),
            "histc: the range is not finite: got 1 to inf, expected finite bounds");
  EXPECT_EQ(error_of([] { histc(ones({2}), 3, 0, INFINITY); }),
            "histc: the range is not finite: got 0 to inf, expected finite bounds");
  EXPECT_THROW(histc(tensor({1.f, NAN}), 3), Error);
  EXPECT_THROW(histc(ones({3}), 0), Error);
  EXPECT_THROW(histc(ones({3}), 2, 1, 0), Error);
  EXPECT_THROW(histc(arange(3), 2), Error);
}

TEST(Count, FindsMembers) {
  for (const Device device : devices()) {
    const Tensor x = tensor<int64_t>({3, 1, 4, 1, 5, 9}, Shape{2, 3}).to(device);
    const Tensor values = tensor<int64_t>({1, 9, 2}).to(device);
    EXPECT_EQ(isin(x, values).cpu().to(kInt64).to_vector<int64_t>(),
              (std::vector<int64_t>{0, 1, 0, 1, 0, 1}));
    EXPECT_EQ(isin(x, values, true).to(kInt64).sum().item<int64_t>(), 3);
    EXPECT_EQ(isin(x, values.slice(0, 0, 0)).to(kInt64).sum().item<int64_t>(), 0);
    EXPECT_TRUE(equal(argwhere(eq(x, 4)).cpu(), tensor<int64_t>({0, 2}, Shape{1, 2})));
  }
}

TEST(Count, FindsCoordinatesOfPlaces) {
  const std::vector<Tensor> at = unravel_index(tensor<int64_t>({0, 5, 23}), {2, 3, 4});
  EXPECT_EQ(at[0].to_vector<int64_t>(), (std::vector<int64_t>{0, 0, 1}));
  EXPECT_EQ(at[1].to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(at[2].to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 3}));
  EXPECT_EQ(error_of([] {
              unravel_index(tensor<int64_t>({24}), {2, 3, 4});
            }),
            "unravel_index: place outside: got 24, expected 0 to 23 for shape [2, 3, 4]");
}

}  // namespace
}  // namespace wick::testing
