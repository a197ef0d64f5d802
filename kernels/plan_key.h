#pragma once

#include <array>
#include <initializer_list>

#include "wick/core/base/check.h"
#include "wick/core/base/deterministic.h"
#include "wick/core/base/device.h"
#include "wick/core/base/dtype.h"
#include "wick/core/base/shape.h"
#include "wick/core/base/tf32.h"

namespace wick {

/// Kinds of problems that can be computed in several ways.
enum class PlanKind : uint8_t { kConvolution, kMatmul, kAttention };

/// All that the choice among the ways to compute a problem depends on, for tables.
class PlanKey {
 public:
  PlanKey(PlanKind kind, Device device, Dtype dtype)
      : values_{static_cast<int64_t>(kind), static_cast<int64_t>(device.type), device.index,
                static_cast<int64_t>(dtype), allow_tf32() + 2 * deterministic()},
        count_(5) {}

  void add(std::initializer_list<int64_t> values) {
    for (const int64_t value : values) add_one(value);
  }
  void add(const Shape& sizes) {
    add_one(sizes.rank());
    for (const int64_t size : sizes) add_one(size);
  }

  friend bool operator==(const PlanKey&, const PlanKey&) = default;
  size_t hash() const {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < count_; ++i) {
      hash = (hash ^ static_cast<uint64_t>(values_[i])) * 0x100000001b3u;
    }
    return static_cast<size_t>(hash ^ hash >> 32);
  }

 private:
  void add_one(int64_t value) {
    WICK_CHECK(count_ < values_.size(), "plan key: more than ", values_.size(), " numbers");
    values_[count_++] = value;
  }

  std::array<int64_t, 64> values_ = {};
  size_t count_ = 0;
};

struct HashOfPlanKey {
  size_t operator()(const PlanKey& key) const { return key.hash(); }
};

/// Bytes that `p` is a multiple of: a power of two, at most 256.
inline int64_t alignment_of(const void* p) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(p) | 256;
  return static_cast<int64_t>(address & (~address + 1));
}

}  // namespace wick
