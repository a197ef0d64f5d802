#pragma once

#include <cstddef>

#include "wick/core/base/device.h"

// Memory of a GPU apart from its addresses, by the driver's own interface (the runtime has none).
// Sizes are multiples of 2 MiB.
namespace wick::cuda {

/// Whether `device` and its driver can do what follows.
bool has_virtual_memory(Device device);

/// Addresses for `bytes`; null if there are none.
void* reserve_addresses(Device device, size_t bytes);
/// Gives them back. No memory may be behind them.
void release_addresses(void* pointer, size_t bytes);

/// Puts memory of `device` behind reserved addresses, in pieces of `page` bytes, for kernels on
/// `device` alone. False, and nothing has changed, if the device has no more.
bool map_memory(Device device, void* pointer, size_t bytes, size_t page);
/// Waits for all work on `device`, and takes the memory away, whole pieces.
void unmap_memory(Device device, void* pointer, size_t bytes, size_t page);

}  // namespace wick::cuda
