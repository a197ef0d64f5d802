#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "wick/tests/harness/host_array.h"

namespace wick::testing {

inline void expect_equal(const Tensors& got, const Tensors& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(bit_equal(got[i], want[i])) << "result " << i;
}

}  // namespace wick::testing
