#include "wick/optim/schedule_compose.h"

#include <algorithm>
#include <cmath>

namespace wick::optim {

namespace {
void check_schedules(const char* name, const Optimizer& optimizer,
                     const std::vector<std::shared_ptr<Schedule>>& schedules) {
  WICK_CHECK(!schedules.empty(), name, ": no schedules");
  for (size_t i = 0; i < schedules.size(); ++i) {
    WICK_CHECK(schedules[i] != nullptr, name, ": schedule ", i, " is null");
    WICK_CHECK(&schedules[i]->optimizer() == &optimizer, name, ": schedule ", i,
               " is of another optimizer, expected all of the one given");
  }
}
}  // namespace

ChainedScheduler::ChainedScheduler(Optimizer& optimizer,
                                   std::vector<std::shared_ptr<Schedule>> schedules)
    : Schedule(optimizer), schedules_(std::move(schedules)) {
  check_schedules("chained_scheduler", optimizer, schedules_);
  set_values(0);
}

double ChainedScheduler::lr_at(int group, int64_t step, double base) const {
  for (const auto& schedule : schedules_) base = schedule->lr_at(group, step, base);
  return base;
}

std::optional<double> ChainedScheduler::momentum_at(int group, int64_t step) const {
  std::optional<double> momentum;
  for (const auto& schedule : schedules_) {
    if (const auto own = schedule->momentum_at(group, step)) momentum = own;
  }
  return momentum;
}

SequentialLR::SequentialLR(Optimizer& optimizer, std::vector<std::shared_ptr<Schedule>> schedules,
                           std::vector<int64_t> milestones)
    : Schedule(optimizer), schedules_(std::move(schedules)), milestones_(std::move(milestones)) {
  check_schedules("sequential_lr", optimizer, schedules_);
  WICK_CHECK(milestones_.size() + 1 == schedules_.size(), "sequential_lr: got ", milestones_.size(),
             " milestones for ", schedules_.size(), " schedules, expected one less");
  for (size_t i = 0; i < milestones_.size(); ++i) {
    const int64_t least = i == 0 ? 0 : milestones_[i - 1] + 1;
    WICK_CHECK(milestones_[i] >= least, "sequential_lr: milestone ", i, ": got ", milestones_[i],
               ", expected ", least, " or more: they rise");
  }
  set_values(0);
}

std::pair<const Schedule*, int64_t> SequentialLR::current(int64_t step) const {
  const auto next = std::upper_bound(milestones_.begin(), milestones_.end(), step);
  const auto passed = static_cast<size_t>(next - milestones_.begin());
  return {schedules_[passed].get(), passed == 0 ? step : step - milestones_[passed - 1]};
}

double SequentialLR::lr_at(int group, int64_t step, double base) const {
  const auto [schedule, own_step] = current(step);
  return schedule->lr_at(group, own_step, base);
}

std::optional<double> SequentialLR::momentum_at(int group, int64_t step) const {
  const auto [schedule, own_step] = current(step);
  return schedule->momentum_at(group, own_step);
}

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, const PlateauOptions& options)
    : optimizer_(optimizer), options_(options), best_(options.maximize ? -HUGE_VAL : HUGE_VAL) {
  check_below_one("reduce_lr_on_plateau", "factor", options.factor);
  WICK_CHECK(options.patience >= 0 && options.cooldown >= 0,
             "reduce_lr_on_plateau: patience and cooldown: got ", options.patience, " and ",
             options.cooldown, ", expected 0 or more");
  check_not_negative("reduce_lr_on_plateau", "threshold", options.threshold);
  options.min_lr.check("reduce_lr_on_plateau", "min_lr", optimizer.num_groups(),
                       check_not_negative);
  check_not_negative("reduce_lr_on_plateau", "eps", options.eps);
}

bool ReduceLROnPlateau::is_better(double metric) const {
  const double t = options_.threshold;
  if (options_.maximize) return metric > (options_.relative ? best_ * (1 + t) : best_ + t);
  return metric < (options_.relative ? best_ * (1 - t) : best_ - t);
}

void ReduceLROnPlateau::step(double metric) {
  if (is_better(metric)) {
    best_ = metric;
    bad_steps_ = 0;
  } else {
    ++bad_steps_;
  }
  if (cooldown_left_ > 0) {
    --cooldown_left_;
    bad_steps_ = 0;
  }
  if (bad_steps_ <= options_.patience) return;
  for (int g = 0; g < optimizer_.num_groups(); ++g) {
    const double now = optimizer_.lr(g);
    const double next = std::max(now * options_.factor, options_.min_lr[g]);
    if (now - next > options_.eps) optimizer_.set_hyperparameter(g, "lr", next);
  }
  cooldown_left_ = options_.cooldown;
  bad_steps_ = 0;
}

StateDict ReduceLROnPlateau::state_dict() const {
  return {{"best", scalar_tensor(best_, kFloat64)},
          {"bad_steps", scalar_tensor(bad_steps_, kInt64)},
          {"cooldown_left", scalar_tensor(cooldown_left_, kInt64)}};
}

void ReduceLROnPlateau::load_state_dict(const StateDict& state) {
  for (const char* name : {"best", "bad_steps", "cooldown_left"}) {
    WICK_CHECK(state.contains(name), "reduce_lr_on_plateau: load_state_dict: missing ", name);
  }
  best_ = state.at("best").item();
  bad_steps_ = state.at("bad_steps").item<int64_t>();
  cooldown_left_ = state.at("cooldown_left").item<int64_t>();
}

}  // namespace wick::optim
