#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "wick/tools/common/supervisor.h"
#include "wick/train/recipe.h"

namespace wick::tool {

/// What starting ranks can be told.
struct LaunchFlags {
  std::optional<int64_t> ranks;
  int64_t max_restarts = 0;
  std::string flight;
  bool bind_cores = false;
};
void add_launch_flags(CLI::App& app, LaunchFlags& flags);

/// Whether `wick train` is to start ranks, and not one itself: it was asked to, and no launcher has
/// started it as one. UsageError for values out of range.
bool starts_ranks(const LaunchFlags& flags);

/// Starts the ranks of `wick train`, with the words that it was called with, and when they fail
/// again with --resume. `recipe` is resolved.
int launch_train(const LaunchFlags& flags, const train::Recipe& recipe);

}  // namespace wick::tool
