#pragma once

#include <string>

namespace wick::tool {

/// `word` as a shell reads it as one: in quotes if it holds anything that a shell would look at.
std::string shell_word(const std::string& word);

}  // namespace wick::tool
