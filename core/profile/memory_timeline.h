#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "wick/core/profile/event.h"

namespace wick::profile {

inline constexpr size_t kMemoryUses = 6;

/// What a device's memory was for, over the time of a recording with `profile_memory`. Parameters,
/// their gradients and optimizer state are known by the optimizer's step, so the recording should
/// have one. Other memory is temporary if the operation that asked for it freed it, gradients
/// if a backward asked, activations if another operation did. What was there before, and is none of
/// these, is `other`.
class MemoryTimeline {
 public:
  /// The memory in live blocks after one allocation or free, in bytes.
  struct Point {
    int64_t time_ns = 0;
    std::array<int64_t, kMemoryUses> bytes = {};  // by MemoryUse
    int64_t total = 0;
  };
  /// Memory of one use that one operation asked for, in one module.
  struct Holder {
    MemoryUse use = MemoryUse::kOther;
    std::string_view op;      // empty: it was there before, or of no op
    std::string_view module;  // with `with_modules`
    int64_t bytes = 0, blocks = 0;
  };

  MemoryTimeline(const Recording& recording, Device device);

  /// One per allocation and free.
  const std::vector<Point>& points() const { return points_; }
  /// The first of those with most memory. Error without any.
  const Point& peak() const;
  /// Who held what at the peak, the most first.
  const std::vector<Holder>& holders() const { return holders_; }
  /// The peak by use and the largest holders, as text.
  std::string text(size_t most_holders = 12) const;

 private:
  Device device_;
  std::vector<Point> points_;
  size_t peak_ = 0;
  std::vector<Holder> holders_;
};

}  // namespace wick::profile
