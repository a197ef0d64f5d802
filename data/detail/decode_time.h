#pragma once

#include <cstdint>

namespace wick::data {

/// The processor time that a thread may spend on an image: see ImageLimits.
class DecodeTime {
 public:
  /// It begins now.
  DecodeTime();
  /// To be told of `pixels` that are about to be decoded; true once the time is over.
  bool is_over_after(int64_t pixels) {
    constexpr int64_t kBetweenLooks = 1 << 20;
    passed_ += pixels;
    return passed_ >= kBetweenLooks && look();
  }
  double most() const { return most_; }

 private:
  bool look();

  double most_, end_ = 0;  // seconds
  int64_t passed_ = 0;     // pixels since the last look at the clock
};

}  // namespace wick::data
