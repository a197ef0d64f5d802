#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "wick/optim/optimizer.h"
#include "wick/optim/per_group.h"
#include "wick/optim/schedule_state.h"

namespace wick::optim {

/// Changes an optimizer's hyperparameters as steps go by. Construction sets the values of step 0;
/// each call of step() sets the next ones, after Optimizer::step. Rates are those of PyTorch's
/// schedules of the same names (but see ChainedScheduler), computed from the step's number, so that
/// they carry no rounding from step to step. Groups start from Optimizer::base_lr.
class Schedule {
 public:
  explicit Schedule(Optimizer& optimizer);
  virtual ~Schedule() = default;
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;

  /// The optimizer whose hyperparameters it changes; it must outlive the schedule.
  Optimizer& optimizer() const { return optimizer_; }
  /// Goes on to the next step. Error, and nothing changed, if the schedule has ended or gives a
  /// value that is none for its optimizer.
  void step();
  /// Steps taken since construction.
  int64_t steps_taken() const { return step_; }
  double last_lr(int group = 0) const { return optimizer_.lr(group); }  // of the next step
  /// How many groups it sets: those there were when it was made.
  int num_groups() const { return static_cast<int>(base_lrs_.size()); }
  /// The rate that a group starts from.
  double base_lr(int group) const {
    WICK_CHECK(group >= 0 && group < num_groups(), "schedule: no such parameter group: got ", group,
               ", expected 0 to ", num_groups() - 1);
    return base_lrs_[static_cast<size_t>(group)];
  }

  /// Steps taken, the rates that groups start from, kind() and options(). The rates in force are in
  /// the optimizer's state.
  StateDict state_dict() const;
  /// Goes on from there. Error, and nothing changed, if it is the state of another kind of schedule
  /// or of one with other options (but for functions, which no state has). To go on with other
  /// options, erase "options" from it.
  void load_state_dict(const StateDict& state);

  /// What the schedule is, as its errors say: "step_lr".
  virtual std::string kind() const = 0;
  /// What it was made with, but for functions.
  virtual ScheduleOptions options() const = 0;
  /// The rate of step `step` (0 is the first) for a group that would have `base` without schedule.
  virtual double lr_at(int group, int64_t step, double base) const = 0;
  /// The momentum (or beta1) of step `step`; none if the schedule leaves it alone.
  virtual std::optional<double> momentum_at(int group, int64_t step) const;

 protected:
  /// Sets the values of step `step`. Constructors of schedules end with set_values(0).
  void set_values(int64_t step);
  /// Error unless the optimizer has a momentum or a beta1, and both of these are in [0, 1).
  static void check_momenta(const char* schedule, const Optimizer& optimizer,
                            const PerGroup& base_momentum, const PerGroup& max_momentum);

  Optimizer& optimizer_;

 private:
  std::vector<double> base_lrs_;
  int64_t step_ = 0;
};

/// A schedule that multiplies each group's rate by a factor that depends on the step alone.
class FactorSchedule : public Schedule {
 public:
  double lr_at(int, int64_t step, double base) const final { return base * factor(step); }

 protected:
  /// The constructor of Schedule.
  using Schedule::Schedule;
  /// What the rates of all groups are multiplied by in step `step`, from 0.
  virtual double factor(int64_t step) const = 0;
};

/// Multiplies the rate by `gamma` every `step_size` steps.
class StepLR final : public FactorSchedule {
 public:
  StepLR(Optimizer& optimizer, int64_t step_size, double gamma = 0.1);
  std::string kind() const override { return "step_lr"; }
  ScheduleOptions options() const override {
    return {{"step_size", step_size_}, {"gamma", gamma_}};
  }

 protected:
  double factor(int64_t step) const override;

 private:
  int64_t step_size_;
  double gamma_;
};

/// Multiplies the rate by `gamma` at each milestone (steps, in any order; one given twice counts
/// twice).
class MultiStepLR final : public FactorSchedule {
 public:
  MultiStepLR(Optimizer& optimizer, std::vector<int64_t> milestones, double gamma = 0.1);
  std::string kind() const override { return "multi_step_lr"; }
  ScheduleOptions options() const override;

 protected:
  double factor(int64_t step) const override;

 private:
  std::vector<int64_t> milestones_;
  double gamma_;
};

/// Multiplies the rate by `gamma` every step.
class ExponentialLR final : public FactorSchedule {
 public:
  ExponentialLR(Optimizer& optimizer, double gamma);
  std::string kind() const override { return "exponential_lr"; }
  ScheduleOptions options() const override { return {{"gamma", gamma_}}; }

 protected:
  double factor(int64_t step) const override;

 private:
  double gamma_;
};

/// From `start_factor` times the rate to `end_factor` times, in `total_iters` steps: a warm-up. In
/// 0 steps it stays at `start_factor` times.
class LinearLR final : public FactorSchedule {
 public:
  LinearLR(Optimizer& optimizer, double start_factor = 1.0 / 3, double end_factor = 1,
           int64_t total_iters = 5);
  std::string kind() const override { return "linear_lr"; }
  ScheduleOptions options() const override {
    return {{"start_factor", start_factor_},
            {"end_factor", end_factor_},
            {"total_iters", total_iters_}};
  }

 protected:
  double factor(int64_t step) const override;

 private:
  double start_factor_, end_factor_;
  int64_t total_iters_;
};

/// `factor` times the rate for `total_iters` steps, then the rate; with 0 steps, for good.
class ConstantLR final : public FactorSchedule {
 public:
  explicit ConstantLR(Optimizer& optimizer, double factor = 1.0 / 3, int64_t total_iters = 5);
  std::string kind() const override { return "constant_lr"; }
  ScheduleOptions options() const override {
    return {{"factor", factor_}, {"total_iters", total_iters_}};
  }

 protected:
  double factor(int64_t step) const override;

 private:
  double factor_;
  int64_t total_iters_;
};

/// The rate times (1 - step / total_iters)^power, and 0 from `total_iters` on.
class PolynomialLR final : public FactorSchedule {
 public:
  explicit PolynomialLR(Optimizer& optimizer, int64_t total_iters = 5, double power = 1);
  std::string kind() const override { return "polynomial_lr"; }
  ScheduleOptions options() const override {
    return {{"total_iters", total_iters_}, {"power", power_}};
  }

 protected:
  double factor(int64_t step) const override;

 private:
  int64_t total_iters_;
  double power_;
};

/// The rate times `factor(step)`, one function for all groups or one for each.
class LambdaLR final : public Schedule {
 public:
  using Factor = std::function<double(int64_t step)>;
  LambdaLR(Optimizer& optimizer, Factor factor);
  LambdaLR(Optimizer& optimizer, std::vector<Factor> factors);
  double lr_at(int group, int64_t step, double base) const override;
  std::string kind() const override { return "lambda_lr"; }
  ScheduleOptions options() const override { return {}; }

 private:
  std::vector<Factor> factors_;
};

/// Half a cosine from each group's rate down to `eta_min` in `t_max` steps (SGDR without restarts,
/// Loshchilov & Hutter 2016, arXiv 1608.03983), and up again after that.
class CosineAnnealingLR final : public Schedule {
 public:
  CosineAnnealingLR(Optimizer& optimizer, int64_t t_max, double eta_min = 0);
  double lr_at(int group, int64_t step, double base) const override;
  std::string kind() const override { return "cosine_annealing_lr"; }
  ScheduleOptions options() const override { return {{"t_max", t_max_}, {"eta_min", eta_min_}}; }

 private:
  int64_t t_max_;
  double eta_min_;
};

/// Half cosines from each group's rate down to `eta_min`, the first of `t_0` steps, each next one
/// `t_mult` times longer (SGDR, Loshchilov & Hutter 2016, arXiv 1608.03983).
class CosineAnnealingWarmRestarts final : public Schedule {
 public:
  CosineAnnealingWarmRestarts(Optimizer& optimizer, int64_t t_0, int64_t t_mult = 1,
                              double eta_min = 0);
  double lr_at(int group, int64_t step, double base) const override;
  std::string kind() const override { return "cosine_annealing_warm_restarts"; }
  ScheduleOptions options() const override {
    return {{"t_0", t_0_}, {"t_mult", t_mult_}, {"eta_min", eta_min_}};
  }

 private:
  int64_t t_0_, t_mult_;
  double eta_min_;
};

}  // namespace wick::optim
