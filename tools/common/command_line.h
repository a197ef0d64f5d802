#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace wick::tool {

/// UsageError where a flag of `words` has no value, an empty one, or the next flag for one, and
/// where a word itself is empty: what an unset variable of a shell leaves. A value that begins with
/// "--" is given as --flag=VALUE.
void check_words(CLI::App& app, const std::vector<std::string>& words);

}  // namespace wick::tool
