#pragma once

#include "wick/core/base/device.h"
#include "wick/kernels/cuda/common/check.h"

namespace wick::cuda {

/// Makes GPU `device.index` the one that this thread's calls mean, and returns its current stream.
/// Error if there is no such GPU.
cudaStream_t enter_device(Device device);

/// How many multiprocessors the GPU has: what the number of a kernel's blocks follows from. This
/// and the next are asked for once per GPU.
int64_t multiprocessors(Device device);

/// The generation of the GPU: 9 of compute capability 9.0 (Hopper).
int64_t compute_capability(Device device);

/// For calls that need no GPU but would make a context on the first one from a thread that has
/// entered none: makes one that this process uses, if there is one, the one that they mean.
void enter_any_device() noexcept;

}  // namespace wick::cuda
