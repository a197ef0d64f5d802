#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wick/optim/optimizer.h"

namespace wick::optim {

/// Changes an optimizer's hyperparameters as steps go by. Construction sets the values of step 0;
/// each call of step() sets the next ones, after Optimizer::step.
class Schedule {
 public:
  explicit Schedule(Optimizer& optimizer);
  virtual ~Schedule() = default;
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;

  void step();
  /// Steps taken since construction.
  int64_t steps_taken() const { return step_; }
  double last_lr(int group = 0) const { return optimizer_.lr(group); }

  StateDict state_dict() const;
  void load_state_dict(const StateDict& state);

 protected:
  /// Sets the values of step `step` (0 is the first).
  virtual void set_values(int64_t step) = 0;

  /// The rate a group had when the schedule was made.
  double base_lr(int group) const { return base_lrs_.at(static_cast<size_t>(group)); }

  Optimizer& optimizer_;

 private:
  std::vector<double> base_lrs_;
  int64_t step_ = 0;
};

/// Half a cosine from each group's rate down to `eta_min` in `t_max` steps (SGDR without restarts,
/// Loshchilov & Hutter 2016, arXiv 1608.03983), and up again after that.
class CosineAnnealingLR final : public Schedule {
 public:
  CosineAnnealingLR(Optimizer& optimizer, int64_t t_max, double eta_min = 0);

 protected:
  void set_values(int64_t step) override;

 private:
  int64_t t_max_;
  double eta_min_;
};

enum class Anneal : uint8_t { kCos, kLinear };

struct OneCycleOptions {
  double max_lr = 0;         // must be given
  int64_t total_steps = 0;   // must be given: epochs * steps per epoch
  double pct_start = 0.3;    // share of the steps in which the rate rises
  Anneal anneal = Anneal::kCos;
  bool cycle_momentum = true;  // momentum (or beta1) runs the other way
  double base_momentum = 0.85;
  double max_momentum = 0.95;
  double div_factor = 25;         // the first rate is max_lr / div_factor
  double final_div_factor = 1e4;  // the last one that / final_div_factor
  bool three_phase = false;       // down to the first rate, then on to the last
};

/// The one-cycle policy (Smith & Topin 2017, arXiv 1708.07120), with PyTorch's phases. step() more
/// than total_steps times is an error.
class OneCycleLR final : public Schedule {
 public:
  OneCycleLR(Optimizer& optimizer, const OneCycleOptions& options);

 protected:
  void set_values(int64_t step) override;

 private:
  struct Phase {
    double end;
    double from_lr, to_lr;
    double from_momentum, to_momentum;
  };
  double interpolate(double from, double to, double share) const;

  OneCycleOptions options_;
  std::vector<Phase> phases_;
};

}  // namespace wick::optim
