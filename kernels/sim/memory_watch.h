#pragma once

#include <cstddef>

#include "wick/kernels/sim/cuda_runtime.h"

namespace wick::sim {

// Of a stream of `device`; these are no calls of the runtime's, and cannot fail.

/// From its turn in the stream on, the memory may be used, and holds NaN.
void show_in_order(void* pointer, size_t bytes, int device, cudaStream_t stream);
/// From its turn in the stream on, nobody may use the memory: AddressSanitizer reports it.
void hide_in_order(void* pointer, size_t bytes, int device, cudaStream_t stream);

}  // namespace wick::sim
