#pragma once

namespace wick {

/// Threads that CPU kernels called from this thread may use, itself included. A fork copies none of
/// them: in a child that was forked after they had computed, operations are errors until
/// set_num_threads(1) (on its other threads they are not).
int num_threads();
/// Sets it for this thread: 1 or more. Data workers set 1.
void set_num_threads(int threads);

}  // namespace wick
