#pragma once

#include "wick/bench/runner/options.h"

namespace wick::bench {

/// Runs the rows of this program and of --against's in turns, and prints for each how many times as
/// long this one takes. Returns the exit code: kSlowerExit if a row is slower.
int run_against(const Options& options, const std::vector<const Row*>& rows);

}  // namespace wick::bench
