#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "wick/core/base/check.h"

namespace wick::optim {

/// A number for all of an optimizer's parameter groups, or one for each.
class PerGroup {
 public:
  PerGroup(double all) : values_{all} {}
  PerGroup(std::initializer_list<double> each) : values_(each) {}
  PerGroup(std::vector<double> each) : values_(std::move(each)) {}

  double operator[](int group) const {
    return values_[values_.size() == 1 ? 0 : static_cast<size_t>(group)];
  }
  /// Calls `check(who, name, value)` for each value. Error unless they are one, or `groups`.
  template <class Check>
  void check(std::string_view who, std::string_view name, int groups, const Check& check) const {
    WICK_CHECK(values_.size() == 1 || values_.size() == static_cast<size_t>(groups), who, ": ",
               name, ": got ", values_.size(), " values, expected 1, or one for each of ", groups,
               " groups");
    for (const double value : values_) check(who, name, value);
  }

 private:
  std::vector<double> values_;
};

}  // namespace wick::optim
