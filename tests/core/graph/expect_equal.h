#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "wick/tests/harness/host_array.h"

namespace wick::testing {

inline void expect_equal(const Tensors& got, const Tensors& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(bit_equal(got[i], want[i])) << "result " << i;
}

/// Whether both have the same bits, and the same tensors are undefined.
inline bool same_results(const Tensors& a, const Tensors& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].defined() != b[i].defined()) return false;
    if (a[i].defined() && !bit_equal(a[i], b[i])) return false;
  }
  return true;
}

}  // namespace wick::testing
