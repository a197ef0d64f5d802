#include <gtest/gtest.h>

#include <cmath>

#include "wick/tests/harness/expect_error.h"
#include "wick/tests/optim/reference.h"

// State and errors of schedules, and the schedule that follows a metric.

namespace wick::testing {
namespace {

using namespace optim;

TEST(Schedule, StopsAtAValueThatNoOptimizerTakes) {
  SGD sgd({{.params = {zeros({1}).set_requires_grad()}, .options = {.lr = 1}},
           {.params = {zeros({1}).set_requires_grad()}, .options = {.lr = 2}}});
  const auto constant = [](int64_t) { return 0.5; };
  LambdaLR schedule(sgd, {[](int64_t step) { return step == 0 ? 1 : 0.5; },
                          [](int64_t step) { return step < 2 ? 1 : NAN; }});
  schedule.step();
  const LambdaLR::Factor no_function;
  EXPECT_EQ(error_of([&] {
              LambdaLR(sgd, {constant, no_function});
            }),
            "lambda_lr: function 1 is empty");
  EXPECT_EQ(error_of([&] { LambdaLR(sgd, [](int64_t) { return -1.0; }); }),
            "sgd: lr: got -1, expected a finite value, 0 or more");
  EXPECT_EQ(error_of([&] { schedule.step(); }),
            "sgd: lr: got nan, expected a finite value, 0 or more");
  EXPECT_EQ(schedule.steps_taken(), 1);
  EXPECT_EQ(sgd.lr(0), 0.5);
  EXPECT_EQ(sgd.lr(1), 2);
}

TEST(Schedule, GoesOnFromItsState) {
  SGD first = make_sgd(), second = make_sgd(7);
  OneCycleLR whole(first, {.max_lr = 1, .total_steps = 20});
  for (int step = 0; step < 8; ++step) whole.step();
  OneCycleLR resumed(second, {.max_lr = 1, .total_steps = 20});
  resumed.load_state_dict(whole.state_dict());
  EXPECT_EQ(resumed.steps_taken(), 8);
  EXPECT_EQ(second.lr(), first.lr());
  whole.step();
  resumed.step();
  EXPECT_EQ(second.lr(), first.lr());
  EXPECT_EQ(second.options().momentum, first.options().momentum);

  StepLR exponential(first, 1, 0.5), other(second, 1, 0.5);
  other.load_state_dict(exponential.state_dict());
  EXPECT_EQ(second.lr(), first.lr());  // the base rate is part of the state
  EXPECT_EQ(error_of([&] { other.load_state_dict({}); }),
            "schedule: load_state_dict: needs step and base_lrs");
}

TEST(Schedule, StaysAsItWasWhereAStateDoesNotFit) {
  SGD first = make_sgd(3), second = make_sgd(7);
  OneCycleLR longer(first, {.max_lr = 1, .total_steps = 200});
  for (int step = 0; step < 150; ++step) longer.step();
  OneCycleLR schedule(second, {.max_lr = 1, .total_steps = 100});
  schedule.step();
  const double lr = second.lr();
  StateDict beyond = longer.state_dict();
  beyond.erase("options");
  EXPECT_EQ(error_of([&] { schedule.load_state_dict(beyond); }),
            "one_cycle_lr: step 150 of 100: the cycle has ended: make "
            "total_steps the epochs times the steps of an epoch");
  StateDict before_the_first = schedule.state_dict();
  before_the_first.at("step") = scalar_tensor(int64_t{-1}, kInt64);
  EXPECT_EQ(error_of([&] { schedule.load_state_dict(before_the_first); }),
            "schedule: load_state_dict: step: got -1, expected 0 or more");
  for (const double step : {double{NAN}, 0.5, 1e300}) {
    StateDict between = schedule.state_dict();
    between.at("step") = scalar_tensor(step, kFloat64);
    EXPECT_EQ(error_of([&] { schedule.load_state_dict(between); }),
              concat("schedule: load_state_dict: step: got ", step,
                     ", expected a whole number below 2^53"));
  }
  StateDict wild = schedule.state_dict();
  wild.at("base_lrs") = tensor({NAN}).to(kFloat64);
  EXPECT_EQ(error_of([&] { schedule.load_state_dict(wild); }),
            "schedule: load_state_dict: base_lrs: got nan, expected a finite value, 0 or more");
  EXPECT_EQ(schedule.steps_taken(), 1);
  EXPECT_EQ(second.lr(), lr);
  schedule.step();
}

TEST(Schedule, RefusesTheStateOfAnother) {
  SGD sgd = make_sgd();
  StepLR step_lr(sgd, 3, 0.5);
  step_lr.step();
  CosineAnnealingLR cosine(sgd, 3);
  EXPECT_EQ(error_of([&] { cosine.load_state_dict(step_lr.state_dict()); }),
            "cosine_annealing_lr: load_state_dict: kind: got the state of step_lr, expected that "
            "of cosine_annealing_lr");
  StepLR faster(sgd, 3, 0.25);
  EXPECT_EQ(error_of([&] { faster.load_state_dict(step_lr.state_dict()); }),
            "step_lr: load_state_dict: gamma: got the state of a schedule with 0.5, expected 0.25");
  EXPECT_EQ(faster.steps_taken(), 0);
  const MultiStepLR two(sgd, {2, 4});
  MultiStepLR one(sgd, {2});
  EXPECT_EQ(error_of([&] { one.load_state_dict(two.state_dict()); }),
            "multi_step_lr: load_state_dict: options: got 3, expected 2");

  const auto warm_up = [&](int64_t steps) {
    return std::make_shared<SequentialLR>(
        sgd,
        std::vector<std::shared_ptr<Schedule>>{std::make_shared<LinearLR>(sgd, 0.5, 1, steps),
                                               std::make_shared<ExponentialLR>(sgd, 0.5)},
        std::vector<int64_t>{8});
  };
  EXPECT_EQ(error_of([&] { warm_up(4)->load_state_dict(warm_up(8)->state_dict()); }),
            "sequential_lr(linear_lr, exponential_lr): load_state_dict: schedule 0: total_iters: "
            "got the state of a schedule with 8, expected 4");
  EXPECT_EQ(error_of([&] { warm_up(4)->load_state_dict(warm_up(4)->state_dict()); }), "no error");
}

// Files from before kind and options were kept have neither.
TEST(Schedule, TakesAStateThatDoesNotSayWhatItIsOf) {
  SGD sgd = make_sgd();
  StepLR schedule(sgd, 3, 0.5);
  const StateDict before{{"step", scalar_tensor(int64_t{3}, kInt64)},
                         {"base_lrs", tensor(std::vector<double>{4})}};
  schedule.load_state_dict(before);
  EXPECT_EQ(schedule.steps_taken(), 3);
  EXPECT_EQ(sgd.lr(), 2);
}

// Each with an option that is not its default, and what else it has to be told from.
TEST(Schedule, OptionsAreKeptOfEveryKind) {
  SGD sgd = make_sgd();
  const auto make = [&](double x) {
    const auto n = static_cast<int64_t>(8 * x);
    OneCycleOptions one_cycle{.max_lr = 1, .total_steps = 9, .max_momentum = x};
    CyclicOptions cyclic{.base_lr = x, .max_lr = 1};
    const auto exponential = std::make_shared<ExponentialLR>(sgd, x);
    return std::vector<std::shared_ptr<Schedule>>{
        std::make_shared<StepLR>(sgd, n),
        std::make_shared<MultiStepLR>(sgd, std::vector<int64_t>{n}),
        exponential,
        std::make_shared<LinearLR>(sgd, x),
        std::make_shared<ConstantLR>(sgd, x),
        std::make_shared<PolynomialLR>(sgd, 4, x),
        std::make_shared<CosineAnnealingLR>(sgd, n),
        std::make_shared<CosineAnnealingWarmRestarts>(sgd, 4, n),
        std::make_shared<OneCycleLR>(sgd, one_cycle),
        std::make_shared<CyclicLR>(sgd, cyclic),
        std::make_shared<ChainedScheduler>(
            sgd, std::vector<std::shared_ptr<Schedule>>{exponential, exponential})};
  };
  const auto some = make(0.5), others = make(0.25), same = make(0.5);
  for (size_t i = 0; i < some.size(); ++i) {
    for (size_t k = 0; k < some.size(); ++k) {
      const StateDict other = others[k]->state_dict(), own = same[k]->state_dict();
      EXPECT_NE(error_of([&] { some[i]->load_state_dict(other); }), "no error") << i << " " << k;
      EXPECT_EQ(error_of([&] { some[i]->load_state_dict(own); }) == "no error", i == k) << i;
    }
  }
}

TEST(ReduceLROnPlateau, CutsAfterPatience) {
  SGD sgd = make_sgd(1);
  ReduceLROnPlateau plateau(sgd, {.factor = 0.5, .patience = 1, .cooldown = 2, .min_lr = 0.2});
  std::vector<double> lr;
  // Best 1; two bad steps cut; two steps of cooldown; two bad ones cut again; down to min_lr.
  for (const double metric :
       {1.0, 0.99995, 1.0, 5.0, 5.0, 5.0, 5.0, double{NAN}, 5.0, 5.0, 5.0, 5.0}) {
    plateau.step(metric);
    lr.push_back(plateau.last_lr());
  }
  const std::vector<double> want{1, 1, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.2, 0.2};
  EXPECT_EQ(lr, want);
}

TEST(ReduceLROnPlateau, HasALeastRateForEachGroup) {
  SGD sgd({{.params = {zeros({1}).set_requires_grad()}, .options = {.lr = 1}},
           {.params = {zeros({1}).set_requires_grad()}, .options = {.lr = 1}}});
  ReduceLROnPlateau plateau(sgd, {.patience = 0, .min_lr = {0.5, 0.25}});
  plateau.step(1);
  plateau.step(1);
  EXPECT_EQ(plateau.last_lr(0), 0.5);
  EXPECT_EQ(plateau.last_lr(1), 0.25);
  EXPECT_EQ(error_of([&] {
              ReduceLROnPlateau(sgd, {.min_lr = {0, 0, 0}});
            }),
            "reduce_lr_on_plateau: min_lr: got 3 values, expected 1, or one for each of 2 groups");
}

TEST(ReduceLROnPlateau, LeavesOutChangesOfAtMostEps) {
  SGD sgd = make_sgd(1);
  ReduceLROnPlateau plateau(sgd, {.factor = 0.5, .patience = 0, .eps = 0.25});
  for (const double lr : {1.0, 0.5, 0.5, 0.5}) {  // 0.25 less would be no more than eps
    plateau.step(1);
    EXPECT_EQ(sgd.lr(), lr);
  }
}

TEST(ReduceLROnPlateau, MaximizesByAbsoluteThreshold) {
  SGD sgd = make_sgd(1);
  ReduceLROnPlateau plateau(
      sgd, {.maximize = true, .factor = 0.1, .patience = 0, .threshold = 0.5, .relative = false});
  plateau.step(1);
  plateau.step(1.6);
  EXPECT_EQ(sgd.lr(), 1);
  plateau.step(2);  // not better by 0.5
  EXPECT_EQ(sgd.lr(), 0.1);
}

TEST(ReduceLROnPlateau, GoesOnFromItsState) {
  SGD sgd = make_sgd(1);
  const PlateauOptions options{.patience = 1};
  ReduceLROnPlateau first(sgd, options), second(sgd, options);
  first.step(1);
  first.step(2);
  second.load_state_dict(first.state_dict());
  second.step(2);
  EXPECT_EQ(sgd.lr(), 0.1);
  EXPECT_EQ(error_of([&] { second.load_state_dict({}); }),
            "reduce_lr_on_plateau: load_state_dict: missing best");

  StateDict state = first.state_dict();
  ReduceLROnPlateau patient(sgd, {.patience = 2});
  EXPECT_EQ(error_of([&] { patient.load_state_dict(state); }),
            "reduce_lr_on_plateau: load_state_dict: patience: got the state of a schedule with 1, "
            "expected 2");
  const StepLR step_lr(sgd, 1);
  StateDict of_another = step_lr.state_dict();
  of_another.insert(state.begin(), state.end());
  EXPECT_EQ(error_of([&] { first.load_state_dict(of_another); }),
            "reduce_lr_on_plateau: load_state_dict: kind: got the state of step_lr, expected that "
            "of reduce_lr_on_plateau");
  state.at("bad_steps") = scalar_tensor(int64_t{-1}, kInt64);
  EXPECT_EQ(error_of([&] { first.load_state_dict(state); }),
            "reduce_lr_on_plateau: load_state_dict: bad_steps and cooldown_left: got -1 and 0, "
            "expected 0 or more");
  state.at("best") = scalar_tensor(double{NAN}, kFloat64);
  EXPECT_EQ(error_of([&] { first.load_state_dict(state); }),
            "reduce_lr_on_plateau: load_state_dict: best: got nan");
  state.erase("kind");
  state.erase("options");
  state.at("best") = scalar_tensor(1.0, kFloat64);
  state.at("bad_steps") = scalar_tensor(int64_t{2}, kInt64);
  patient.load_state_dict(state);
  patient.step(2);
  EXPECT_DOUBLE_EQ(sgd.lr(), 0.01);
}

TEST(Schedule, RefusesBadOptions) {
  SGD sgd = make_sgd();
  EXPECT_EQ(error_of([&] { StepLR(sgd, 0); }), "step_lr: step_size: got 0, expected 1 or more");
  EXPECT_EQ(error_of([&] { LinearLR(sgd, 0); }),
            "linear_lr: start_factor: got 0, expected a value in (0, 1]");
  EXPECT_EQ(error_of([&] { LinearLR(sgd, 1, 2); }),
            "linear_lr: end_factor: got 2, expected a value in [0, 1]");
  EXPECT_EQ(error_of([&] { ConstantLR(sgd, 1.5); }),
            "constant_lr: factor: got 1.5, expected a value in [0, 1]");
  EXPECT_EQ(error_of([&] { LinearLR(sgd, 1, 1, -1); }),
            "linear_lr: total_iters: got -1, expected 0 or more");
  EXPECT_EQ(error_of([&] { ConstantLR(sgd, 1, -1); }),
            "constant_lr: total_iters: got -1, expected 0 or more");
  EXPECT_EQ(error_of([&] { PolynomialLR(sgd, 0); }),
            "polynomial_lr: total_iters: got 0, expected 1 or more");
  EXPECT_EQ(error_of([&] { CosineAnnealingLR(sgd, 0); }),
            "cosine_annealing_lr: t_max: got 0, expected 1 or more");
  EXPECT_EQ(error_of([&] { CosineAnnealingWarmRestarts(sgd, 4, 0); }),
            "cosine_annealing_warm_restarts: t_mult: got 0, expected 1 or more");
  EXPECT_EQ(error_of([&] { OneCycleLR(sgd, {.max_lr = 1}); }),
            "one_cycle_lr: total_steps: got 0, expected 1 or more");
  EXPECT_EQ(error_of([&] { CyclicLR(sgd, {.base_lr = 1, .max_lr = 2, .step_size_up = 0}); }),
            "cyclic_lr: step_size_up and step_size_down: got 0 and 0, expected 1 or more");
  EXPECT_EQ(error_of([&] { ReduceLROnPlateau(sgd, {.factor = 1}); }),
            "reduce_lr_on_plateau: factor: got 1, expected a value in [0, 1)");
  EXPECT_EQ(error_of([&] { ChainedScheduler(sgd, {}); }), "chained_scheduler: no schedules");
  EXPECT_EQ(error_of([&] { SequentialLR(sgd, {std::make_shared<ExponentialLR>(sgd, 0.5)}, {3}); }),
            "sequential_lr: got 1 milestones for 1 schedules, expected one less");
}

TEST(Schedule, RefusesOptionsThatGiveNoRates) {
  SGD sgd = make_sgd();
  const std::string not_negative = ", expected a finite value, 0 or more";
  EXPECT_EQ(error_of([&] { StepLR(sgd, 1, -0.5); }), "step_lr: gamma: got -0.5" + not_negative);
  EXPECT_EQ(error_of([&] { MultiStepLR(sgd, {2}, NAN); }),
            "multi_step_lr: gamma: got nan" + not_negative);
  EXPECT_EQ(error_of([&] {
              MultiStepLR(sgd, {2, -1});
            }),
            "multi_step_lr: milestones: got -1, expected steps, 0 or more");
  EXPECT_EQ(error_of([&] { ExponentialLR(sgd, HUGE_VAL); }),
            "exponential_lr: gamma: got inf" + not_negative);
  EXPECT_EQ(error_of([&] { PolynomialLR(sgd, 5, -1); }),
            "polynomial_lr: power: got -1" + not_negative);
  EXPECT_EQ(error_of([&] { CosineAnnealingLR(sgd, 5, -1); }),
            "cosine_annealing_lr: eta_min: got -1" + not_negative);
  EXPECT_EQ(error_of([&] { CosineAnnealingWarmRestarts(sgd, 5, 1, -1); }),
            "cosine_annealing_warm_restarts: eta_min: got -1" + not_negative);
  EXPECT_EQ(sgd.lr(), 0.1);
}

TEST(Schedule, RefusesOptionsThatGiveNoCycle) {
  SGD sgd = make_sgd();
  const auto one_cycle = [&](const auto& change) {
    OneCycleOptions options{.max_lr = 1, .total_steps = 10};
    change(options);
    return error_of([&] { OneCycleLR(sgd, options); });
  };
  const std::string positive = ", expected a finite value, more than 0";
  EXPECT_EQ(one_cycle([](OneCycleOptions& o) { o.max_lr = HUGE_VAL; }),
            "one_cycle_lr: max_lr: got inf" + positive);
  EXPECT_EQ(one_cycle([](OneCycleOptions& o) { o.div_factor = 0; }),
            "one_cycle_lr: div_factor: got 0" + positive);
  EXPECT_EQ(one_cycle([](OneCycleOptions& o) { o.final_div_factor = NAN; }),
            "one_cycle_lr: final_div_factor: got nan" + positive);
  EXPECT_EQ(one_cycle([](OneCycleOptions& o) { o.base_momentum = 1.5; }),
            "one_cycle_lr: base_momentum: got 1.5, expected a value in [0, 1)");
  EXPECT_EQ(one_cycle([](OneCycleOptions& o) {
              o.base_momentum = 1.5;
              o.cycle_momentum = false;
            }),
            "no error");

  const auto cyclic = [&](const auto& change) {
    CyclicOptions options{.base_lr = 0.1, .max_lr = 1};
    change(options);
    return error_of([&] { CyclicLR(sgd, options); });
  };
  EXPECT_EQ(cyclic([](CyclicOptions& o) { o.base_lr = -1; }),
            "cyclic_lr: base_lr: got -1, expected a finite value, 0 or more");
  EXPECT_EQ(cyclic([](CyclicOptions& o) { o.max_lr = 0; }), "cyclic_lr: max_lr: got 0" + positive);
  EXPECT_EQ(cyclic([](CyclicOptions& o) { o.gamma = -1; }),
            "cyclic_lr: gamma: got -1, expected a finite value, 0 or more");
  EXPECT_EQ(cyclic([](CyclicOptions& o) { o.max_momentum = 1; }),
            "cyclic_lr: max_momentum: got 1, expected a value in [0, 1)");
}

TEST(ReduceLROnPlateau, RefusesBadOptions) {
  SGD sgd = make_sgd();
  const auto plateau = [&](const PlateauOptions& options) {
    return error_of([&] { ReduceLROnPlateau(sgd, options); });
  };
  EXPECT_EQ(plateau({.factor = NAN}),
            "reduce_lr_on_plateau: factor: got nan, expected a value in [0, 1)");
  EXPECT_EQ(plateau({.patience = -1}),
            "reduce_lr_on_plateau: patience and cooldown: got -1 and 0, expected 0 or more");
  EXPECT_EQ(plateau({.threshold = -1}),
            "reduce_lr_on_plateau: threshold: got -1, expected a finite value, 0 or more");
  EXPECT_EQ(plateau({.min_lr = NAN}),
            "reduce_lr_on_plateau: min_lr: got nan, expected a finite value, 0 or more");
  EXPECT_EQ(plateau({.eps = -1}),
            "reduce_lr_on_plateau: eps: got -1, expected a finite value, 0 or more");
}

}  // namespace
}  // namespace wick::testing
