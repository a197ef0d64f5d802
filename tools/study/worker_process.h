#pragma once

#include "wick/tools/common/child.h"
#include "wick/tools/study/settings.h"

namespace wick::study {

using tool::ChildError;

/// A process of this program that does what its settings say (see serve). Between answers it is
/// stopped. ChildError if it reports one.
class WorkerProcess {
 public:
  explicit WorkerProcess(const Settings& settings);

  nlohmann::json ask(const std::string& line, double seconds = kPatience);
  /// Both halves of `ask`, so that several can be at work.
  void send(const std::string& line) { child_.send(line); }
  nlohmann::json answer(double seconds = kPatience);

  static constexpr double kPatience = 120;

 private:
  tool::Child child_;
};

}  // namespace wick::study
