#pragma once

#ifdef WICK_SIM
#include "wick/kernels/sim/cuda_runtime.h"
#else
#include <cuda_runtime.h>
#endif

namespace wick::cuda {

/// Whether the process can use the device no more after this error.
bool breaks_device(cudaError_t status);

/// Throws unless `status` is success: DeviceError if the device can do no more work in this
/// process, else Error. The text names the op, `call` and the runtime's error.
void check(cudaError_t status, const char* call);

}  // namespace wick::cuda

/// Carries out a call of the CUDA runtime, checked.
#define WICK_CUDA_CALL(function, ...) ::wick::cuda::check(function(__VA_ARGS__), #function)
