#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "wick/core/options.h"
#include "wick/optim/optim.h"

namespace wick::train {

/// The course of onecycle, as optim::OneCycleOptions has it. None: the default there.
struct OneCycleShape {
  std::optional<double> pct_start = {}, div_factor = {}, final_div_factor = {};
  std::string anneal = "cos";  // or linear
  bool three_phase = false;
};

/// The learning rates of a run, in epochs: a warm-up, then a schedule by name. Epochs are turned
/// into steps, so that rates change from step to step; those of plateau change by evaluations.
struct ScheduleOptions {
  /// One of schedule_names(). The optimizer's rates are the peak.
  std::string name = "constant";
  /// Epochs (0.5 is fine) in which rates rise linearly to their peak; of onecycle, in its own way.
  double warmup = 0;
  /// step: epochs between cuts. cyclic: epochs of a cycle. multistep: the epochs of the cuts.
  /// plateau: epochs without a better test loss before a cut. Empty: a third of the run for step
  /// and cyclic, after 1/2 and 3/4 of it for multistep, 2 for plateau.
  std::vector<double> epochs = {};
  /// Factor of a cut of step, multistep and plateau (0.1); factor of each epoch of exponential
  /// (such that 1 % is left at the end).
  std::optional<double> gamma = {};
  /// Power of polynomial (2).
  std::optional<double> power = {};
  OneCycleShape onecycle = {};
};

/// The lengths of a run, in steps.
struct RunSteps {
  int64_t total = 0, per_epoch = 0, warmup = 0;

  /// Steps of some epochs, to the nearest.
  int64_t of(double epochs) const;
  /// Those after the warm-up, 1 or more: a run that a number of steps ends may end in its warm-up.
  int64_t after_warmup() const;
};

/// How many numbers a schedule takes as its `epochs`.
enum class ScheduleEpochs { kNone, kOne, kSeveral };
/// Where a schedule has its warm-up: before its first step, in its own way, or nowhere.
enum class ScheduleWarmup { kBefore, kOwn, kNone };

/// A schedule by name, as in `wick train --schedule NAME`.
struct ScheduleEntry {
  std::string name;
  /// Makes it for an optimizer whose rates are the peak. Null: a constant rate.
  std::function<std::unique_ptr<optim::Schedule>(
      const ScheduleOptions& options, const RunSteps& steps, optim::Optimizer& optimizer)>
      make = {};
  ScheduleEpochs epochs = ScheduleEpochs::kNone;
  bool gamma = false, power = false;  // whether it takes them
  ScheduleWarmup warmup = ScheduleWarmup::kBefore;
};

/// Offers a schedule of a program's own. Its state is in checkpoints, and where steps are counted
/// on a GPU its rates are there too. Error if the name is taken.
void register_schedule(ScheduleEntry entry);

/// onecycle cosine constant step multistep exponential polynomial linear cyclic plateau, and those
/// of the program's own.
std::vector<std::string> schedule_names();

OptionFields fields(ScheduleOptions& options);
/// InvalidOption unless the values are right and go together.
void check(const ScheduleOptions& options);

/// How long a run is.
struct RunLength {
  int64_t total_steps = 0, steps_per_epoch = 0;
  int64_t eval_every = 1;  // epochs between evaluations
};

/// Sets an optimizer's learning rates before each step of a run.
class RunSchedule {
 public:
  /// Sets the first rates. The optimizer must outlive the schedule.
  RunSchedule(const ScheduleOptions& options, const RunLength& length, optim::Optimizer& optimizer);

  /// Counts steps on a GPU from now on, so that the host does not wait to know which were skipped.
  /// No effect with plateau, in whose warm-up all steps count.
  void count_on_device();
  /// Sets the rates of the next step. `skipped`, as of Step::take, tells whether the last step was
  /// skipped: a skipped step does not count.
  void step(const Tensor& skipped);
  /// The rate of the next step of the first group, as a tensor of one float64: on the device if
  /// steps are counted there. The host does not wait.
  Tensor lr() const;
  /// Reads what the device has counted. The host waits for it.
  void settle();
  /// Takes the test loss after a whole epoch.
  void evaluated(double loss);

  /// False for a constant rate.
  bool has_state() const { return schedule_ || plateau_; }
  optim::StateDict state_dict() const;
  /// To be called after the optimizer's own.
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

}  // namespace wick::train
