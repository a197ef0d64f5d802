#pragma once

#include <string>
#include <vector>

#include "wick/core/base/check.h"

namespace wick::tool {

/// A child that is gone, silent or not to be waited for: its name and what is wrong.
class ChildError : public Error {
 public:
  using Error::Error;
};

struct ChildOptions {
  std::string name = {};  // in errors; empty: the program
  /// Whether it is stopped, with all its threads, between answers, so that it takes nothing from
  /// whoever's turn it is.
  bool rests = false;
  bool (*interrupted)() = nullptr;  // whether an answer shall be waited for no longer
};

/// A program started with pipes to its standard input and output, that answers each line with one.
/// Killed when this goes. One that `rests` has to ask the system to die with its parent.
class Child {
 public:
  /// Error if the program cannot be run.
  Child(const std::string& program, const std::vector<std::string>& arguments,
        ChildOptions options = {});
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Sends `line`, and gives the answer. ChildError as for both.
  std::string ask(const std::string& line, double seconds);
  /// Sends `line`, so that several children can be at work. ChildError if it has ended.
  void send(const std::string& line);
  /// The next line, without its end. ChildError if there is none within `seconds` or before it
  /// ends, or if that is endless.
  std::string answer(double seconds);

 private:
  void start(const std::string& program, const std::vector<std::string>& arguments);
  void signal(int number) const;
  [[noreturn]] void fail_as_it_ended();

  ChildOptions options_;
  int pid_ = -1;
  int to_ = -1, from_ = -1;
  std::string pending_;
};

}  // namespace wick::tool
