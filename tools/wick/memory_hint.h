#pragma once

#include <string>

#include "wick/nn/module.h"
#include "wick/tools/wick/config.h"

namespace wick::tool {

/// What would help a run whose step ran out of memory: pieces of a batch that would fit, and what
/// recomputed activations would save, in words for the command line (nn/memory_advice.h). Measured
/// by passes of `model` over samples like `sample`; empty if not even a few fit.
std::string memory_hint(const TrainConfig& config, nn::Module& model, const data::Field& sample,
                        Device device);

}  // namespace wick::tool
