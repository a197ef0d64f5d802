#pragma once

#include <cstdlib>
#include <string>

namespace wick {

/// $XDG_CACHE_HOME/wick, or $HOME/.cache/wick; "" where neither variable names an absolute path.
inline std::string user_cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return std::string(cache) + "/wick";
  const char* home = std::getenv("HOME");
  return home != nullptr && home[0] == '/' ? std::string(home) + "/.cache/wick" : std::string();
}

}  // namespace wick
