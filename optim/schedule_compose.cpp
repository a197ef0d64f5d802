#include "wick/optim/schedule_compose.h"

#include <algorithm>
#include <cmath>

#include "wick/core/graph/trace.h"

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

std::string kind_of(const char* name, const std::vector<std::shared_ptr<Schedule>>& schedules) {
  std::string kinds;
  for (const auto& schedule : schedules) kinds += (kinds.empty() ? "" : ", ") + schedule->kind();
  return concat(name, "(", kinds, ")");
}

ScheduleOptions options_of(const std::vector<std::shared_ptr<Schedule>>& schedules) {
  ScheduleOptions all;
  for (size_t i = 0; i < schedules.size(); ++i) {
    for (const auto& [name, value] : schedules[i]->options()) {
      all.emplace_back(concat("schedule ", i, ": ", name), value);
    }
  }
  return all;
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

std::string ChainedScheduler::kind() const { return kind_of("chained_scheduler", schedules_); }

ScheduleOptions ChainedScheduler::options() const { return options_of(schedules_); }

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

std::string SequentialLR::kind() const { return kind_of("sequential_lr", schedules_); }

ScheduleOptions SequentialLR::options() const {
  ScheduleOptions options = options_of(schedules_);
  for (const int64_t milestone : milestones_) options.emplace_back("milestone", milestone);
  return options;
}

namespace {
constexpr const char* kPlateau = "reduce_lr_on_plateau";
}  // namespace

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, const PlateauOptions& options)
    : optimizer_(optimizer),
      options_(options),
      num_groups_(optimizer.num_groups()),
      best_(options.maximize ? -HUGE_VAL : HUGE_VAL) {
  check_below_one(kPlateau, "factor", options.factor);
  WICK_CHECK(options.patience >= 0 && options.cooldown >= 0,
             "reduce_lr_on_plateau: patience and cooldown: got ", options.patience, " and ",
             options.cooldown, ", expected 0 or more");
  check_not_negative(kPlateau, "threshold", options.threshold);
  options.min_lr.check(kPlateau, "min_lr", optimizer.num_groups(), check_not_negative);
  check_not_negative(kPlateau, "eps", options.eps);
}

bool ReduceLROnPlateau::is_better(double metric) const {
  const double t = options_.threshold;
  if (options_.maximize) return metric > (options_.relative ? best_ * (1 + t) : best_ + t);
  return metric < (options_.relative ? best_ * (1 - t) : best_ - t);
}

void ReduceLROnPlateau::step(double metric) {
  WICK_CHECK(!graph::is_tracing(), kPlateau, ": step: got a call within a trace, which would keep ",
             "the metric ", metric, ": expected one outside");
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
  for (int g = 0; g < num_groups_; ++g) {
    const double now = optimizer_.lr(g);
    const double next = std::max(now * options_.factor, options_.min_lr[g]);
    if (now - next > options_.eps) optimizer_.set_hyperparameter(g, "lr", next);
  }
  cooldown_left_ = options_.cooldown;
  bad_steps_ = 0;
}

ScheduleOptions ReduceLROnPlateau::options() const {
  const PlateauOptions& o = options_;
  ScheduleOptions options{{"maximize", o.maximize},
                          {"factor", o.factor},
                          {"patience", o.patience},
                          {"threshold", o.threshold},
                          {"relative", o.relative},
                          {"cooldown", o.cooldown},
                          {"eps", o.eps}};
  for (int g = 0; g < num_groups_; ++g) options.emplace_back("min_lr", o.min_lr[g]);
  return options;
}

StateDict ReduceLROnPlateau::state_dict() const {
  StateDict state{{"best", scalar_tensor(best_, kFloat64)},
                  {"bad_steps", scalar_tensor(bad_steps_, kInt64)},
                  {"cooldown_left", scalar_tensor(cooldown_left_, kInt64)}};
  write_description(state, kPlateau, options());
  return state;
}

void ReduceLROnPlateau::load_state_dict(const StateDict& state) {
  for (const char* name : {"best", "bad_steps", "cooldown_left"}) {
    WICK_CHECK(state.contains(name), "reduce_lr_on_plateau: load_state_dict: missing ", name);
  }
  check_description(state, kPlateau, options());
  const double best = state.at("best").item();
  const auto bad_steps = state.at("bad_steps").item<int64_t>();
  const auto cooldown_left = state.at("cooldown_left").item<int64_t>();
  WICK_CHECK(!std::isnan(best), "reduce_lr_on_plateau: load_state_dict: best: got nan");
  WICK_CHECK(bad_steps >= 0 && cooldown_left >= 0,
             "reduce_lr_on_plateau: load_state_dict: bad_steps and cooldown_left: got ", bad_steps,
             " and ", cooldown_left, ", expected 0 or more");
  best_ = best;
  bad_steps_ = bad_steps;
  cooldown_left_ = cooldown_left;
}

}  // namespace wick::optim
