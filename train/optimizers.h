#pragma once

#include "wick/optim/registry.h"

namespace wick::train {

// Optimizers by name are the library's: each registers itself, and a program adds its own.
using optim::find_optimizer;
using optim::optimizer_names;
using optim::OptimizerEntry;
using optim::register_optimizer;

}  // namespace wick::train
