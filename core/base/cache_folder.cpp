#include "wick/core/base/cache_folder.h"

#include <cstdlib>

#include "wick/core/base/check.h"

namespace wick {

std::string user_cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return concat(cache, "/wick");
  const char* home = std::getenv("HOME");
  return home != nullptr && home[0] == '/' ? concat(home, "/.cache/wick") : std::string();
}

}  // namespace wick
