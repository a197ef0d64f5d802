#pragma once

#include <map>
#include <string>
#include <vector>

namespace wick::golden {

/// What became of many cases: by family how many passed, were wrong, or asked for what Wick does
/// not have, and why.
class Survey {
 public:
  void pass(const std::string& family, const std::string& name);
  void wrong(const std::string& family, const std::string& name, const std::string& reason);
  void miss(const std::string& family, const std::string& name, const std::string& reason);
  /// Prints a table and totals, and writes all as JSON to `path`.
  void write(const std::string& path) const;

 private:
  struct Counts {
    int passed = 0, wrong = 0, missing = 0;
    std::map<std::string, int> reasons;
  };

  std::map<std::string, Counts> families_;
  std::vector<std::string> passed_;
  std::map<std::string, std::string> wrong_, missing_;
};

}  // namespace wick::golden
