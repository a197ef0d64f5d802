#include "wick/optim/schedule_cycle.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace wick::optim {

namespace {
void check_positive(std::string_view who, std::string_view name, double value) {
  WICK_CHECK(std::isfinite(value) && value > 0, who, ": ", name, ": got ", value,
             ", expected a finite value, more than 0");
}
}  // namespace

OneCycleLR::OneCycleLR(Optimizer& optimizer, const OneCycleOptions& options)
    : Schedule(optimizer), options_(options) {
  const OneCycleOptions& o = options;
  WICK_CHECK(o.total_steps >= 1, "one_cycle_lr: total_steps: got ", o.total_steps,
             ", expected 1 or more");
  o.max_lr.check("one_cycle_lr", "max_lr", optimizer.num_groups(), check_positive);
  WICK_CHECK(o.pct_start >= 0 && o.pct_start <= 1, "one_cycle_lr: pct_start: got ", o.pct_start,
             ", expected a value in [0, 1]");
  check_positive("one_cycle_lr", "div_factor", o.div_factor);
  check_positive("one_cycle_lr", "final_div_factor", o.final_div_factor);
  if (o.cycle_momentum) check_momenta("one_cycle_lr", optimizer, o.base_momentum, o.max_momentum);
  const double total = static_cast<double>(o.total_steps);
  for (int g = 0; g < optimizer.num_groups(); ++g) {
    const double top = o.max_lr[g], first = top / o.div_factor, last = first / o.final_div_factor;
    const double low = o.cycle_momentum ? o.base_momentum[g] : 0;
    const double high = o.cycle_momentum ? o.max_momentum[g] : 0;
    auto& phases = phases_.emplace_back();
    phases.push_back({o.pct_start * total - 1, first, top, high, low});
    if (o.three_phase) {
      phases.push_back({2 * o.pct_start * total - 2, top, first, low, high});
      phases.push_back({total - 1, first, last, high, high});
    } else {
      phases.push_back({total - 1, top, last, low, high});
    }
  }
  set_values(0);
  for (int g = 0; g < optimizer.num_groups(); ++g) {
    optimizer.set_lr(g, optimizer.lr(g));  // which schedules made from now on start from
    optimizer.base_lr(g);
  }
}

ScheduleOptions OneCycleLR::options() const {
  const OneCycleOptions& o = options_;
  ScheduleOptions options{
      {"total_steps", o.total_steps},         {"pct_start", o.pct_start},
      {"anneal", static_cast<int>(o.anneal)}, {"cycle_momentum", o.cycle_momentum},
      {"div_factor", o.div_factor},           {"final_div_factor", o.final_div_factor},
      {"three_phase", o.three_phase}};
  for (int g = 0; g < num_groups(); ++g) {
    options.emplace_back("max_lr", o.max_lr[g]);
    if (!o.cycle_momentum) continue;
    options.emplace_back("base_momentum", o.base_momentum[g]);
    options.emplace_back("max_momentum", o.max_momentum[g]);
  }
  return options;
}

double OneCycleLR::interpolate(double from, double to, double share) const {
  // In the step after the last, which PyTorch allows too, a line would go on below 0.
  if (options_.anneal == Anneal::kLinear) return from + (to - from) * std::min(share, 1.0);
  return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * share));
}

std::pair<const OneCycleLR::Phase*, double> OneCycleLR::phase_at(int group, int64_t step) const {
  WICK_CHECK(step <= options_.total_steps, "one_cycle_lr: step ", step, " of ",
             options_.total_steps,
             ": the cycle has ended: make total_steps the epochs times the steps of an epoch");
  const std::vector<Phase>& phases = phases_.at(static_cast<size_t>(group));
  const double now = static_cast<double>(step);
  double start = 0;
  size_t i = 0;
  while (i + 1 < phases.size() && now > phases[i].end) start = phases[i++].end;
  const double length = phases[i].end - start;
  return {&phases[i], length == 0 ? 1 : (now - start) / length};
}

double OneCycleLR::lr_at(int group, int64_t step, double) const {
  const auto [phase, share] = phase_at(group, step);
  return interpolate(phase->from_lr, phase->to_lr, share);
}

std::optional<double> OneCycleLR::momentum_at(int group, int64_t step) const {
  if (!options_.cycle_momentum) return {};
  const auto [phase, share] = phase_at(group, step);
  return interpolate(phase->from_momentum, phase->to_momentum, share);
}

CyclicLR::CyclicLR(Optimizer& optimizer, const CyclicOptions& options)
    : Schedule(begin_at_foot(optimizer, options)), options_(options) {
  set_values(0);
}

// The rate that a cycle begins at is the one that other schedules of the optimizer start from,
// unless one did before: so SequentialLR goes on from it.
Optimizer& CyclicLR::begin_at_foot(Optimizer& optimizer, const CyclicOptions& o) {
  WICK_CHECK(o.step_size_up >= 1 && o.step_size_down.value_or(1) >= 1,
             "cyclic_lr: step_size_up and step_size_down: got ", o.step_size_up, " and ",
             o.step_size_down.value_or(o.step_size_up), ", expected 1 or more");
  const int groups = optimizer.num_groups();
  o.base_lr.check("cyclic_lr", "base_lr", groups, check_not_negative);
  o.max_lr.check("cyclic_lr", "max_lr", groups, check_positive);
  check_not_negative("cyclic_lr", "gamma", o.gamma);
  if (o.cycle_momentum) check_momenta("cyclic_lr", optimizer, o.base_momentum, o.max_momentum);
  for (int g = 0; g < groups; ++g) optimizer.base_lr(g, o.base_lr[g]);
  return optimizer;
}

ScheduleOptions CyclicLR::options() const {
  const CyclicOptions& o = options_;
  ScheduleOptions options{{"step_size_up", o.step_size_up},
                          {"step_size_down", o.step_size_down.value_or(o.step_size_up)},
                          {"mode", static_cast<int>(o.mode)},
                          {"gamma", o.gamma},
                          {"scale", o.scale != nullptr},
                          {"scale_by_step", o.scale_by_step},
                          {"cycle_momentum", o.cycle_momentum}};
  for (int g = 0; g < num_groups(); ++g) {
    options.emplace_back("base_lr", o.base_lr[g]);
    options.emplace_back("max_lr", o.max_lr[g]);
    if (!o.cycle_momentum) continue;
    options.emplace_back("base_momentum", o.base_momentum[g]);
    options.emplace_back("max_momentum", o.max_momentum[g]);
  }
  return options;
}

double CyclicLR::height(int64_t step) const {
  const double up = static_cast<double>(options_.step_size_up);
  const double down = static_cast<double>(options_.step_size_down.value_or(options_.step_size_up));
  const double now = static_cast<double>(step), cycles = now / (up + down);
  const double cycle = std::floor(1 + cycles);
  const double place = 1 + cycles - cycle, top = up / (up + down);
  const double triangle = place <= top ? place / top : (place - 1) / (top - 1);
  if (options_.scale) return triangle * options_.scale(options_.scale_by_step ? now : cycle);
  if (options_.mode == CycleMode::kTriangular2) return triangle / std::pow(2.0, cycle - 1);
  if (options_.mode == CycleMode::kExpRange) return triangle * std::pow(options_.gamma, now);
  return triangle;
}

double CyclicLR::lr_at(int group, int64_t step, double) const {
  const double low = options_.base_lr[group], high = options_.max_lr[group];
  return low + (high - low) * height(step);
}

std::optional<double> CyclicLR::momentum_at(int group, int64_t step) const {
  if (!options_.cycle_momentum) return {};
  const double low = options_.base_momentum[group], high = options_.max_momentum[group];
  return high - (high - low) * height(step);
}

}  // namespace wick::optim
