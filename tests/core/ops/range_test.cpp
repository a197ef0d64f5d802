#include "wick/core/ops/range.h"

#include <gtest/gtest.h>

#include "wick/core/ops/compare.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

TEST(Range, TakesTensorsAsBounds) {
  for (const Device device : devices()) {
    const Tensor low = scalar_tensor(1).to(device), high = scalar_tensor(int64_t{3}, kInt64);
    EXPECT_TRUE(equal(linspace(low, high, 5), linspace(1, 3, 5)));
    EXPECT_TRUE(equal(linspace(low, 3, 5, kFloat64), linspace(1, 3, 5, kFloat64)));
    EXPECT_TRUE(equal(linspace(1, high, 5), linspace(1, 3, 5)));
    EXPECT_TRUE(equal(logspace(low, high, 4, 2), logspace(1, 3, 4, 2)));
  }
  EXPECT_EQ(error_of([] { linspace(ones({1}), 2, 3); }),
            "linspace: a bound needs rank 0: got shape [1]");
}

}  // namespace
}  // namespace wick::testing
