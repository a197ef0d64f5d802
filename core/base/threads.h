#pragma once

#include <memory>

namespace wick {

/// Threads that CPU kernels called from this thread may use, itself included. Before
/// set_num_threads(): OMP_NUM_THREADS where that is set, else the cores that the process may use. A
/// fork copies no thread: in a child that was forked after they had computed, operations are errors
/// until set_num_threads(1) (on its other threads they are not).
int num_threads();
/// Sets it for this thread: 1 to 1024. Data workers set 1.
void set_num_threads(int threads);

/// Threads of a host program that CPU kernels may run on.
class Executor {
 public:
  virtual ~Executor() = default;
  /// Calls `task(context, i)` for each i in [0, tasks), on threads of its choice, the calling one
  /// among them or not, and returns once all have ended. A task throws nothing and waits for no
  /// other: one thread may run all.
  virtual void run(int tasks, void (*task)(const void* context, int i), const void* context) = 0;
};

/// Makes kernels called from this thread run on `executor`, as num_threads() tasks, instead of on
/// threads of Wick's own. Null: on Wick's own again. Results have the same bits.
void set_executor(std::shared_ptr<Executor> executor);

}  // namespace wick
