#include "wick/train/run_schedule.h"

#include <gtest/gtest.h>

#include "wick/core/core.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

using train::RunSchedule;
using train::ScheduleOptions;

constexpr train::RunLength kLength{.total_steps = 40, .steps_per_epoch = 10};

// The rates of all steps of a run. A third of a percent of the peak counts as equal.
std::vector<double> rates(const ScheduleOptions& options) {
  optim::SGD sgd({zeros({1}).set_requires_grad()}, {.lr = 1, .momentum = 0.9});
  RunSchedule schedule(options, kLength, sgd);
  std::vector<double> all;
  for (int64_t i = 0; i < kLength.total_steps; ++i) {
    all.push_back(schedule.lr().item());
    EXPECT_EQ(all.back(), sgd.lr());
    schedule.step({});
  }
  return all;
}

TEST(RunSchedule, EachNameHasItsShape) {
  EXPECT_EQ(rates({.name = "constant"}), std::vector<double>(40, 1));
  const auto cosine = rates({.name = "cosine"});
  EXPECT_EQ(cosine[0], 1);
  EXPECT_NEAR(cosine[20], 0.5, 1e-12);
  const auto linear = rates({.name = "linear"});
  EXPECT_NEAR(linear[10], 0.75, 1e-12);
  EXPECT_NEAR(rates({.name = "polynomial"})[20], 0.25, 1e-12);
  EXPECT_NEAR(rates({.name = "polynomial", .power = 1})[20], 0.5, 1e-12);
  const auto step = rates({.name = "step", .epochs = {1}, .gamma = 0.5});
  EXPECT_EQ(step[9], 1);
  EXPECT_EQ(step[10], 0.5);
  EXPECT_EQ(step[30], 0.125);
  const auto multistep = rates({.name = "multistep", .epochs = {1, 3}});
  EXPECT_NEAR(multistep[29], 0.1, 1e-12);
  EXPECT_NEAR(multistep[30], 0.01, 1e-12);
  EXPECT_NEAR(rates({.name = "exponential", .gamma = 0.5})[20], 0.25, 1e-12);
  const auto cyclic = rates({.name = "cyclic", .epochs = {1}});
  EXPECT_NEAR(cyclic[0], 0.1, 1e-12);
  EXPECT_NEAR(cyclic[5], 1, 1e-12);
  EXPECT_NEAR(cyclic[10], 0.1, 1e-12);
  const auto onecycle = rates({.name = "onecycle"});
  EXPECT_NEAR(onecycle[0], 1.0 / 25, 1e-12);
  EXPECT_NEAR(*std::max_element(onecycle.begin(), onecycle.end()), 1, 1e-2);
}

TEST(RunSchedule, AWarmUpRisesToThePeak) {
  const auto warm = rates({.name = "cosine", .warmup = 1});
  for (size_t i = 1; i <= 10; ++i) EXPECT_GT(warm[i], warm[i - 1]) << i;
  EXPECT_NEAR(warm[10], 1, 1e-12);
  EXPECT_LT(warm[11], 1);
  const auto cycle = rates({.name = "onecycle", .warmup = 1});
  EXPECT_NEAR(cycle[10], 1, 1e-12);
}

TEST(RunSchedule, SkippedStepsDoNotCount) {
  optim::SGD sgd({zeros({1}).set_requires_grad()}, {.lr = 1});
  RunSchedule schedule({.name = "linear"}, kLength, sgd);
  schedule.step(scalar_tensor(1.0));
  EXPECT_EQ(sgd.lr(), 1);
  schedule.step(scalar_tensor(0.0));
  EXPECT_LT(sgd.lr(), 1);
}

TEST(RunSchedule, PlateauGoesByEvaluations) {
  optim::SGD sgd({zeros({1}).set_requires_grad()}, {.lr = 1});
  RunSchedule schedule({.name = "plateau", .epochs = {1}, .gamma = 0.5}, kLength, sgd);
  for (const double loss : {2.0, 3.0}) schedule.evaluated(loss);
  EXPECT_EQ(sgd.lr(), 1);
  schedule.evaluated(3);
  EXPECT_EQ(sgd.lr(), 0.5);
}

TEST(RunSchedule, GroupsKeepTheirOwnPeaks) {
  optim::SGD sgd(std::vector<optim::ParamGroup<optim::SGDOptions>>{
      {{zeros({1}).set_requires_grad()}, {.lr = 1, .momentum = 0.9}},
      {{zeros({1}).set_requires_grad()}, {.lr = 0.1, .momentum = 0.9}}});
  const RunSchedule schedule({.name = "onecycle"}, kLength, sgd);
  EXPECT_NEAR(sgd.lr(0), 1.0 / 25, 1e-12);
  EXPECT_NEAR(sgd.lr(1), 0.1 / 25, 1e-12);
}

TEST(RunSchedule, NamesTheOptionThatIsWrong) {
  const auto error = [](const ScheduleOptions& options) {
    return error_of([&] { train::check(options); });
  };
  EXPECT_EQ(error({.name = "onecyle"}),
            "option schedule: unknown value: got \"onecyle\", expected one of onecycle, cosine, "
            "constant, step, multistep, exponential, polynomial, linear, cyclic, plateau. Did you "
            "mean onecycle?");
  EXPECT_EQ(error({.name = "cosine", .gamma = 0.5}),
            "option schedule_gamma: not with schedule cosine");
  EXPECT_EQ(error({.name = "step", .power = 2}), "option schedule_power: not with schedule step");
  EXPECT_EQ(error({.name = "step", .epochs = {1, 2}}),
            "option schedule_epochs: got 2 numbers for schedule step, expected one");
  EXPECT_EQ(error({.name = "multistep", .epochs = {2, 1}}),
            "option schedule_epochs: got 1, expected numbers above 0 that rise");
  EXPECT_EQ(error({.name = "multistep", .warmup = 2, .epochs = {1}}),
            "option schedule_epochs: a cut before the warm-up is over: got epoch 1, expected 2 or "
            "later");
  EXPECT_EQ(error({.warmup = -1}), "option warmup: out of range: got -1, expected 0 to 1e+09");
  EXPECT_EQ(error({.name = "cyclic", .warmup = 1}),
            "option warmup: not with schedule cyclic, which begins low and rises itself");
  for (const std::string& name : train::schedule_names())
    EXPECT_EQ(error({.name = name}), "no error");
}

}  // namespace
}  // namespace wick::testing
