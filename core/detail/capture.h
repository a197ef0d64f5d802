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
  bool is_base_due = false;  // to the op of a graph that runs now, which was made without it

  /// A key of the default generator, counted from the base. Error if the work set the generator.
  RandomKey from_base(RandomKey key) const;
};

/// This thread's capture of the device's work; null if there is none.
Capture* capture_of(Device device);
/// Whether this thread captures any device's work.
bool is_capturing();
/// Error if this thread captures the device's work, which `what` cannot be part of.
void refuse_in_capture(Device device, const char* what);
/// Where an op draws that was made with `seed`, `offset` and, in a capture, its `base`.
RandomKey key_of_op(uint64_t seed, uint64_t offset, const Tensor& base, Device device);

}  // namespace wick
