#pragma once

#include <memory>
#include <string>
#include <vector>

#include "wick/optim/optim.h"
#include "wick/tools/wick/config.h"

namespace wick::tool {

/// Names that --schedule takes.
std::vector<std::string> schedule_names();

/// Checks what --schedule, --warmup, --schedule-epochs, --schedule-gamma and --schedule-power say
/// together, without a look at the data. Throws UsageError.
void check_schedule(const TrainConfig& config);

/// The learning rates of a run: a warm-up, and the schedule that follows it. Epochs are turned into
/// steps, so that rates change from step to step, but for those of plateau, which go by
/// evaluations.
class Rates {
 public:
  /// Sets the first rates. `config` is resolved; the optimizer must outlive it.
  Rates(const TrainConfig& config, int64_t total_steps, int64_t steps_per_epoch,
        optim::Optimizer& optimizer);

  /// Counts steps on a GPU from now on, so that nobody waits to know which were skipped. Not so
  /// with plateau, in whose warm-up they all count there.
  void count_on_device();
  /// Sets the rates of the next step. `skipped`, as of TrainStep::take, tells whether the last
  /// one was: it does not count then.
  void step(const Tensor& skipped);
  /// The rate of the next step of the first group, as a tensor of one float64: on the device if
  /// steps are counted there. Nobody waits.
  Tensor lr() const;
  /// Makes what is known on the host what the device has counted. Waits for it.
  void settle();
  /// Takes the test loss after a whole epoch.
  void evaluated(double loss);

  /// False for a constant rate.
  bool has_state() const { return schedule_ || plateau_; }
  optim::StateDict state_dict() const;
  /// Comes after the optimizer's own.
  void load_state_dict(const optim::StateDict& state);

 private:
  bool warms_up() const { return schedule_ && schedule_->steps_taken() < warmup_; }

  optim::Optimizer& optimizer_;
  int64_t total_steps_;
  int64_t warmup_;                             // steps
  std::unique_ptr<optim::Schedule> schedule_;  // null for a constant rate
  std::unique_ptr<optim::DeviceSchedule> counted_;
  std::unique_ptr<optim::ReduceLROnPlateau> plateau_;  // once the warm-up is over
};

}  // namespace wick::tool
