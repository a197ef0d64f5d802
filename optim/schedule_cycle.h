#pragma once

#include "wick/optim/schedule.h"

namespace wick::optim {

/// How OneCycleLR goes from one value to the next: along half a cosine, or a line.
enum class Anneal : uint8_t { kCos, kLinear };

/// Options of OneCycleLR, with the defaults of torch.optim.lr_scheduler.OneCycleLR. Error for a
/// `max_lr` or a factor that is not above 0, `total_steps` below 1, or `pct_start` outside [0, 1].
/// With `cycle_momentum`, error for an optimizer without momentum, and for a momentum outside
/// [0, 1).
struct OneCycleOptions {
  PerGroup max_lr = 0;      // must be given
  int64_t total_steps = 0;  // must be given: epochs * steps per epoch
  double pct_start = 0.3;   // share of the steps in which the rate rises
  Anneal anneal = Anneal::kCos;
  bool cycle_momentum = true;  // momentum (or beta1) runs the other way
  PerGroup base_momentum = 0.85;
  PerGroup max_momentum = 0.95;
  double div_factor = 25;         // the first rate is max_lr / div_factor
  double final_div_factor = 1e4;  // the last one that / final_div_factor
  bool three_phase = false;       // down to the first rate, then on to the last
};

/// The one-cycle policy (Smith & Topin 2017, arXiv 1708.07120), with PyTorch's phases. step() more
/// than total_steps times is an error. Its first rate becomes the optimizer's base_lr, as there.
class OneCycleLR final : public Schedule {
 public:
  OneCycleLR(Optimizer& optimizer, const OneCycleOptions& options);
  double lr_at(int group, int64_t step, double base) const override;
  std::optional<double> momentum_at(int group, int64_t step) const override;
  std::string kind() const override { return "one_cycle_lr"; }
  ScheduleOptions options() const override;

 private:
  struct Phase {
    double end;
    double from_lr, to_lr;
    double from_momentum, to_momentum;
  };
  /// The phase of a group that `step` is in, and how much of it has passed.
  std::pair<const Phase*, double> phase_at(int group, int64_t step) const;
  double interpolate(double from, double to, double share) const;

  OneCycleOptions options_;
  std::vector<std::vector<Phase>> phases_;  // of each group
};

enum class CycleMode : uint8_t {
  kTriangular,   // every cycle reaches max_lr
  kTriangular2,  // each cycle half as high as the one before
  kExpRange,     // the height shrinks by gamma each step
};

/// Options of CyclicLR, with the defaults of torch.optim.lr_scheduler.CyclicLR. `step_size_up` and
/// `step_size_down` are the steps in which the rate rises and falls. Error for either below 1, a
/// `max_lr` that is not above 0, or a `base_lr` or `gamma` below 0. With `cycle_momentum`, error
/// for an optimizer without momentum, and for a momentum outside [0, 1).
struct CyclicOptions {
  PerGroup base_lr = 0;  // must be given
  PerGroup max_lr = 0;   // must be given
  int64_t step_size_up = 2000;
  std::optional<int64_t> step_size_down = {};  // default: as up
  CycleMode mode = CycleMode::kTriangular;
  double gamma = 1;
  std::function<double(double)> scale = {};  // in place of mode: the height of a cycle ...
  bool scale_by_step = false;                // ... by its number, 1 first, or by the step's
  bool cycle_momentum = true;                // momentum (or beta1) runs the other way
  PerGroup base_momentum = 0.8;
  PerGroup max_momentum = 0.9;
};

/// Rates that rise from base_lr to max_lr and fall again, over and over (Smith 2015, arXiv
/// 1506.01186), whatever the groups' own were: base_lr becomes the optimizer's, too, as in PyTorch,
/// unless a schedule was made for it before.
class CyclicLR final : public Schedule {
 public:
  CyclicLR(Optimizer& optimizer, const CyclicOptions& options);
  double lr_at(int group, int64_t step, double base) const override;
  std::optional<double> momentum_at(int group, int64_t step) const override;
  std::string kind() const override { return "cyclic_lr"; }
  ScheduleOptions options() const override;

 private:
  static Optimizer& begin_at_foot(Optimizer& optimizer, const CyclicOptions& options);
  /// 0 at the foot of a cycle, 1 at the top, scaled.
  double height(int64_t step) const;

  CyclicOptions options_;
};

}  // namespace wick::optim
