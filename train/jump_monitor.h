#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace wick::train {

/// Follows a figure of training, as the loss, and tells where it jumps.
class JumpMonitor {
 public:
  /// Takes the figure of a step. Returns the median of the last 64, if the figure is above it by
  /// more than the median itself, and by more than ten times their median distance from it. Of
  /// steps in a row that are, the first is told. The first 16 steps tell nothing.
  std::optional<double> jump(double figure);

 private:
  std::vector<double> last_;
  size_t next_ = 0;  // the oldest, once there are 64
  bool told_ = false;
};

}  // namespace wick::train
