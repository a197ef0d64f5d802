#pragma once

#include <string>
#include <vector>

namespace wick::tool {

/// " Did you mean NAME?" with the candidate that `word` is most likely a misspelling of; empty if
/// none is near.
std::string suggestion(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace wick::tool
