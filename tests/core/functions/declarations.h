#pragma once

#include <string>
#include <vector>

namespace wick::testing {

/// A function that a header of core/ops declares for users.
struct Declaration {
  std::string name;    // with its namespace below wick, if any
  std::string header;  // "sort.h"
  bool takes_tensors;  // without a default
};

/// All of them, by header; overloads follow each other.
std::vector<Declaration> declarations();

}  // namespace wick::testing
