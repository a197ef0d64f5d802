#pragma once

#include <memory>

#include "wick/tools/study/settings.h"

namespace wick::study {

/// What one side of a comparison does over and over.
class Workload {
 public:
  virtual ~Workload() = default;
  /// Does it `steps` times; the device has done it too when this returns.
  virtual void run(int64_t steps) = 0;
  /// Before a turn: uses up what was loaded ahead in the last one, which this one would get for
  /// nothing.
  virtual void begin() {}
  /// Seconds waited for data so far.
  virtual double wait_seconds() const { return 0; }
};

/// The workload that `settings.work` names: train (steps of training), evaluate (forward passes
/// without training), load (batches of a loader, nothing else), wrap (a batch of the caller's
/// memory becomes a tensor) or embed (steps of training of an embedding's table).
std::unique_ptr<Workload> make_workload(const Settings& settings);

}  // namespace wick::study
