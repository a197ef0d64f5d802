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

// A program's own: the rate falls by a tenth of the peak from step to step, and starts again.
class Sawtooth final : public optim::Schedule {
 public:
  Sawtooth(optim::Optimizer& optimizer, int64_t length) : Schedule(optimizer), length_(length) {
    set_values(0);
  }
  std::string kind() const override { return "sawtooth"; }
  optim::ScheduleOptions options() const override { return {{"length", length_}}; }
  double lr_at(int, int64_t step, double base) const override {
    return base * (1 - 0.1 * static_cast<double>(step % length_));
  }

 private:
  int64_t length_;
};

// Registered once for all tests of it.
const char* sawtooth() {
  static const bool is_registered = [] {
    train::register_schedule({.name = "sawtooth",
                              .make =
                                  [](const ScheduleOptions& options, const train::RunSteps& steps,
                                     optim::Optimizer& optimizer) {
                                    const double epochs =
                                        options.epochs.empty() ? 0.5 : options.epochs[0];
                                    return std::make_unique<Sawtooth>(optimizer, steps.of(epochs));
                                  },
                              .epochs = train::ScheduleEpochs::kOne});
    return true;
  }();
  static_cast<void>(is_registered);
  return "sawtooth";
}

TEST(RunSchedule, TakesOnesOfTheProgramsOwn) {
  const auto plain = rates({.name = sawtooth()});
  EXPECT_NEAR(plain[4], 0.6, 1e-12);
  EXPECT_EQ(plain[5], 1);
  EXPECT_EQ(train::schedule_names().back(), "sawtooth");
  const auto warm = rates({.name = sawtooth(), .warmup = 1, .epochs = {1}});
  EXPECT_LT(warm[9], 1);
  EXPECT_EQ(warm[10], 1);
  EXPECT_NEAR(warm[19], 0.1, 1e-12);
  EXPECT_EQ(error_of([] { train::check({.name = sawtooth(), .gamma = 0.5}); }),
            "option schedule_gamma: not with schedule sawtooth");
  EXPECT_EQ(error_of([] {
              train::check({.name = sawtooth(), .epochs = {1, 2}});
            }),
            "option schedule_epochs: got 2 numbers for schedule sawtooth, expected one");
  EXPECT_EQ(error_of([] { train::register_schedule({.name = "cosine"}); }),
            "schedule: register: got the name cosine, which is taken, expected another");
}

TEST(RunSchedule, GoesOnWithOnesOfTheProgramsOwn) {
  const auto whole = rates({.name = sawtooth()});
  optim::SGD first({zeros({1}).set_requires_grad()}, {.lr = 1});
  RunSchedule begun({.name = sawtooth()}, kLength, first);
  for (int i = 0; i < 8; ++i) begun.step({});
  optim::SGD second({zeros({1}).set_requires_grad()}, {.lr = 1});
  RunSchedule resumed({.name = sawtooth()}, kLength, second);
  resumed.load_state_dict(begun.state_dict());
  EXPECT_EQ(second.lr(), whole[8]);
}

TEST(RunSchedule, CountsOnesOfTheProgramsOwnOnTheDevice) {
  const auto whole = rates({.name = sawtooth()});
  optim::SGD sgd({zeros({1}).set_requires_grad()}, {.lr = 1});
  RunSchedule schedule({.name = sawtooth()}, kLength, sgd);
  schedule.count_on_device();
  for (int i = 0; i < 3; ++i) {
    schedule.step(scalar_tensor(0.0f));
    schedule.step(scalar_tensor(1.0f));  // skipped
  }
  EXPECT_EQ(schedule.lr().item(), whole[3]);
  schedule.settle();
  EXPECT_EQ(sgd.lr(), whole[3]);
}

TEST(RunSchedule, NamesTheOptionThatIsWrong) {
  const auto error = [](const ScheduleOptions& options) {
    return error_of([&] { train::check(options); });
  };
  EXPECT_TRUE(error({.name = "onecyle"})
                  .starts_with("option schedule: unknown value: got \"onecyle\", expected one of "
                               "onecycle, cosine, constant, step, multistep, exponential, "
                               "polynomial, linear, cyclic, plateau"));
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
            "option warmup: not with schedule cyclic, which has rises of its own");
  for (const std::string& name : train::schedule_names())
    EXPECT_EQ(error({.name = name}), "no error");
}

}  // namespace
}  // namespace wick::testing
