#pragma once

#include "wick/core/profile/event.h"
#include "wick/core/tensor.h"

namespace wick::profile {

/// Tells a profiler that records memory what `tensor`'s is for, from when it was allocated on.
/// Optimizers do so with parameters, gradients and their state.
void label_memory(const Tensor& tensor, MemoryUse use);

}  // namespace wick::profile
