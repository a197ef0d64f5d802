#include "wick/train/jump_monitor.h"

#include <algorithm>
#include <cmath>

namespace wick::train {

namespace {

constexpr size_t kFewest = 16, kMost = 64;
constexpr double kDistances = 10;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::optional<double> JumpMonitor::jump(double figure) {
  std::optional<double> usual;
  if (last_.size() >= kFewest) {
    const double middle = median(last_);
    std::vector<double> distances;
    for (const double value : last_) distances.push_back(std::fabs(value - middle));
    const double allowed = std::max(std::fabs(middle), kDistances * median(distances));
    if (figure - middle > allowed) usual = middle;
  }
  const bool is_first = usual && !told_;
  told_ = usual.has_value();
  if (std::isfinite(figure)) {
    if (last_.size() < kMost) {
      last_.push_back(figure);
    } else {
      last_[next_] = figure;
      next_ = (next_ + 1) % kMost;
    }
  }
  return is_first ? usual : std::nullopt;
}

}  // namespace wick::train
