#pragma once

#include "wick/optim/schedule.h"

namespace wick::optim {

/// A schedule whose steps are counted on the device. A step that was skipped, because a gradient
/// was not finite, does not count, and the host does not wait to know. The rates of all steps are
/// put there at once.
class DeviceSchedule {
 public:
  /// For a run of `steps` steps in all, from the one that `schedule` is at on. Its rates depend on
  /// the step alone; it and its optimizer must outlive this. Error if it is past that step, if
  /// one of its values is none for its optimizer, or for more than 2^30 rates.
  DeviceSchedule(Schedule& schedule, int64_t steps);

  /// Goes on to the next step unless `found_inf` (float32, rank 0, on the device) is not 0. Past
  /// the last step the rates stay as they are there, and settle() is an error: whether a step was
  /// taken, this does not wait to know.
  void step(const Tensor& found_inf);
  /// Sets the schedule, and with it what the optimizer says of its rates, to the steps counted so
  /// far, and returns their number. Waits for the device. Error, and the schedule as it was, if
  /// they are more than the run was to have.
  int64_t settle();
  /// Counts on from the step that the schedule is at, as after its load_state_dict.
  void count_from_schedule();
  Schedule& schedule() const { return schedule_; }  // that gives the rates

 private:
  Schedule& schedule_;
  std::vector<Tensor> rates_;  // of each group: what the optimizer reads
  Tensor table_;               // [steps + 1, groups, 2]
  Tensor taken_;               // int64, one element
};

}  // namespace wick::optim
