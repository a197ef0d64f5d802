#pragma once

#include <string>

#include "wick/kernels/cuda/common/check.h"

// What a failed call of a vendor's library or of the driver means: their own codes do not say
// whether the device still works.
namespace wick::cuda {

/// Throws DeviceError if the device can do no more work in this process; `call` and `what` say what
/// failed.
void check_device(const char* call, const std::string& what);

/// Throws DeviceError in that case, else OutOfMemory if `no_memory`, else Error.
[[noreturn]] void fail_library(const char* call, const std::string& what, bool no_memory = false);

}  // namespace wick::cuda
