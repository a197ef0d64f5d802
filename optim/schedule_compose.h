#pragma once

#include "wick/optim/schedule.h"

namespace wick::optim {

/// Schedules of one optimizer, each of which changes the rate that the one before it gives: the
/// factors of several multiply. The last that sets a momentum has its way.
///
/// PyTorch's does the same with factors, and with a cosine down to 0. But its other schedules
/// (CyclicLR, OneCycleLR, CosineAnnealingWarmRestarts, LambdaLR) forget what they are given. Of
/// what follows them in the chain only the last step's change counts. There CyclicLR and
/// ExponentialLR(0.5) halve the cycle once and for all, where here it fades.
class ChainedScheduler final : public Schedule {
 public:
  ChainedScheduler(Optimizer& optimizer, std::vector<std::shared_ptr<Schedule>> schedules);
  double lr_at(int group, int64_t step, double base) const override;
  std::optional<double> momentum_at(int group, int64_t step) const override;
  std::string kind() const override;
  ScheduleOptions options() const override;

 private:
  std::vector<std::shared_ptr<Schedule>> schedules_;
};

/// Schedules of one optimizer one after another: the i-th from step milestones[i - 1] on, which is
/// its step 0. Milestones rise; there is one less than schedules. With a first one of 0 the first
/// schedule is left out (a warm-up of no steps), as in PyTorch 2.15; 1.13 mixes the two.
class SequentialLR final : public Schedule {
 public:
  SequentialLR(Optimizer& optimizer, std::vector<std::shared_ptr<Schedule>> schedules,
               std::vector<int64_t> milestones);
  double lr_at(int group, int64_t step, double base) const override;
  std::optional<double> momentum_at(int group, int64_t step) const override;
  std::string kind() const override;
  ScheduleOptions options() const override;

 private:
  /// The schedule in force, and its step.
  std::pair<const Schedule*, int64_t> current(int64_t step) const;

  std::vector<std::shared_ptr<Schedule>> schedules_;
  std::vector<int64_t> milestones_;
};

/// Options of ReduceLROnPlateau, with the defaults of torch.optim.lr_scheduler.ReduceLROnPlateau.
/// Error for a `factor` outside [0, 1), or another number that is negative.
struct PlateauOptions {
  bool maximize = false;  // the metric should rise, not fall
  double factor = 0.1;
  int64_t patience = 10;  // steps without improvement that are borne
  double threshold = 1e-4;
  bool relative = true;  // improvement is by threshold * |best|, else by threshold
  int64_t cooldown = 0;  // steps after a cut in which none counts as bad
  PerGroup min_lr = 0;
  double eps = 1e-8;  // smaller cuts are not made
};

/// Multiplies the rate by `factor` when a metric has not improved for more than `patience` steps.
class ReduceLROnPlateau {
 public:
  explicit ReduceLROnPlateau(Optimizer& optimizer, const PlateauOptions& options = {});
  ReduceLROnPlateau(const ReduceLROnPlateau&) = delete;
  ReduceLROnPlateau& operator=(const ReduceLROnPlateau&) = delete;

  /// Takes the metric of another epoch. NaN is no improvement.
  void step(double metric);
  double last_lr(int group = 0) const { return optimizer_.lr(group); }  // of the next step

  /// Best metric, bad steps and cooldown; the rates are in the optimizer's state.
  StateDict state_dict() const;
  /// Goes on from there; errors as those of Schedule::load_state_dict.
  void load_state_dict(const StateDict& state);

 private:
  ScheduleOptions options() const;
  bool is_better(double metric) const;

  Optimizer& optimizer_;
  PlateauOptions options_;
  int num_groups_;  // those there were when it was made
  double best_;
  int64_t bad_steps_ = 0;
  int64_t cooldown_left_ = 0;
};

}  // namespace wick::optim
