#include "wick/train/run_schedule.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "wick/core/base/detail/registry.h"

namespace wick::train {

namespace {

constexpr double kLastOfExponential = 0.01;  // share of the rate that is left at the end
constexpr double kFootOfCycle = 0.1;         // share of the peak
constexpr double kPlateauEpochs = 2;
constexpr double kPower = 2;
constexpr double kCut = 0.1;
constexpr const char* kOfPlateau = "plateau.";  // begins the names of its state

using SchedulePtr = std::unique_ptr<optim::Schedule>;

// From cut to cut, or of a cycle.
int64_t steps_of_part(const ScheduleOptions& options, const RunSteps& steps) {
  if (options.epochs.empty()) return (steps.after_warmup() + 2) / 3;
  return steps.of(options.epochs[0]);
}

std::vector<double> rates_of(const optim::Optimizer& optimizer, double factor = 1) {
  std::vector<double> rates;
  for (int g = 0; g < optimizer.num_groups(); ++g) rates.push_back(factor * optimizer.lr(g));
  return rates;
}

// One that is 0 stays 0.
bool has_momentum(const optim::Optimizer& optimizer) {
  return optimizer.hyperparameter(0, optimizer.momentum_name()).value_or(0) != 0;
}

SchedulePtr make_onecycle(const ScheduleOptions& options, const RunSteps& steps,
                          optim::Optimizer& optimizer) {
  const OneCycleShape& shape = options.onecycle;
  optim::OneCycleOptions cycle;
  cycle.pct_start = shape.pct_start.value_or(cycle.pct_start);
  cycle.div_factor = shape.div_factor.value_or(cycle.div_factor);
  cycle.final_div_factor = shape.final_div_factor.value_or(cycle.final_div_factor);
  cycle.three_phase = shape.three_phase;
  if (shape.anneal == "linear") cycle.anneal = optim::Anneal::kLinear;
  cycle.max_lr = rates_of(optimizer);
  cycle.total_steps = steps.total;
  cycle.cycle_momentum = has_momentum(optimizer);
  if (steps.warmup > 0) {  // its rise, whose last step is before its share of all
    cycle.total_steps = std::max(steps.total, steps.warmup + 2);
    cycle.pct_start =
        static_cast<double>(steps.warmup + 1) / static_cast<double>(cycle.total_steps);
  }
  return std::make_unique<optim::OneCycleLR>(optimizer, cycle);
}

SchedulePtr make_cosine(const ScheduleOptions&, const RunSteps& steps,
                        optim::Optimizer& optimizer) {
  return std::make_unique<optim::CosineAnnealingLR>(optimizer, steps.after_warmup());
}

SchedulePtr make_linear(const ScheduleOptions&, const RunSteps& steps,
                        optim::Optimizer& optimizer) {
  return std::make_unique<optim::LinearLR>(optimizer, 1, 0, steps.after_warmup());
}

SchedulePtr make_polynomial(const ScheduleOptions& options, const RunSteps& steps,
                            optim::Optimizer& optimizer) {
  return std::make_unique<optim::PolynomialLR>(optimizer, steps.after_warmup(),
                                               options.power.value_or(kPower));
}

SchedulePtr make_exponential(const ScheduleOptions& options, const RunSteps& steps,
                             optim::Optimizer& optimizer) {
  const int64_t length = options.gamma ? steps.per_epoch : steps.after_warmup();
  const double each =
      std::pow(options.gamma.value_or(kLastOfExponential), 1.0 / static_cast<double>(length));
  return std::make_unique<optim::ExponentialLR>(optimizer, each);
}

SchedulePtr make_step(const ScheduleOptions& options, const RunSteps& steps,
                      optim::Optimizer& optimizer) {
  return std::make_unique<optim::StepLR>(
      optimizer, std::max<int64_t>(1, steps_of_part(options, steps)), options.gamma.value_or(kCut));
}

SchedulePtr make_multistep(const ScheduleOptions& options, const RunSteps& steps,
                           optim::Optimizer& optimizer) {
  const int64_t length = steps.after_warmup();
  std::vector<int64_t> milestones = {(length + 1) / 2, (3 * length + 3) / 4};  // not at step 0
  if (!options.epochs.empty()) milestones.clear();
  for (const double epoch : options.epochs) milestones.push_back(steps.of(epoch) - steps.warmup);
  return std::make_unique<optim::MultiStepLR>(optimizer, milestones, options.gamma.value_or(kCut));
}

SchedulePtr make_cyclic(const ScheduleOptions& options, const RunSteps& steps,
                        optim::Optimizer& optimizer) {
  const int64_t length = steps_of_part(options, steps);
  optim::CyclicOptions cycle;
  cycle.base_lr = rates_of(optimizer, kFootOfCycle);
  cycle.max_lr = rates_of(optimizer);
  cycle.step_size_up = std::max<int64_t>(1, length / 2);
  cycle.step_size_down = std::max<int64_t>(1, length - length / 2);
  cycle.cycle_momentum = has_momentum(optimizer);
  return std::make_unique<optim::CyclicLR>(optimizer, cycle);
}

std::deque<ScheduleEntry> built_in() {
  constexpr auto kOne = ScheduleEpochs::kOne, kSeveral = ScheduleEpochs::kSeveral;
  return {
      {.name = "onecycle", .make = make_onecycle, .warmup = ScheduleWarmup::kOwn},
      {.name = "cosine", .make = make_cosine},
      {.name = "constant"},
      {.name = "step", .make = make_step, .epochs = kOne, .gamma = true},
      {.name = "multistep", .make = make_multistep, .epochs = kSeveral, .gamma = true},
      {.name = "exponential", .make = make_exponential, .gamma = true},
      {.name = "polynomial", .make = make_polynomial, .power = true},
      {.name = "linear", .make = make_linear},
      {.name = "cyclic", .make = make_cyclic, .epochs = kOne, .warmup = ScheduleWarmup::kNone},
      {.name = "plateau", .epochs = kOne, .gamma = true},
  };
}

Registry<ScheduleEntry>& schedules() {
  static Registry<ScheduleEntry> all("schedule", built_in());
  return all;
}

// Null for a constant rate, also after the warm-up.
SchedulePtr make_schedule(const ScheduleOptions& options, const RunSteps& steps,
                          optim::Optimizer& optimizer) {
  check(options);
  const ScheduleEntry& entry = schedules().find(options.name);
  SchedulePtr main = entry.make ? entry.make(options, steps, optimizer) : nullptr;
  if (steps.warmup == 0 || entry.warmup == ScheduleWarmup::kOwn) return main;
  auto warmup = std::make_unique<optim::LinearLR>(
      optimizer, 1.0 / static_cast<double>(steps.warmup + 1), 1, steps.warmup);
  if (!main) return warmup;
  return std::make_unique<optim::SequentialLR>(
      optimizer, std::vector<std::shared_ptr<optim::Schedule>>{std::move(warmup), std::move(main)},
      std::vector<int64_t>{steps.warmup});
}

std::unique_ptr<optim::ReduceLROnPlateau> make_plateau(const ScheduleOptions& options,
                                                       const RunLength& length,
                                                       optim::Optimizer& optimizer) {
  if (options.name != "plateau") return nullptr;
  require(length.eval_every >= 1, "eval_every",
          "got 0, expected 1 or more with schedule plateau, which goes by evaluations");
  const double patience = options.epochs.empty() ? kPlateauEpochs : options.epochs[0];
  optim::PlateauOptions plateau;
  plateau.factor = options.gamma.value_or(kCut);
  plateau.patience = static_cast<int64_t>(patience) / length.eval_every;
  return std::make_unique<optim::ReduceLROnPlateau>(optimizer, plateau);
}

// Options of onecycle with another schedule would have no effect.
void check(const OneCycleShape& shape, const std::string& schedule, bool warms_up) {
  const bool is_used = schedule == "onecycle";
  const auto check_use = [&](const char* option, bool is_told) {
    require(is_used || !is_told, option, "not with schedule ", schedule);
  };
  check_use("onecycle_pct_start", shape.pct_start.has_value());
  check_use("onecycle_div_factor", shape.div_factor.has_value());
  check_use("onecycle_final_div_factor", shape.final_div_factor.has_value());
  check_use("onecycle_anneal", shape.anneal != "cos");
  check_use("onecycle_three_phase", shape.three_phase);
  require(!shape.pct_start || !warms_up, "onecycle_pct_start",
          "not with warmup, which says the same in epochs");
  require(!shape.three_phase || shape.pct_start.value_or(0) <= 0.5, "onecycle_pct_start", "got ",
          shape.pct_start.value_or(0), ", expected 0.5 or less with three phases");
}

}  // namespace

int64_t RunSteps::of(double epochs) const {
  return static_cast<int64_t>(std::llround(epochs * static_cast<double>(per_epoch)));
}
int64_t RunSteps::after_warmup() const { return std::max<int64_t>(1, total - warmup); }

void register_schedule(ScheduleEntry entry) { schedules().add(std::move(entry)); }
std::vector<std::string> schedule_names() { return schedules().names(); }

OptionFields fields(ScheduleOptions& options) {
  return {
      OptionField("schedule", &options.name, "course of the learning rate")
          .basic()
          .one_registered(schedule_names())
          .lasting(),
      OptionField("warmup", &options.warmup,
                  "epochs (0.5 is fine) in which the rate first rises to its peak: in a straight "
                  "line, with onecycle as that rises")
          .between(0, 1e9)
          .lasting(),
      OptionField(
          "schedule_epochs", &options.epochs,
          "epochs between cuts of step or of a cycle of cyclic (default: a third of the run), "
          "of each cut of multistep, as 30,60, or without a better test loss before a cut of "
          "plateau (default: 2)")
          .lasting(),
      OptionField("schedule_gamma", &options.gamma,
                  "factor of a cut of step, multistep and plateau (default: 0.1), or of each epoch "
                  "of exponential (default: such that 1 % is left at the end)")
          .between(1e-6, 1 - 1e-6)
          .lasting(),
      OptionField("schedule_power", &options.power, "power of polynomial (default: 2)")
          .between(0.01, 100)
          .lasting(),
      OptionField("onecycle_pct_start", &options.onecycle.pct_start,
                  "share of the run in which the rate of onecycle rises (default: 0.3)")
          .between(0.001, 0.999)
          .lasting(),
      OptionField("onecycle_div_factor", &options.onecycle.div_factor,
                  "peak rate of onecycle over its first rate (default: 25)")
          .between(1, 1e9)
          .lasting(),
      OptionField("onecycle_final_div_factor", &options.onecycle.final_div_factor,
                  "first rate of onecycle over its last rate (default: 10000)")
          .between(1e-9, 1e12)
          .lasting(),
      OptionField("onecycle_anneal", &options.onecycle.anneal, "curve of onecycle")
          .one_of({"cos", "linear"})
          .lasting(),
      OptionField("onecycle_three_phase", &options.onecycle.three_phase,
                  "let the rate of onecycle fall to its first rate as it rose, then to its last")
          .lasting(),
  };
}

void check(const ScheduleOptions& options) {
  ScheduleOptions checked = options;
  check(fields(checked));
  const ScheduleEntry& entry = schedules().find(options.name);
  const auto& epochs = options.epochs;
  const char* const name = options.name.c_str();
  require(epochs.empty() || entry.epochs != ScheduleEpochs::kNone, "schedule_epochs",
          "not with schedule ", name);
  require(!options.gamma || entry.gamma, "schedule_gamma", "not with schedule ", name);
  require(!options.power || entry.power, "schedule_power", "not with schedule ", name);
  check(options.onecycle, options.name, options.warmup > 0);
  require(options.warmup == 0 || entry.warmup != ScheduleWarmup::kNone, "warmup",
          "not with schedule ", name, ", which has rises of its own");
  require(epochs.size() <= 1 || entry.epochs == ScheduleEpochs::kSeveral, "schedule_epochs", "got ",
          epochs.size(), " numbers for schedule ", name, ", expected one");
  for (size_t i = 0; i < epochs.size(); ++i) {
    require(epochs[i] > (i == 0 ? 0 : epochs[i - 1]), "schedule_epochs", "got ", epochs[i],
            ", expected numbers above 0 that rise");
  }
  require(options.name != "multistep" || epochs.empty() || epochs[0] >= options.warmup,
          "schedule_epochs", "a cut before the warm-up is over: got epoch ",
          epochs.empty() ? 0 : epochs[0], ", expected ", options.warmup, " or later");
}

RunSchedule::RunSchedule(const ScheduleOptions& options, const RunLength& length,
                         optim::Optimizer& optimizer)
    : optimizer_(optimizer),
      total_steps_(length.total_steps),
      warmup_(RunSteps{length.total_steps, length.steps_per_epoch, 0}.of(options.warmup)),
      schedule_(
          make_schedule(options, {length.total_steps, length.steps_per_epoch, warmup_}, optimizer)),
      plateau_(make_plateau(options, length, optimizer)) {}

void RunSchedule::count_on_device() {
  if (!schedule_ || plateau_) return;  // plateau's rates depend on losses
  counted_ = std::make_unique<optim::DeviceSchedule>(*schedule_, total_steps_);
}

void RunSchedule::step(const Tensor& skipped) {
  if (counted_) {
    counted_->step(skipped);
  } else if (schedule_ && (!plateau_ || warms_up())) {
    const bool is_known = skipped.defined() && skipped.device().is_cpu();
    if (!is_known || skipped.item() == 0) schedule_->step();
  }
}

Tensor RunSchedule::lr() const {
  return counted_ ? optimizer_.device_rates(0)[0].clone()
                  : scalar_tensor(optimizer_.lr(), kFloat64);
}

void RunSchedule::settle() {
  if (counted_) counted_->settle();
}

void RunSchedule::evaluated(double loss) {
  if (plateau_ && !warms_up()) plateau_->step(loss);
}

optim::StateDict RunSchedule::state_dict() const {
  optim::StateDict state;
  if (schedule_) state = schedule_->state_dict();
  if (!plateau_) return state;
  for (const auto& [name, value] : plateau_->state_dict()) state[kOfPlateau + name] = value;
  return state;
}

void RunSchedule::load_state_dict(const optim::StateDict& state) {
  optim::StateDict of_schedule, of_plateau;
  for (const auto& [name, value] : state) {
    if (name.starts_with(kOfPlateau)) {
      of_plateau[name.substr(std::string_view(kOfPlateau).size())] = value;
    } else {
      of_schedule[name] = value;
    }
  }
  for (optim::StateDict* part : {&of_schedule, &of_plateau}) {
    part->erase("options");  // the run may have another length now
  }
  std::vector<double> cut;  // by plateau
  for (int g = 0; g < optimizer_.num_groups(); ++g) cut.push_back(optimizer_.lr(g));
  if (schedule_) schedule_->load_state_dict(of_schedule);
  if (!plateau_) return;
  plateau_->load_state_dict(of_plateau);
  for (int g = 0; g < optimizer_.num_groups(); ++g) {
    optimizer_.set_hyperparameter(g, "lr", cut[static_cast<size_t>(g)]);
  }
}

}  // namespace wick::train
