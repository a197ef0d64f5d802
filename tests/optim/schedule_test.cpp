#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "wick/core/graph/compile.h"
#include "wick/optim/accumulate.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/optim/reference.h"

namespace wick::testing {
namespace {

using namespace optim;

struct Values {
  std::vector<double> lr, momentum;
};

// The values in force for each of `steps` steps.
Values follow(Optimizer& optimizer, Schedule& schedule, int steps) {
  Values values;
  for (int step = 0; step < steps; ++step) {
    values.lr.push_back(optimizer.lr());
    values.momentum.push_back(optimizer.hyperparameter(0, "momentum").value());
    EXPECT_EQ(schedule.steps_taken(), step);
    if (step + 1 < steps) schedule.step();
  }
  return values;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], 1e-13 + 1e-12 * std::abs(want[i])) << "step " << i;
  }
}

// What PyTorch's recursive definitions give: lr(step) from lr(step - 1).
template <class Next>
std::vector<double> recursion(double first, int steps, const Next& next) {
  std::vector<double> lr{first};
  for (int step = 1; step < steps; ++step) lr.push_back(next(step, lr.back()));
  return lr;
}

TEST(Schedule, StepLR) {
  SGD sgd = make_sgd();
  StepLR schedule(sgd, 3, 0.5);
  const auto want =
      recursion(0.1, 20, [](int step, double lr) { return step % 3 == 0 ? lr * 0.5 : lr; });
  expect_near(follow(sgd, schedule, 20).lr, want);
}

TEST(Schedule, MultiStepLR) {
  SGD sgd = make_sgd();
  MultiStepLR schedule(sgd, {9, 5, 2, 5}, 0.3);
  const auto want = recursion(0.1, 12, [](int step, double lr) {
    return step == 2 || step == 9 ? lr * 0.3 : step == 5 ? lr * 0.3 * 0.3 : lr;
  });
  expect_near(follow(sgd, schedule, 12).lr, want);
}

TEST(Schedule, ExponentialLR) {
  SGD sgd = make_sgd();
  ExponentialLR schedule(sgd, 0.9);
  expect_near(follow(sgd, schedule, 30).lr,
              recursion(0.1, 30, [](int, double lr) { return lr * 0.9; }));
}

TEST(Schedule, LinearLR) {
  SGD sgd = make_sgd();
  LinearLR schedule(sgd, 0.25, 0.75, 4);
  expect_near(follow(sgd, schedule, 7).lr, {0.025, 0.0375, 0.05, 0.0625, 0.075, 0.075, 0.075});
  SGD other = make_sgd();
  LinearLR flat(other, 0.25, 0.75, 0);
  expect_near(follow(other, flat, 3).lr, {0.025, 0.025, 0.025});
}

TEST(Schedule, ConstantLR) {
  SGD sgd = make_sgd();
  ConstantLR schedule(sgd, 0.5, 3);
  expect_near(follow(sgd, schedule, 5).lr, {0.05, 0.05, 0.05, 0.1, 0.1});
  SGD other = make_sgd();
  ConstantLR for_good(other, 0.5, 0);
  expect_near(follow(other, for_good, 3).lr, {0.05, 0.05, 0.05});
}

TEST(Schedule, PolynomialLR) {
  SGD sgd = make_sgd();
  PolynomialLR schedule(sgd, 4, 2);
  expect_near(follow(sgd, schedule, 6).lr, {0.1, 0.1 * 9 / 16, 0.1 / 4, 0.1 / 16, 0, 0});
}

TEST(Schedule, LambdaLRHasAFunctionForEachGroup) {
  SGD sgd({{.params = {zeros({1}).set_requires_grad()}, .options = {.lr = 1}},
           {.params = {zeros({1}).set_requires_grad()}, .options = {.lr = 2}}});
  LambdaLR schedule(sgd, {[](int64_t step) { return static_cast<double>(step); },
                          [](int64_t step) { return 1 / (1 + static_cast<double>(step)); }});
  EXPECT_EQ(sgd.lr(0), 0);
  EXPECT_EQ(sgd.lr(1), 2);
  schedule.step();
  schedule.step();
  schedule.step();
  EXPECT_EQ(sgd.lr(0), 3);
  EXPECT_EQ(sgd.lr(1), 0.5);
  EXPECT_EQ(error_of([&] { LambdaLR(sgd, std::vector<LambdaLR::Factor>(3)); }),
            "lambda_lr: got 3 functions, expected one for each of 2 groups");
}

TEST(Schedule, CosineAnnealingLR) {
  SGD sgd = make_sgd();
  CosineAnnealingLR schedule(sgd, 10, 0.01);
  const std::vector<double> lr = follow(sgd, schedule, 35).lr;
  for (int step = 0; step < 35; ++step) {
    EXPECT_NEAR(lr[static_cast<size_t>(step)],
                0.01 + 0.09 * (1 + std::cos(std::numbers::pi * step / 10)) / 2, 1e-15);
  }
  EXPECT_DOUBLE_EQ(lr[10], 0.01);
  EXPECT_DOUBLE_EQ(lr[20], 0.1);
}

TEST(Schedule, CosineAnnealingWarmRestarts) {
  for (const int t_mult : {1, 2, 3}) {
    SGD sgd = make_sgd();
    CosineAnnealingWarmRestarts schedule(sgd, 3, t_mult, 0.01);
    std::vector<double> want;
    for (int length = 3; want.size() < 40; length *= t_mult) {
      for (int t = 0; t < length && want.size() < 40; ++t) {
        want.push_back(0.01 + 0.09 * (1 + std::cos(std::numbers::pi * t / length)) / 2);
      }
    }
    expect_near(follow(sgd, schedule, 40).lr, want);
  }
}

TEST(Schedule, OneCycleLR) {
  SGD sgd = make_sgd();
  OneCycleLR schedule(sgd, {.max_lr = 1, .total_steps = 20, .pct_start = 0.3});
  const Values got = follow(sgd, schedule, 20);
  const auto cosine = [](double from, double to, double share) {
    return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * share));
  };
  Values want;
  for (int step = 0; step < 20; ++step) {
    const bool rising = step <= 5;  // the rate peaks at step 0.3 * 20 - 1
    const double share = rising ? step / 5.0 : (step - 5) / 14.0;
    want.lr.push_back(rising ? cosine(1 / 25.0, 1, share) : cosine(1, 1 / 25.0 / 1e4, share));
    want.momentum.push_back(rising ? cosine(0.95, 0.85, share) : cosine(0.85, 0.95, share));
  }
  expect_near(got.lr, want.lr);
  expect_near(got.momentum, want.momentum);
  schedule.step();  // step total_steps is still allowed
  const double last = sgd.lr();
  EXPECT_EQ(error_of([&] { schedule.step(); }),
            "one_cycle_lr: step 21 of 20: the cycle has ended: make "
            "total_steps the epochs times the steps of an epoch");
  EXPECT_EQ(schedule.steps_taken(), 20);
  EXPECT_EQ(sgd.lr(), last);
}

TEST(Schedule, OneCycleLRInThreeLinearPhases) {
  SGD sgd = make_sgd();
  OneCycleLR schedule(sgd, {.max_lr = 1,
                            .total_steps = 12,
                            .pct_start = 0.25,
                            .anneal = Anneal::kLinear,
                            .div_factor = 5,
                            .final_div_factor = 10,
                            .three_phase = true});
  const Values got = follow(sgd, schedule, 12);
  // 0.2 at 0, 1 at 2, 0.2 at 4, 0.02 at 11.
  std::vector<double> want{0.2, 0.6, 1, 0.6, 0.2};
  for (int step = 5; step < 12; ++step) want.push_back(0.2 - 0.18 * (step - 4) / 7);
  expect_near(got.lr, want);
  expect_near({got.momentum[0], got.momentum[2], got.momentum[4], got.momentum[11]},
              {0.95, 0.85, 0.95, 0.95});
}

// PyTorch's lines would end below 0, in a step that no update of the cycle uses.
TEST(Schedule, OneCycleLRStaysAtItsEndInTheStepAfterIt) {
  for (const int64_t steps : {2, 20}) {
    AdamW adam({zeros({1}).set_requires_grad()});
    OneCycleLR schedule(adam, {.max_lr = 1, .total_steps = steps, .anneal = Anneal::kLinear});
    for (int64_t step = 0; step < steps; ++step) schedule.step();
    EXPECT_NEAR(adam.lr(), 1 / 25.0 / 1e4, 1e-15);
    EXPECT_NEAR(adam.options().beta1, 0.95, 1e-15);
  }
}

TEST(Schedule, OneCycleLRCyclesBeta1OfAdam) {
  AdamW adam({zeros({1}).set_requires_grad()});
  OneCycleLR schedule(adam, {.max_lr = 1, .total_steps = 20});
  EXPECT_EQ(adam.options().beta1, 0.95);
  for (int step = 0; step < 5; ++step) schedule.step();
  EXPECT_DOUBLE_EQ(adam.options().beta1, 0.85);
  Adagrad adagrad({zeros({1}).set_requires_grad()});
  EXPECT_EQ(error_of([&] { OneCycleLR(adagrad, {.max_lr = 1, .total_steps = 20}); }),
            "one_cycle_lr: cycle_momentum needs an optimizer with momentum or beta1");
  const OneCycleLR without(adagrad, {.max_lr = 1, .total_steps = 20, .cycle_momentum = false});
  EXPECT_NEAR(adagrad.lr(), 1 / 25.0, 1e-15);
}

TEST(Schedule, CyclicLR) {
  SGD sgd = make_sgd();
  CyclicLR schedule(sgd, {.base_lr = 1, .max_lr = 3, .step_size_up = 2, .step_size_down = 4});
  const Values got = follow(sgd, schedule, 9);
  expect_near(got.lr, {1, 2, 3, 2.5, 2, 1.5, 1, 2, 3});
  expect_near(got.momentum, {0.9, 0.85, 0.8, 0.825, 0.85, 0.875, 0.9, 0.85, 0.8});
}

TEST(Schedule, CyclicLRScales) {
  SGD sgd = make_sgd();
  CyclicOptions options{.base_lr = 0, .max_lr = 8, .step_size_up = 2, .cycle_momentum = false};
  options.mode = CycleMode::kTriangular2;
  CyclicLR halving(sgd, options);
  const Values got = follow(sgd, halving, 9);
  expect_near(got.lr, {0, 4, 8, 4, 0, 2, 4, 2, 0});
  EXPECT_EQ(got.momentum[2], 0.9);
  options.mode = CycleMode::kExpRange;
  options.gamma = 0.5;
  CyclicLR fading(sgd, options);
  expect_near(follow(sgd, fading, 5).lr, {0, 2, 2, 0.5, 0});
  options.scale = [](double cycle) { return 1 / cycle; };
  CyclicLR by_cycle(sgd, options);
  expect_near(follow(sgd, by_cycle, 7).lr, {0, 4, 8, 4, 0, 2, 4});
  options.scale = [](double step) { return step; };
  options.scale_by_step = true;
  CyclicLR by_step(sgd, options);
  expect_near(follow(sgd, by_step, 4).lr, {0, 4, 16, 12});
}

TEST(Schedule, CyclesHaveValuesForEachGroup) {
  SGD sgd({{.params = {zeros({1}).set_requires_grad()}, .options = {.momentum = 0.5}},
           {.params = {zeros({1}).set_requires_grad()}, .options = {.momentum = 0.5}}});
  OneCycleLR one_cycle(sgd, {.max_lr = {1, 10},
                             .total_steps = 10,
                             .base_momentum = 0.8,
                             .max_momentum = {0.9, 0.95},
                             .div_factor = 4});
  EXPECT_EQ(sgd.lr(0), 0.25);
  EXPECT_EQ(sgd.lr(1), 2.5);
  EXPECT_EQ(sgd.options(0).momentum, 0.9);
  EXPECT_EQ(sgd.options(1).momentum, 0.95);
  one_cycle.step();
  one_cycle.step();
  EXPECT_EQ(sgd.lr(0), 1);
  EXPECT_EQ(sgd.lr(1), 10);
  EXPECT_DOUBLE_EQ(sgd.options(1).momentum, 0.8);

  CyclicLR cyclic(sgd, {.base_lr = {1, 2},
                        .max_lr = std::vector<double>{3, 6},
                        .step_size_up = 2,
                        .base_momentum = {0.5, 0.7},
                        .max_momentum = 0.9});
  cyclic.step();
  EXPECT_EQ(sgd.lr(0), 2);
  EXPECT_EQ(sgd.lr(1), 4);
  EXPECT_DOUBLE_EQ(sgd.options(0).momentum, 0.7);
  EXPECT_DOUBLE_EQ(sgd.options(1).momentum, 0.8);

  EXPECT_EQ(error_of([&] {
              OneCycleLR(sgd, {.max_lr = {1, 2, 3}, .total_steps = 9});
            }),
            "one_cycle_lr: max_lr: got 3 values, expected 1, or one for each of 2 groups");
  EXPECT_EQ(error_of([&] {
              OneCycleLR(sgd, {.max_lr = 1, .total_steps = 9, .max_momentum = {0.9, 0.9, 1}});
            }),
            "one_cycle_lr: max_momentum: got 3 values, expected 1, or one for each of 2 groups");
  // What is not used may be anything.
  const OneCycleLR without(
      sgd, {.max_lr = 1, .total_steps = 9, .cycle_momentum = false, .base_momentum = {}});
  EXPECT_NEAR(sgd.lr(), 1 / 25.0, 1e-15);
  EXPECT_EQ(error_of([&] { CyclicLR(sgd, {.base_lr = {}, .max_lr = 1}); }),
            "cyclic_lr: base_lr: got 0 values, expected 1, or one for each of 2 groups");
  EXPECT_EQ(error_of([&] {
              CyclicLR(sgd, {.base_lr = {1, -2}, .max_lr = 1});
            }),
            "cyclic_lr: base_lr: got -2, expected a finite value, 0 or more");
}

TEST(Schedule, ChainedSchedulerMultipliesFactors) {
  SGD sgd = make_sgd(1);
  ChainedScheduler schedule(
      sgd, {std::make_shared<ConstantLR>(sgd, 0.1, 2), std::make_shared<ExponentialLR>(sgd, 0.9)});
  expect_near(follow(sgd, schedule, 5).lr, {0.1, 0.09, 0.81, 0.729, 0.6561});
}

TEST(Schedule, ChainedSchedulerTakesTheMomentumOfTheOneThatSetsIt) {
  SGD sgd = make_sgd(1);
  ChainedScheduler schedule(
      sgd,
      {std::make_shared<CyclicLR>(sgd, CyclicOptions{.base_lr = 1, .max_lr = 3, .step_size_up = 2}),
       std::make_shared<ExponentialLR>(sgd, 0.5)});
  const Values got = follow(sgd, schedule, 4);
  expect_near(got.lr, {1, 1, 0.75, 0.25});  // PyTorch: 1, 1, 1.5, 1, see ChainedScheduler
  expect_near(got.momentum, {0.9, 0.85, 0.8, 0.85});
}

TEST(Schedule, SequentialLRStartsEachAtItsMilestone) {
  SGD sgd = make_sgd(1);
  SequentialLR schedule(
      sgd,
      {std::make_shared<LinearLR>(sgd, 0.5, 1, 2), std::make_shared<CosineAnnealingLR>(sgd, 4, 0.2),
       std::make_shared<ExponentialLR>(sgd, 0.5)},
      {3, 6});
  const auto cosine = [](double t) {
    return 0.2 + 0.8 * (1 + std::cos(std::numbers::pi * t / 4)) / 2;
  };
  expect_near(follow(sgd, schedule, 9).lr,
              {0.5, 0.75, 1, cosine(0), cosine(1), cosine(2), 1, 0.5, 0.25});
}

TEST(Schedule, SequentialLRGoesOnFromTheFirstRateOfACycle) {
  const auto then_fade = [](SGD& sgd, std::shared_ptr<Schedule> cycle) {
    SequentialLR schedule(sgd, {std::move(cycle), std::make_shared<ExponentialLR>(sgd, 0.5)}, {4});
    return follow(sgd, schedule, 7).lr;
  };
  const CyclicOptions cyclic{.base_lr = 1, .max_lr = 3, .step_size_up = 2};
  SGD first = make_sgd(0.1), second = make_sgd(0.1), third = make_sgd(0.1);
  expect_near(then_fade(first, std::make_shared<CyclicLR>(first, cyclic)),
              {1, 2, 3, 2, 1, 0.5, 0.25});
  const auto one_cycle =
      std::make_shared<OneCycleLR>(second, OneCycleOptions{.max_lr = 1, .total_steps = 4});
  const std::vector<double> rates = then_fade(second, one_cycle);
  expect_near({rates[0], rates[4], rates[5], rates[6]}, {0.04, 0.04, 0.02, 0.01});
  const ExponentialLR before(third, 0.9);  // whose rate is the one to start from then
  expect_near(then_fade(third, std::make_shared<CyclicLR>(third, cyclic)),
              {1, 2, 3, 2, 0.1, 0.05, 0.025});
}

TEST(Schedule, ACycleThatIsRefusedLeavesTheRate) {
  SGD sgd = make_sgd(0.1);
  EXPECT_NE(error_of([&] { CyclicLR(sgd, {.base_lr = 1, .max_lr = 0}); }), "no error");
  const ExponentialLR schedule(sgd, 0.5);
  EXPECT_EQ(schedule.base_lr(0), 0.1);
  EXPECT_EQ(sgd.lr(), 0.1);
}

TEST(Schedule, SequentialLRLeavesOutAFirstScheduleOfNoSteps) {
  SGD sgd = make_sgd(1);
  SequentialLR schedule(
      sgd, {std::make_shared<ConstantLR>(sgd, 0.1, 2), std::make_shared<ExponentialLR>(sgd, 0.5)},
      {0});
  expect_near(follow(sgd, schedule, 3).lr, {1, 0.5, 0.25});
}

TEST(Schedule, SequentialLRRefusesMilestonesThatDoNotRise) {
  SGD sgd = make_sgd(1);
  const auto with = [&](const std::vector<int64_t>& milestones) {
    const auto part = std::make_shared<ExponentialLR>(sgd, 0.5);
    return error_of([&] { SequentialLR(sgd, {part, part, part}, milestones); });
  };
  EXPECT_EQ(with({-1, 2}), "sequential_lr: milestone 0: got -1, expected 0 or more: they rise");
  EXPECT_EQ(with({2, 2}), "sequential_lr: milestone 1: got 2, expected 3 or more: they rise");
  EXPECT_EQ(with({4, 2}), "sequential_lr: milestone 1: got 2, expected 5 or more: they rise");
}

// One with more groups would ask another's schedule for those that it has not.
TEST(Schedule, CompositesAreOfOneOptimizer) {
  SGD sgd(
      {{.params = {zeros({1}).set_requires_grad()}}, {.params = {zeros({1}).set_requires_grad()}}});
  SGD other = make_sgd();
  const auto own = std::make_shared<ExponentialLR>(sgd, 0.5);
  const auto foreign = std::make_shared<LambdaLR>(other, [](int64_t) { return 1.0; });
  const std::string error = ": schedule 1 is of another optimizer, expected all of the one given";
  EXPECT_EQ(error_of([&] { ChainedScheduler(sgd, {own, foreign}); }), "chained_scheduler" + error);
  EXPECT_EQ(error_of([&] { SequentialLR(sgd, {own, foreign}, {2}); }), "sequential_lr" + error);
  EXPECT_EQ(error_of([&] {
              ChainedScheduler(sgd, {own, nullptr});
            }),
            "chained_scheduler: schedule 1 is null");
}

TEST(Schedule, ASecondScheduleStartsFromTheSameRate) {
  SGD sgd = make_sgd(1);
  const LinearLR warm_up(sgd, 0.5);
  const ExponentialLR decay(sgd, 0.5);
  EXPECT_EQ(sgd.lr(), 1);
  sgd.set_lr(4);
  const LinearLR again(sgd, 0.5);
  EXPECT_EQ(sgd.lr(), 2);
}

TEST(Schedule, GroupsKeepTheirOwnRates) {
  SGD sgd({{.params = {zeros({1}).set_requires_grad()}, .options = {.lr = 1}},
           {.params = {zeros({1}).set_requires_grad()}, .options = {.lr = 10}}});
  StepLR schedule(sgd, 1, 0.5);
  schedule.step();
  EXPECT_EQ(sgd.lr(0), 0.5);
  EXPECT_EQ(sgd.lr(1), 5);
  EXPECT_EQ(schedule.last_lr(1), 5);
}

// A compiled step takes the schedule's steps, too.
TEST(Schedule, StepsWithinCompiledSteps) {
  const Tensor eager = ones({3}).set_requires_grad(), traced = ones({3}).set_requires_grad();
  SGD eager_sgd({eager}, {.lr = 0.1, .momentum = 0.9}),
      traced_sgd({traced}, {.lr = 0.1, .momentum = 0.9});
  OneCycleLR eager_cycle(eager_sgd, {.max_lr = 0.5, .total_steps = 12}),
      traced_cycle(traced_sgd, {.max_lr = 0.5, .total_steps = 12});
  const auto step = [](const Tensor& w, SGD& sgd, Schedule& schedule) -> std::vector<Tensor> {
    sgd.zero_grad();
    const Tensor loss = w.square().sum();
    loss.backward();
    sgd.step();
    schedule.step();
    return {loss.detach()};
  };
  graph::CompiledFunction compiled = graph::compile_step(
      [&](const std::vector<Tensor>&) { return step(traced, traced_sgd, traced_cycle); });
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(compiled({zeros({})})[0].equal(step(eager, eager_sgd, eager_cycle)[0])) << i;
    EXPECT_TRUE(traced.detach().equal(eager.detach())) << i;
    EXPECT_EQ(traced_cycle.steps_taken(), i + 1);
    EXPECT_EQ(traced_sgd.lr(), eager_sgd.lr());
  }
  EXPECT_EQ(compiled.num_graphs(), 1);
}

// What counts on the host, and cannot in a graph, says so.
TEST(Schedule, RefusesTracesThatWouldFreezeIt) {
  const Tensor weight = ones({3}).set_requires_grad();
  SGD sgd({weight}, {.lr = 0.1});
  ReduceLROnPlateau plateau(sgd);
  GradAccumulator steps(sgd, {.every = 2});
  graph::CompiledFunction lowers([&](const std::vector<Tensor>& x) -> std::vector<Tensor> {
    plateau.step(2.5);
    return x;
  });
  expect_error(
      [&] { lowers({ones({1})}); },
      {"reduce_lr_on_plateau: step: got a call within a trace, which would keep the metric"});
  graph::CompiledFunction gathers([&](const std::vector<Tensor>& x) -> std::vector<Tensor> {
    steps.backward(weight.sum(), 1);
    return x;
  });
  expect_error([&] { gathers({ones({1})}); },
               {"grad_accumulator: backward: got a call within a trace"});
}

}  // namespace
}  // namespace wick::testing
