#pragma once

#include <string>
#include <vector>

namespace wick::bench {

/// A program started with pipes to its standard input and output, that answers each line with one.
/// Ended when this goes. Errors name the program.
class Child {
 public:
  Child(const std::string& program, const std::vector<std::string>& arguments);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Sends `line`, and gives the answer, without its end. Error if there is none within
  /// `seconds` or before the user interrupts, or none that is a line.
  std::string ask(const std::string& line, double seconds);
  std::string answer(double seconds);

 private:
  std::string program_;
  int pid_ = -1;
  int to_ = -1, from_ = -1;
  std::string pending_;
};

}  // namespace wick::bench
