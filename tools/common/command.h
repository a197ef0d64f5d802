#pragma once

#include <functional>

namespace wick::tool {

/// What a subcommand does once its flags are read; the result is the program's exit code.
using Command = std::function<int()>;

}  // namespace wick::tool
