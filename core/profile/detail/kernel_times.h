#pragma once

#include <vector>

#include "wick/core/profile/event.h"

namespace wick::profile {

/// Marks the beginning of a kernel on a GPU's stream; returns the number that its event is to have
/// as `sequence`, 0 where its time is not taken: in a capture, beyond 65536 kernels of a session.
uint64_t begin_kernel_time(Stream stream);
/// Marks the end of the kernel that this thread began last.
void end_kernel_time(Stream stream);
/// Waits for the kernels of the session that has ended, and gives their events the times; none on a
/// simulated GPU, which has no speed.
void fill_kernel_times(Recording& recording);

}  // namespace wick::profile
