#include "wick/tools/wick/rates.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "wick/tools/wick/setup.h"

namespace wick::tool {

namespace {

constexpr double kLastOfExponential = 0.01;  // share of the rate that is left at the end
constexpr double kFootOfCycle = 0.1;         // share of the peak
constexpr double kPlateauEpochs = 2;
constexpr double kPower = 2;
constexpr double kCut = 0.1;
const std::string kOfPlateau = "plateau.";  // begins the names of its state

// The lengths of a run, in steps.
struct Steps {
  int64_t total, per_epoch, warmup;

  int64_t of(double epochs) const {
    return static_cast<int64_t>(std::llround(epochs * static_cast<double>(per_epoch)));
  }
};

// The numbers of --schedule-epochs, which rise: 30, or 30,60,80. A UsageError for anything else.
std::vector<double> schedule_epochs(const TrainConfig& config) {
  constexpr size_t kMost = 80;  // characters of a wrong value
  const std::string& text = config.schedule_epochs;
  std::vector<double> epochs;
  for (size_t begin = 0; begin < text.size() + !text.empty();) {
    const size_t end = std::min(text.size(), text.find(',', begin));
    double number = 0;
    const auto parsed = std::from_chars(text.data() + begin, text.data() + end, number);
    const bool rises = number > (epochs.empty() ? 0 : epochs.back()) && number <= 1e9;
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + end || !rises) {
      throw UsageError(concat("--schedule-epochs: got \"", text.substr(0, kMost),
                              "\", expected numbers above 0 that rise, such as 30,60"));
    }
    epochs.push_back(number);
    begin = end + 1;
  }
  return epochs;
}

using SchedulePtr = std::unique_ptr<optim::Schedule>;

// With --max-steps a run may end in its warm-up.
int64_t steps_after_warmup(const Steps& steps) {
  return std::max<int64_t>(1, steps.total - steps.warmup);
}

// From cut to cut, or of a cycle.
int64_t steps_of_part(const TrainConfig& config, const Steps& steps) {
  const std::vector<double> epochs = schedule_epochs(config);
  return epochs.empty() ? (steps_after_warmup(steps) + 2) / 3 : steps.of(epochs[0]);
}

SchedulePtr make_onecycle(const TrainConfig& config, const Steps& steps,
                          optim::Optimizer& optimizer) {
  optim::OneCycleOptions options;
  options.max_lr = *config.lr;
  options.total_steps = steps.total;
  options.cycle_momentum = cycles_momentum(config.optimizer);
  if (steps.warmup > 0) {  // its rise, whose last step is before its share of all
    options.total_steps = std::max(steps.total, steps.warmup + 2);
    options.pct_start =
        static_cast<double>(steps.warmup + 1) / static_cast<double>(options.total_steps);
  }
  return std::make_unique<optim::OneCycleLR>(optimizer, options);
}

SchedulePtr make_cosine(const TrainConfig&, const Steps& steps, optim::Optimizer& optimizer) {
  return std::make_unique<optim::CosineAnnealingLR>(optimizer, steps_after_warmup(steps));
}

SchedulePtr make_linear(const TrainConfig&, const Steps& steps, optim::Optimizer& optimizer) {
  return std::make_unique<optim::LinearLR>(optimizer, 1, 0, steps_after_warmup(steps));
}

SchedulePtr make_polynomial(const TrainConfig& config, const Steps& steps,
                            optim::Optimizer& optimizer) {
  return std::make_unique<optim::PolynomialLR>(optimizer, steps_after_warmup(steps),
                                               config.schedule_power.value_or(kPower));
}

SchedulePtr make_exponential(const TrainConfig& config, const Steps& steps,
                             optim::Optimizer& optimizer) {
  const int64_t length = config.schedule_gamma ? steps.per_epoch : steps_after_warmup(steps);
  const double each = std::pow(config.schedule_gamma.value_or(kLastOfExponential),
                               1.0 / static_cast<double>(length));
  return std::make_unique<optim::ExponentialLR>(optimizer, each);
}

SchedulePtr make_step(const TrainConfig& config, const Steps& steps, optim::Optimizer& optimizer) {
  return std::make_unique<optim::StepLR>(optimizer,
                                         std::max<int64_t>(1, steps_of_part(config, steps)),
                                         config.schedule_gamma.value_or(kCut));
}

SchedulePtr make_multistep(const TrainConfig& config, const Steps& steps,
                           optim::Optimizer& optimizer) {
  const int64_t length = steps_after_warmup(steps);
  const std::vector<double> epochs = schedule_epochs(config);
  std::vector<int64_t> milestones = {(length + 1) / 2, (3 * length + 3) / 4};  // not at step 0
  if (!epochs.empty()) milestones.clear();
  for (const double epoch : epochs) milestones.push_back(steps.of(epoch) - steps.warmup);
  return std::make_unique<optim::MultiStepLR>(optimizer, milestones,
                                              config.schedule_gamma.value_or(kCut));
}

SchedulePtr make_cyclic(const TrainConfig& config, const Steps& steps,
                        optim::Optimizer& optimizer) {
  const int64_t length = steps_of_part(config, steps);
  optim::CyclicOptions options;
  options.base_lr = kFootOfCycle * *config.lr;
  options.max_lr = *config.lr;
  options.step_size_up = std::max<int64_t>(1, length / 2);
  options.step_size_down = std::max<int64_t>(1, length - length / 2);
  options.cycle_momentum = cycles_momentum(config.optimizer);
  return std::make_unique<optim::CyclicLR>(optimizer, options);
}

// What --schedule may name, and what it takes of the flags beside --lr and --warmup.
struct ScheduleEntry {
  const char* name;
  bool epochs = false, gamma = false, power = false;
  bool warms_up = false;  // by itself: its steps are then not counted from the warm-up's end
  // Null: a constant rate.
  SchedulePtr (*make)(const TrainConfig&, const Steps&, optim::Optimizer&) = nullptr;
};
constexpr ScheduleEntry kSchedules[] = {
    {.name = "onecycle", .warms_up = true, .make = make_onecycle},
    {.name = "cosine", .make = make_cosine},
    {.name = "constant"},
    {.name = "step", .epochs = true, .gamma = true, .make = make_step},
    {.name = "multistep", .epochs = true, .gamma = true, .make = make_multistep},
    {.name = "exponential", .gamma = true, .make = make_exponential},
    {.name = "polynomial", .power = true, .make = make_polynomial},
    {.name = "linear", .make = make_linear},
    {.name = "cyclic", .epochs = true, .make = make_cyclic},
    {.name = "plateau", .epochs = true, .gamma = true},
};

const ScheduleEntry& find_schedule(const std::string& name) {
  for (const ScheduleEntry& entry : kSchedules) {
    if (name == entry.name) return entry;
  }
  throw Error("schedule: unknown name: got " + name);
}

// Null for a constant rate, also after the warm-up.
SchedulePtr make_schedule(const TrainConfig& config, const Steps& steps,
                          optim::Optimizer& optimizer) {
  const ScheduleEntry& entry = find_schedule(config.schedule);
  SchedulePtr main = entry.make == nullptr ? nullptr : entry.make(config, steps, optimizer);
  if (steps.warmup == 0 || entry.warms_up) return main;
  auto warmup = std::make_unique<optim::LinearLR>(
      optimizer, 1.0 / static_cast<double>(steps.warmup + 1), 1, steps.warmup);
  if (!main) return warmup;
  return std::make_unique<optim::SequentialLR>(
      optimizer, std::vector<std::shared_ptr<optim::Schedule>>{std::move(warmup), std::move(main)},
      std::vector<int64_t>{steps.warmup});
}

std::unique_ptr<optim::ReduceLROnPlateau> make_plateau(const TrainConfig& config,
                                                       optim::Optimizer& optimizer) {
  if (config.schedule != "plateau") return nullptr;
  const std::vector<double> epochs = schedule_epochs(config);
  const double borne = epochs.empty() ? kPlateauEpochs : epochs[0];
  optim::PlateauOptions options;
  options.factor = config.schedule_gamma.value_or(kCut);
  options.patience = static_cast<int64_t>(borne) / config.eval_every;
  return std::make_unique<optim::ReduceLROnPlateau>(optimizer, options);
}

}  // namespace

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const ScheduleEntry& entry : kSchedules) names.emplace_back(entry.name);
  return names;
}

void check_schedule(const TrainConfig& config) {
  const ScheduleEntry& entry = find_schedule(config.schedule);
  const auto refuse = [&](const char* flag, bool is_given, bool is_taken) {
    if (!is_given || is_taken) return;
    throw UsageError(concat(flag, ": not with --schedule ", config.schedule));
  };
  refuse("--schedule-epochs", !config.schedule_epochs.empty(), entry.epochs);
  refuse("--schedule-gamma", config.schedule_gamma.has_value(), entry.gamma);
  refuse("--schedule-power", config.schedule_power.has_value(), entry.power);
  const std::vector<double> epochs = schedule_epochs(config);
  if (epochs.size() > 1 && config.schedule != "multistep") {
    throw UsageError(concat("--schedule-epochs: got ", config.schedule_epochs, " for --schedule ",
                            config.schedule, ", expected one number"));
  }
  if (!epochs.empty() && config.schedule == "multistep" && epochs[0] < config.warmup) {
    throw UsageError(concat("--schedule-epochs: a cut before the warm-up is over: got epoch ",
                            epochs[0], ", expected ", config.warmup, " or later"));
  }
  if (config.schedule == "cyclic" && config.warmup > 0) {
    throw UsageError("--warmup: not with --schedule cyclic, which begins low and rises itself");
  }
  if (config.schedule == "plateau" && config.eval_every == 0) {
    throw UsageError("--schedule plateau: goes by evaluations: expected --eval-every 1 or more");
  }
}

Rates::Rates(const TrainConfig& config, int64_t total_steps, int64_t steps_per_epoch,
             optim::Optimizer& optimizer)
    : optimizer_(optimizer),
      total_steps_(total_steps),
      warmup_(Steps{total_steps, steps_per_epoch, 0}.of(config.warmup)),
      schedule_(make_schedule(config, {total_steps, steps_per_epoch, warmup_}, optimizer)),
      plateau_(make_plateau(config, optimizer)) {}

void Rates::count_on_device() {
  if (!schedule_ || plateau_) return;  // nobody knows beforehand what plateau makes of the rate
  counted_ = std::make_unique<optim::DeviceSchedule>(*schedule_, total_steps_);
}

void Rates::step(const Tensor& skipped) {
  if (counted_) {
    counted_->step(skipped);
  } else if (schedule_ && (!plateau_ || warms_up())) {
    const bool is_known = skipped.defined() && skipped.device().is_cpu();
    if (!is_known || skipped.item() == 0) schedule_->step();
  }
}

Tensor Rates::lr() const {
  return counted_ ? optimizer_.device_rates(0)[0].clone()
                  : scalar_tensor(optimizer_.lr(), kFloat64);
}

void Rates::settle() {
  if (counted_) counted_->settle();
}

void Rates::evaluated(double loss) {
  if (plateau_ && !warms_up()) plateau_->step(loss);
}

optim::StateDict Rates::state_dict() const {
  optim::StateDict state;
  if (schedule_) state = schedule_->state_dict();
  if (!plateau_) return state;
  for (const auto& [name, value] : plateau_->state_dict()) state[kOfPlateau + name] = value;
  return state;
}

void Rates::load_state_dict(const optim::StateDict& state) {
  optim::StateDict of_schedule, of_plateau;
  for (const auto& [name, value] : state) {
    if (name.starts_with(kOfPlateau)) {
      of_plateau[name.substr(kOfPlateau.size())] = value;
    } else {
      of_schedule[name] = value;
    }
  }
  for (optim::StateDict* part : {&of_schedule, &of_plateau}) {
    part->erase("options");  // --epochs and --max-steps may ask for another length
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

}  // namespace wick::tool
