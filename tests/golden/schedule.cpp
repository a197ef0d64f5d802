#include "wick/optim/schedule.h"

#include "wick/optim/sgd.h"
#include "wick/tests/golden/golden.h"

namespace wick::golden {

namespace {

using optim::Optimizer;
using optim::Schedule;
using MakeSchedule = std::unique_ptr<Schedule> (*)(Optimizer& optimizer, Args& a);

std::unique_ptr<Schedule> make_cosine(Optimizer& optimizer, Args& a) {
  return std::make_unique<optim::CosineAnnealingLR>(optimizer, a.integer("T_max"),
                                                    a.number("eta_min", 0.0));
}

std::unique_ptr<Schedule> make_one_cycle(Optimizer& optimizer, Args& a) {
  optim::OneCycleOptions options;
  options.max_lr = a.number("max_lr");
  options.total_steps = a.has("total_steps") ? a.integer("total_steps")
                                             : a.integer("epochs") * a.integer("steps_per_epoch");
  options.pct_start = a.number("pct_start", options.pct_start);
  const std::string anneal = a.text("anneal_strategy", "cos");
  WICK_CHECK(anneal == "cos" || anneal == "linear", "argument 'anneal_strategy': unknown: got ",
             anneal);
  options.anneal = anneal == "cos" ? optim::Anneal::kCos : optim::Anneal::kLinear;
  options.cycle_momentum = a.flag("cycle_momentum", options.cycle_momentum);
  options.base_momentum = a.number("base_momentum", options.base_momentum);
  options.max_momentum = a.number("max_momentum", options.max_momentum);
  options.div_factor = a.number("div_factor", options.div_factor);
  options.final_div_factor = a.number("final_div_factor", options.final_div_factor);
  options.three_phase = a.flag("three_phase", options.three_phase);
  return std::make_unique<optim::OneCycleLR>(optimizer, options);
}

const std::map<std::string, MakeSchedule>& schedules() {
  static const std::map<std::string, MakeSchedule> all = {
      {"CosineAnnealingLR", make_cosine},
      {"OneCycleLR", make_one_cycle},
  };
  return all;
}

void run_schedule_case(const Case& golden_case) {
  const auto make = schedules().find(golden_case.op);
  WICK_CHECK(make != schedules().end(), "unknown schedule '", golden_case.op, "'");
  optim::SGDOptions options;
  options.lr = golden_case.number("base_lr");
  options.momentum = golden_case.number("base_momentum");
  optim::SGD optimizer({zeros({1}).set_requires_grad()}, options);
  Args args = golden_case.args();
  const std::unique_ptr<Schedule> schedule = make->second(optimizer, args);
  args.finish();

  std::vector<double> lr, momentum;
  const int64_t steps = golden_case.integer("steps");
  for (int64_t step = 0; step < steps; ++step) {
    lr.push_back(optimizer.lr());
    momentum.push_back(optimizer.hyperparameter(0, "momentum").value());
    optimizer.step();
    if (step + 1 < steps) schedule->step();
  }
  golden_case.expect("lr", as_tensor(lr), "lr");
  golden_case.expect("momentum", as_tensor(momentum), "momentum");
}

const Family family("schedule", run_schedule_case);

}  // namespace

}  // namespace wick::golden
