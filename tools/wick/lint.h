#pragma once

#include "wick/train/recipe.h"

namespace wick::tool {

/// `wick train --lint`: prints what nn::lint_training finds in a run of `recipe`, which is
/// resolved. Writes nothing and trains nothing that lasts. Returns the exit code.
int lint(const train::Recipe& recipe, bool json);

}  // namespace wick::tool
