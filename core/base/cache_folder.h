#pragma once

#include <string>

namespace wick {

/// $XDG_CACHE_HOME/wick, or $HOME/.cache/wick; "" where neither variable names an absolute path.
std::string user_cache_folder();

}  // namespace wick
