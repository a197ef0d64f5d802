#pragma once

#include "wick/kernels/declare.h"

namespace wick::cuda {

/// Keeps the current stream of a GPU busy with nothing for so long: what is queued behind it while
/// it lasts then follows without gaps. The CPU, which queues nothing, has no such kernel.
void pause_for(Device device, double milliseconds);

}  // namespace wick::cuda
