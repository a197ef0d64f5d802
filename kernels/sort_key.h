#pragma once

#include <bit>

#include "wick/core/base/dtype.h"

namespace wick {

/// An element to be sorted: where it was, and a number that is smaller for those that come earlier.
struct SortEntry {
  uint64_t key;
  int64_t index;
};

template <class T>
WICK_HOST_DEVICE uint64_t ascending_sort_key(T x) {
  if constexpr (sizeof(T) == 1) {
    return static_cast<uint64_t>(x);
  } else if constexpr (dtype_of<T> == Dtype::kInt64) {
    return static_cast<uint64_t>(x) ^ uint64_t { 1 } << 63;
  } else if constexpr (dtype_of<T> == Dtype::kInt32) {
    return static_cast<uint32_t>(x) ^ uint32_t { 1 } << 31;
  } else if constexpr (sizeof(T) == 8) {
    if (x != x) return ~uint64_t{0};
    const uint64_t bits = std::bit_cast<uint64_t>(x + 0.0);
    return bits >> 63 != 0 ? ~bits : bits | uint64_t{1} << 63;
  } else {
    const float value = static_cast<float>(x);
    if (value != value) return 0xffffffffu;
    const uint32_t bits = std::bit_cast<uint32_t>(value + 0.0f);
    return bits >> 31 != 0 ? ~bits : bits | uint32_t{1} << 31;
  }
}

/// The key of `x` in ascending or descending order.
template <class T>
WICK_HOST_DEVICE uint64_t sort_key(T x, bool descending) {
  const uint64_t key = ascending_sort_key(x);
  return descending ? ~key : key;
}

}  // namespace wick
