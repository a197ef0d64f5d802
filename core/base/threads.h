#pragma once

namespace wick {

/// Threads that CPU kernels called from this thread may use, itself included.
int num_threads();
/// Sets it for this thread: 1 or more. Data workers set 1.
void set_num_threads(int threads);

}  // namespace wick
