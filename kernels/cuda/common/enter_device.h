#pragma once

#include "wick/core/base/device.h"
#include "wick/kernels/cuda/common/check.h"

namespace wick::cuda {

/// Makes GPU `device.index` the one that this thread's calls mean, and returns its current stream.
/// Error if there is no such GPU.
cudaStream_t enter_device(Device device);

}  // namespace wick::cuda
