#pragma once

#include "wick/core/base/device.h"
#include "wick/core/tensor.h"
#include "wick/kernels/random.h"

namespace wick {

/// A capture that is under way on this thread. For the library's own use.
struct Capture {
  Device device;
  RandomKey start;  // of the device's default generator
  Tensor base;      // int64, 2, on the device: its seed and offset at a replay
  bool draws = false;
};

/// This thread's capture of the device's work; null if there is none.
Capture* capture_of(Device device);
/// Whether this thread captures any device's work.
bool is_capturing();
/// Error if this thread captures the device's work, which `what` cannot be part of.
void refuse_in_capture(Device device, const char* what);

}  // namespace wick
