#pragma once

#include <string>

#include "wick/core/base/check.h"

namespace wick::train {

/// The value of an option is out of its range, or does not go with another option.
/// what(): "train: max_steps: got 0, expected 1 or more".
class InvalidOption : public Error {
 public:
  InvalidOption(const std::string& option, const std::string& problem)
      : Error(concat("train: ", option, ": ", problem)), option_(option), problem_(problem) {}

  /// Its key in a configuration file: "max_steps".
  const std::string& option() const { return option_; }
  /// "got 0, expected 1 or more"
  const std::string& problem() const { return problem_; }

 private:
  std::string option_, problem_;
};

/// Throws InvalidOption unless `holds`. The problem is told by its parts.
template <class... Parts>
void require(bool holds, const char* option, const Parts&... problem) {
  if (!holds) throw InvalidOption(option, concat(problem...));
}

}  // namespace wick::train
