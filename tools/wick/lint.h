#pragma once

#include "wick/tools/wick/config.h"

namespace wick::tool {

/// `wick train --lint`: prints what nn::lint_training finds in a run of this configuration, which
/// is resolved. Writes nothing and trains nothing that lasts. Returns the exit code.
int lint(const TrainConfig& config, bool json);

}  // namespace wick::tool
