#pragma once

#include <cstdint>
#include <optional>

#include "wick/train/recipe.h"

namespace wick::tool {

/// Joins the other ranks, if a launcher's variables say that there are some, and waits until all
/// have come. Error if --ranks, where it is given, says another number, and if they do not come
/// together.
train::Ranks join_ranks(const train::Recipe& recipe, std::optional<int64_t> ranks);

/// Error if this machine does not have the device that `recipe` names, or the backend is not for
/// it.
void check_backend(const train::Recipe& recipe);

}  // namespace wick::tool
