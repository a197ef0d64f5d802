#pragma once

#include <sys/types.h>

#include <stdexcept>

#include "wick/tools/study/settings.h"

namespace wick::study {

/// What went wrong in a worker process, or that it is gone.
class ChildError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A process of this program that does what its settings say (see serve), and ends with this
/// object or with this process. Between answers it is stopped, with all its threads, so that it
/// takes nothing from whoever's turn it is.
class Child {
 public:
  explicit Child(const Settings& settings);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Sends a line and waits for the answer. ChildError if that is an error, if there is none within
  /// `seconds`, or if the process is gone.
  nlohmann::json ask(const std::string& line, double seconds = kPatience);

  static constexpr double kPatience = 120;

 private:
  nlohmann::json read(double seconds);
  void rest();
  /// How the process ended; waits for it.
  std::string end();

  pid_t process_ = -1;
  int input_ = -1, output_ = -1;
  std::string unread_;
};

}  // namespace wick::study
