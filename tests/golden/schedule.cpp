#include <nlohmann/json.hpp>

#include "wick/optim/optim.h"
#include "wick/tests/golden/golden.h"

namespace wick::golden {

namespace {

using optim::Optimizer;
using optim::Schedule;
using MakeSchedule = std::function<std::unique_ptr<Schedule>(Optimizer& optimizer, Args& a)>;

// A number, or a list of one for each group of parameters.
optim::PerGroup per_group(Args& a, const std::string& name,
                          const std::optional<optim::PerGroup>& otherwise = {}) {
  if (a.is_list(name)) return a.numbers(name, {});
  return otherwise && !a.has(name) ? *otherwise : a.number(name);
}

std::unique_ptr<Schedule> make_one_cycle(Optimizer& optimizer, Args& a) {
  optim::OneCycleOptions options;
  options.max_lr = per_group(a, "max_lr");
  options.total_steps = a.has("total_steps") ? a.integer("total_steps")
                                             : a.integer("epochs") * a.integer("steps_per_epoch");
  options.pct_start = a.number("pct_start", options.pct_start);
  const std::string anneal = a.text("anneal_strategy", "cos");
  WICK_CHECK(anneal == "cos" || anneal == "linear", "argument 'anneal_strategy': unknown: got ",
             anneal);
  options.anneal = anneal == "cos" ? optim::Anneal::kCos : optim::Anneal::kLinear;
  options.cycle_momentum = a.flag("cycle_momentum", options.cycle_momentum);
  options.base_momentum = per_group(a, "base_momentum", options.base_momentum);
  options.max_momentum = per_group(a, "max_momentum", options.max_momentum);
  options.div_factor = a.number("div_factor", options.div_factor);
  options.final_div_factor = a.number("final_div_factor", options.final_div_factor);
  options.three_phase = a.flag("three_phase", options.three_phase);
  return std::make_unique<optim::OneCycleLR>(optimizer, options);
}

std::unique_ptr<Schedule> make_cyclic(Optimizer& optimizer, Args& a) {
  optim::CyclicOptions options;
  options.base_lr = per_group(a, "base_lr");
  options.max_lr = per_group(a, "max_lr");
  options.step_size_up = a.integer("step_size_up", options.step_size_up);
  if (a.has("step_size_down")) options.step_size_down = a.integer("step_size_down");
  const std::string mode = a.text("mode", "triangular");
  WICK_CHECK(mode == "triangular" || mode == "triangular2" || mode == "exp_range",
             "argument 'mode': unknown: got ", mode);
  options.mode = mode == "triangular"    ? optim::CycleMode::kTriangular
                 : mode == "triangular2" ? optim::CycleMode::kTriangular2
                                         : optim::CycleMode::kExpRange;
  options.gamma = a.number("gamma", options.gamma);
  options.cycle_momentum = a.flag("cycle_momentum", options.cycle_momentum);
  options.base_momentum = per_group(a, "base_momentum", options.base_momentum);
  options.max_momentum = per_group(a, "max_momentum", options.max_momentum);
  return std::make_unique<optim::CyclicLR>(optimizer, options);
}

optim::PlateauOptions plateau_options(Args& a) {
  optim::PlateauOptions options;
  const std::string mode = a.text("mode", "min"), threshold_mode = a.text("threshold_mode", "rel");
  WICK_CHECK(mode == "min" || mode == "max", "argument 'mode': unknown: got ", mode);
  WICK_CHECK(threshold_mode == "rel" || threshold_mode == "abs",
             "argument 'threshold_mode': unknown: got ", threshold_mode);
  options.maximize = mode == "max";
  options.relative = threshold_mode == "rel";
  options.factor = a.number("factor", options.factor);
  options.patience = a.integer("patience", options.patience);
  options.threshold = a.number("threshold", options.threshold);
  options.cooldown = a.integer("cooldown", options.cooldown);
  options.min_lr = per_group(a, "min_lr", options.min_lr);
  options.eps = a.number("eps", options.eps);
  return options;
}

std::vector<int64_t> integers(const std::vector<double>& numbers) {
  std::vector<int64_t> result;
  for (const double number : numbers) result.push_back(static_cast<int64_t>(number));
  return result;
}

template <class S, class... Arguments>
std::unique_ptr<Schedule> make(Optimizer& optimizer, const Arguments&... arguments) {
  return std::make_unique<S>(optimizer, arguments...);
}

const std::map<std::string, MakeSchedule>& schedules() {
  using namespace optim;
  static const std::map<std::string, MakeSchedule> all = {
      {"StepLR",
       [](Optimizer& o, Args& a) {
         return make<StepLR>(o, a.integer("step_size"), a.number("gamma", 0.1));
       }},
      {"MultiStepLR",
       [](Optimizer& o, Args& a) {
         return make<MultiStepLR>(o, integers(a.numbers("milestones", {})), a.number("gamma", 0.1));
       }},
      {"ExponentialLR",
       [](Optimizer& o, Args& a) { return make<ExponentialLR>(o, a.number("gamma")); }},
      {"LinearLR",
       [](Optimizer& o, Args& a) {
         return make<LinearLR>(o, a.number("start_factor", 1.0 / 3), a.number("end_factor", 1.0),
                               a.integer("total_iters", 5));
       }},
      {"ConstantLR",
       [](Optimizer& o, Args& a) {
         return make<ConstantLR>(o, a.number("factor", 1.0 / 3), a.integer("total_iters", 5));
       }},
      {"PolynomialLR",
       [](Optimizer& o, Args& a) {
         return make<PolynomialLR>(o, a.integer("total_iters", 5), a.number("power", 1.0));
       }},
      {"CosineAnnealingLR",
       [](Optimizer& o, Args& a) {
         return make<CosineAnnealingLR>(o, a.integer("T_max"), a.number("eta_min", 0.0));
       }},
      {"CosineAnnealingWarmRestarts",
       [](Optimizer& o, Args& a) {
         return make<CosineAnnealingWarmRestarts>(o, a.integer("T_0"), a.integer("T_mult", 1),
                                                  a.number("eta_min", 0.0));
       }},
      {"OneCycleLR", make_one_cycle},
      {"CyclicLR", make_cyclic},
  };
  return all;
}

// The values in force for each step; next(step) sets those of the step after it.
void compare(const Case& golden_case, Optimizer& optimizer,
             const std::function<void(int64_t step)>& next) {
  std::vector<double> lr, momentum;
  const int64_t steps = golden_case.integer("steps");
  for (int64_t step = 0; step < steps; ++step) {
    lr.push_back(optimizer.lr());
    momentum.push_back(optimizer.hyperparameter(0, "momentum").value());
    optimizer.step();
    if (step + 1 < steps) next(step);
  }
  golden_case.expect("lr", as_tensor(lr), "lr");
  if (golden_case.tensors.count("momentum") > 0) {
    golden_case.expect("momentum", as_tensor(momentum), "momentum");
  }
}

void run_schedule_case(const Case& golden_case) {
  optim::SGDOptions options;
  options.lr = golden_case.number("base_lr");
  if (golden_case.json->contains("base_momentum")) {
    options.momentum = golden_case.number("base_momentum");
  }
  optim::SGD optimizer({zeros({1}).set_requires_grad()}, options);
  Args args = golden_case.args();
  args.ignore({"verbose"});
  WICK_CHECK(args.integer("last_epoch", -1) == -1, "argument 'last_epoch': got ",
             args.integer("last_epoch", -1), ", expected -1");
  if (golden_case.op == "ReduceLROnPlateau") {
    optim::ReduceLROnPlateau plateau(optimizer, plateau_options(args));
    args.finish();
    const std::vector<double> metrics = golden_case.tensor("metric").to_vector<double>();
    compare(golden_case, optimizer,
            [&](int64_t step) { plateau.step(metrics.at(static_cast<size_t>(step))); });
    return;
  }
  const auto make_schedule = schedules().find(golden_case.op);
  WICK_CHECK(make_schedule != schedules().end(), "unknown schedule '", golden_case.op, "'");
  const std::unique_ptr<Schedule> schedule = make_schedule->second(optimizer, args);
  args.finish();
  compare(golden_case, optimizer, [&](int64_t) { schedule->step(); });
}

const Family schedule_family("schedule", run_schedule_case);

}  // namespace

}  // namespace wick::golden
