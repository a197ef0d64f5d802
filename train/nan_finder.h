#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "wick/train/recipe.h"

namespace wick::train {

/// What a search for the first NaN of a run found.
struct NanSearch {
  /// Where the first NaN came, or where the loss diverged.
  struct Found {
    int64_t step = 0, epoch = 0;  // from 1, `step` within the run
    int64_t batch = 0;            // from 1, within the epoch
    std::string text;             // names the operation, its module and the count of NaN
  };

  int64_t first_step = 0, last_step = 0;  // that were repeated, from 1
  std::optional<Found> found = {};
};

/// Repeats the steps of the run in `folder` from its newest good checkpoint, with checks on every
/// operation's results, forward and backward, until one gives NaN or the run's loss diverges.
/// `recipe` is that of the run, resolved. Writes nothing. Error if there is no checkpoint.
NanSearch find_first_nan(const std::string& folder, Recipe recipe);

}  // namespace wick::train
