#pragma once

#include "wick/optim/schedule.h"

namespace wick::optim {

/// A schedule whose steps are counted on the device: one that was skipped, because a gradient was
/// not finite, does not count, and nobody waits to know. The rates of all steps are put there at
/// once.
class DeviceSchedule {
 public:
  /// `schedule`, whose rates depend on the step alone, is for `optimizer` and has the rates of the
  /// run's first `steps` steps. Both must outlive this.
  DeviceSchedule(Schedule& schedule, Optimizer& optimizer, int64_t steps);

  /// Goes on to the next step unless `found_inf` (float32, rank 0, on the device) is not 0. After
  /// the last step it stays there.
  void step(const Tensor& found_inf);
  /// Sets the schedule, and with it what the optimizer says of its rates, to the steps counted so
  /// far, and returns their number. Waits for the device.
  int64_t settle();

 private:
  Schedule& schedule_;
  std::vector<Tensor> rates_;  // of each group: what the optimizer reads
  Tensor table_;               // [steps + 1, groups, 2]
  Tensor taken_;               // int64, one element
};

}  // namespace wick::optim
