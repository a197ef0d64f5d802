#include "wick/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "wick/core/graph/host_call.h"
#include "wick/core/graph/trace.h"
#include "wick/optim/detail/count.h"

namespace wick::optim {

Schedule::Schedule(Optimizer& optimizer) : optimizer_(optimizer) {
  for (int g = 0; g < optimizer.num_groups(); ++g) base_lrs_.push_back(optimizer.base_lr(g));
}

void Schedule::step() {
  if (graph::is_tracing()) {
    const auto again = [this](const std::vector<Tensor>&) {
      step();
      return Tensor();
    };
    graph::host_call(kind() + ".step", again, {});
    return;
  }
  set_values(step_ + 1);
  ++step_;
}

std::optional<double> Schedule::momentum_at(int, int64_t) const { return {}; }

void Schedule::set_values(int64_t step) {
  std::vector<Optimizer::Hyperparameters> groups(static_cast<size_t>(optimizer_.num_groups()));
  for (int g = 0; g < num_groups(); ++g) {
    auto& values = groups[static_cast<size_t>(g)];
    values.emplace_back("lr", lr_at(g, step, base_lr(g)));
    const std::optional<double> momentum = momentum_at(g, step);
    if (!momentum) continue;
    values.emplace_back(optimizer_.momentum_name(), *momentum);
  }
  optimizer_.set_hyperparameters(groups);
}

void Schedule::check_momenta(const char* schedule, const Optimizer& optimizer,
                             const PerGroup& base_momentum, const PerGroup& max_momentum) {
  WICK_CHECK(optimizer.hyperparameter(0, optimizer.momentum_name()).has_value(), schedule,
             ": cycle_momentum needs an optimizer with momentum or beta1");
  const int groups = optimizer.num_groups();
  base_momentum.check(schedule, "base_momentum", groups, check_below_one);
  max_momentum.check(schedule, "max_momentum", groups, check_below_one);
}

StateDict Schedule::state_dict() const {
  StateDict state{{"step", scalar_tensor(step_, kInt64)}, {"base_lrs", tensor(base_lrs_)}};
  write_description(state, kind(), options());
  return state;
}

void Schedule::load_state_dict(const StateDict& state) {
  const auto step = state.find("step");
  const auto base_lrs = state.find("base_lrs");
  WICK_CHECK(step != state.end() && base_lrs != state.end(),
             "schedule: load_state_dict: needs step and base_lrs");
  check_description(state, kind(), options());
  WICK_CHECK(base_lrs->second.numel() == static_cast<int64_t>(base_lrs_.size()),
             "schedule: load_state_dict: got rates of ", base_lrs->second.numel(),
             " groups, expected ", base_lrs_.size());
  const int64_t number = count_in("schedule", "step", step->second);
  std::vector<double> rates = base_lrs->second.to_vector<double>();
  for (const double rate : rates) check_not_negative("schedule", "load_state_dict: base_lrs", rate);
  std::vector<double> before = std::exchange(base_lrs_, std::move(rates));
  try {
    set_values(number);
  } catch (...) {
    base_lrs_ = std::move(before);
    throw;
  }
  step_ = number;
}

StepLR::StepLR(Optimizer& optimizer, int64_t step_size, double gamma)
    : FactorSchedule(optimizer), step_size_(step_size), gamma_(gamma) {
  WICK_CHECK(step_size >= 1, "step_lr: step_size: got ", step_size, ", expected 1 or more");
  check_not_negative("step_lr", "gamma", gamma);
  set_values(0);
}

double StepLR::factor(int64_t step) const {
  return std::pow(gamma_, static_cast<double>(step / step_size_));
}

MultiStepLR::MultiStepLR(Optimizer& optimizer, std::vector<int64_t> milestones, double gamma)
    : FactorSchedule(optimizer), milestones_(std::move(milestones)), gamma_(gamma) {
  for (const int64_t milestone : milestones_) {
    WICK_CHECK(milestone >= 0, "multi_step_lr: milestones: got ", milestone,
               ", expected steps, 0 or more");
  }
  check_not_negative("multi_step_lr", "gamma", gamma);
  set_values(0);
}

ScheduleOptions MultiStepLR::options() const {
  ScheduleOptions options{{"gamma", gamma_}};
  for (const int64_t milestone : milestones_) options.emplace_back("milestone", milestone);
  return options;
}

double MultiStepLR::factor(int64_t step) const {
  const auto passed = std::count_if(milestones_.begin(), milestones_.end(),
                                    [step](int64_t milestone) { return milestone <= step; });
  return std::pow(gamma_, static_cast<double>(passed));
}

ExponentialLR::ExponentialLR(Optimizer& optimizer, double gamma)
    : FactorSchedule(optimizer), gamma_(gamma) {
  check_not_negative("exponential_lr", "gamma", gamma);
  set_values(0);
}

double ExponentialLR::factor(int64_t step) const {
  return std::pow(gamma_, static_cast<double>(step));
}

LinearLR::LinearLR(Optimizer& optimizer, double start_factor, double end_factor,
                   int64_t total_iters)
    : FactorSchedule(optimizer),
      start_factor_(start_factor),
      end_factor_(end_factor),
      total_iters_(total_iters) {
  WICK_CHECK(start_factor > 0 && start_factor <= 1, "linear_lr: start_factor: got ", start_factor,
             ", expected a value in (0, 1]");
  WICK_CHECK(end_factor >= 0 && end_factor <= 1, "linear_lr: end_factor: got ", end_factor,
             ", expected a value in [0, 1]");
  WICK_CHECK(total_iters >= 0, "linear_lr: total_iters: got ", total_iters, ", expected 0 or more");
  set_values(0);
}

double LinearLR::factor(int64_t step) const {
  if (total_iters_ == 0) return start_factor_;
  const double share =
      static_cast<double>(std::min(step, total_iters_)) / static_cast<double>(total_iters_);
  return start_factor_ + (end_factor_ - start_factor_) * share;
}

ConstantLR::ConstantLR(Optimizer& optimizer, double factor, int64_t total_iters)
    : FactorSchedule(optimizer), factor_(factor), total_iters_(total_iters) {
  WICK_CHECK(factor >= 0 && factor <= 1, "constant_lr: factor: got ", factor,
             ", expected a value in [0, 1]");
  WICK_CHECK(total_iters >= 0, "constant_lr: total_iters: got ", total_iters,
             ", expected 0 or more");
  set_values(0);
}

double ConstantLR::factor(int64_t step) const {
  return step < total_iters_ || total_iters_ == 0 ? factor_ : 1;
}

PolynomialLR::PolynomialLR(Optimizer& optimizer, int64_t total_iters, double power)
    : FactorSchedule(optimizer), total_iters_(total_iters), power_(power) {
  WICK_CHECK(total_iters >= 1, "polynomial_lr: total_iters: got ", total_iters,
             ", expected 1 or more");
  check_not_negative("polynomial_lr", "power", power);
  set_values(0);
}

double PolynomialLR::factor(int64_t step) const {
  const double share =
      static_cast<double>(std::min(step, total_iters_)) / static_cast<double>(total_iters_);
  return std::pow(1 - share, power_);
}

LambdaLR::LambdaLR(Optimizer& optimizer, Factor factor)
    : LambdaLR(optimizer,
               std::vector<Factor>(static_cast<size_t>(optimizer.num_groups()), factor)) {}

LambdaLR::LambdaLR(Optimizer& optimizer, std::vector<Factor> factors)
    : Schedule(optimizer), factors_(std::move(factors)) {
  WICK_CHECK(static_cast<int>(factors_.size()) == optimizer.num_groups(), "lambda_lr: got ",
             factors_.size(), " functions, expected one for each of ", optimizer.num_groups(),
             " groups");
  for (size_t g = 0; g < factors_.size(); ++g) {
    WICK_CHECK(factors_[g] != nullptr, "lambda_lr: function ", g, " is empty");
  }
  set_values(0);
}

double LambdaLR::lr_at(int group, int64_t step, double base) const {
  return base * factors_[static_cast<size_t>(group)](step);
}

namespace {
// From `from` down to `to`, `share` of the way along half a cosine.
double half_cosine(double from, double to, double share) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * share)) / 2;
}
}  // namespace

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, int64_t t_max, double eta_min)
    : Schedule(optimizer), t_max_(t_max), eta_min_(eta_min) {
  WICK_CHECK(t_max >= 1, "cosine_annealing_lr: t_max: got ", t_max, ", expected 1 or more");
  check_not_negative("cosine_annealing_lr", "eta_min", eta_min);
  set_values(0);
}

double CosineAnnealingLR::lr_at(int, int64_t step, double base) const {
  return half_cosine(base, eta_min_, static_cast<double>(step) / static_cast<double>(t_max_));
}

CosineAnnealingWarmRestarts::CosineAnnealingWarmRestarts(Optimizer& optimizer, int64_t t_0,
                                                         int64_t t_mult, double eta_min)
    : Schedule(optimizer), t_0_(t_0), t_mult_(t_mult), eta_min_(eta_min) {
  WICK_CHECK(t_0 >= 1, "cosine_annealing_warm_restarts: t_0: got ", t_0, ", expected 1 or more");
  WICK_CHECK(t_mult >= 1, "cosine_annealing_warm_restarts: t_mult: got ", t_mult,
             ", expected 1 or more");
  check_not_negative("cosine_annealing_warm_restarts", "eta_min", eta_min);
  set_values(0);
}

double CosineAnnealingWarmRestarts::lr_at(int, int64_t step, double base) const {
  int64_t length = t_0_, since = step;
  if (t_mult_ == 1) {
    since %= length;
  } else {
    for (; since >= length; length *= t_mult_) since -= length;
  }
  return half_cosine(base, eta_min_, static_cast<double>(since) / static_cast<double>(length));
}

}  // namespace wick::optim
