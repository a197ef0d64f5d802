#pragma once

#include <cstddef>

namespace wick {

// Libraries of a GPU's vendor have several engines for a problem, each with settings. They are
// counted as the library lists them, the one that should be fastest first, and named without
// blanks, the same in every process. One may turn out to fail when it is used.

/// Leaves the choice to the library.
inline constexpr int kAnyEngine = -1;

/// As many are listed at most.
inline constexpr size_t kMostEngines = 16;

}  // namespace wick
