#include "wick/optim/schedule.h"

#include <cmath>
#include <numbers>

namespace wick::optim {

Schedule::Schedule(Optimizer& optimizer) : optimizer_(optimizer) {
  for (int g = 0; g < optimizer.num_groups(); ++g) base_lrs_.push_back(optimizer.lr(g));
}

void Schedule::step() {
  set_values(step_ + 1);
  ++step_;
}

StateDict Schedule::state_dict() const {
  return {{"step", scalar_tensor(step_, kInt64)}, {"base_lrs", tensor(base_lrs_)}};
}

void Schedule::load_state_dict(const StateDict& state) {
  const auto step = state.find("step");
  const auto base_lrs = state.find("base_lrs");
  WICK_CHECK(step != state.end() && base_lrs != state.end(),
             "schedule: load_state_dict: needs step and base_lrs");
  WICK_CHECK(base_lrs->second.numel() == static_cast<int64_t>(base_lrs_.size()),
             "schedule: load_state_dict: got rates of ", base_lrs->second.numel(),
             " groups, expected ", base_lrs_.size());
  step_ = step->second.item<int64_t>();
  base_lrs_ = base_lrs->second.to_vector<double>();
  set_values(step_);
}

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, int64_t t_max, double eta_min)
    : Schedule(optimizer), t_max_(t_max), eta_min_(eta_min) {
  WICK_CHECK(t_max >= 1, "cosine_annealing_lr: t_max: got ", t_max, ", expected 1 or more");
}

void CosineAnnealingLR::set_values(int64_t step) {
  const double angle = std::numbers::pi * static_cast<double>(step) / static_cast<double>(t_max_);
  for (int g = 0; g < optimizer_.num_groups(); ++g) {
    const double lr = eta_min_ + (base_lr(g) - eta_min_) * (1 + std::cos(angle)) / 2;
    optimizer_.set_hyperparameter(g, "lr", lr);
  }
}

OneCycleLR::OneCycleLR(Optimizer& optimizer, const OneCycleOptions& options)
    : Schedule(optimizer), options_(options) {
  const OneCycleOptions& o = options;
  WICK_CHECK(o.total_steps >= 1, "one_cycle_lr: total_steps: got ", o.total_steps,
             ", expected 1 or more");
  WICK_CHECK(o.max_lr > 0, "one_cycle_lr: max_lr: got ", o.max_lr, ", expected more than 0");
  WICK_CHECK(o.pct_start >= 0 && o.pct_start <= 1, "one_cycle_lr: pct_start: got ", o.pct_start,
             ", expected a value in [0, 1]");
  WICK_CHECK(!o.cycle_momentum || optimizer.hyperparameter(0, "momentum").has_value() ||
                 optimizer.hyperparameter(0, "beta1").has_value(),
             "one_cycle_lr: cycle_momentum needs an optimizer with momentum or beta1");
  const double total = static_cast<double>(o.total_steps);
  const double first = o.max_lr / o.div_factor, last = first / o.final_div_factor;
  const double low = o.base_momentum, high = o.max_momentum;
  phases_.push_back({o.pct_start * total - 1, first, o.max_lr, high, low});
  if (o.three_phase) {
    phases_.push_back({2 * o.pct_start * total - 2, o.max_lr, first, low, high});
    phases_.push_back({total - 1, first, last, high, high});
  } else {
    phases_.push_back({total - 1, o.max_lr, last, low, high});
  }
  set_values(0);
}

double OneCycleLR::interpolate(double from, double to, double share) const {
  if (options_.anneal == Anneal::kLinear) return from + (to - from) * share;
  return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * share));
}

void OneCycleLR::set_values(int64_t step) {
  WICK_CHECK(step <= options_.total_steps, "one_cycle_lr: step ", step, " of ",
             options_.total_steps, ": the cycle has ended");
  const double now = static_cast<double>(step);
  double start = 0;
  size_t i = 0;
  while (i + 1 < phases_.size() && now > phases_[i].end) start = phases_[i++].end;
  const Phase& phase = phases_[i];
  const double share = phase.end == start ? 1 : (now - start) / (phase.end - start);
  const double lr = interpolate(phase.from_lr, phase.to_lr, share);
  const double momentum = interpolate(phase.from_momentum, phase.to_momentum, share);
  for (int g = 0; g < optimizer_.num_groups(); ++g) {
    optimizer_.set_hyperparameter(g, "lr", lr);
    if (!options_.cycle_momentum) continue;
    const bool beta = optimizer_.hyperparameter(g, "beta1").has_value();
    optimizer_.set_hyperparameter(g, beta ? "beta1" : "momentum", momentum);
  }
}

}  // namespace wick::optim
