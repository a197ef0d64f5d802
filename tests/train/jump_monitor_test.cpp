#include "wick/train/jump_monitor.h"

#include <gtest/gtest.h>

#include <cmath>

#include "wick/optim/sgd.h"
#include "wick/tests/train/small_run.h"

namespace wick::testing {
namespace {

using train::JumpMonitor;

// A falling loss with some noise.
double loss(int step) { return 2 * std::exp(-step / 100.0) + 0.2 * std::sin(step * 7.3); }

TEST(JumpMonitor, SaysNothingOfAFallingLoss) {
  JumpMonitor monitor;
  for (int step = 0; step < 500; ++step) EXPECT_FALSE(monitor.jump(loss(step))) << step;
}

TEST(JumpMonitor, TellsTheFirstOfStepsThatJump) {
  JumpMonitor monitor;
  for (int step = 0; step < 100; ++step) monitor.jump(loss(step));
  const std::optional<double> usual = monitor.jump(9);
  ASSERT_TRUE(usual.has_value());
  EXPECT_NEAR(*usual, loss(70), 0.5);
  EXPECT_FALSE(monitor.jump(9));
  EXPECT_FALSE(monitor.jump(loss(102)));
  EXPECT_TRUE(monitor.jump(INFINITY).has_value());
  EXPECT_FALSE(monitor.jump(loss(104)));
  EXPECT_TRUE(monitor.jump(9).has_value());
}

TEST(JumpMonitor, TakesAFewStepsToKnowWhatIsUsual) {
  JumpMonitor monitor;
  for (int step = 0; step < 15; ++step) monitor.jump(1);
  EXPECT_FALSE(monitor.jump(100));
  EXPECT_TRUE(monitor.jump(100).has_value());
  monitor.jump(1);
  EXPECT_FALSE(monitor.jump(2));
  EXPECT_TRUE(monitor.jump(3).has_value());
}

TEST(JumpMonitor, TakesANewLevelAsUsualInTheEnd) {
  JumpMonitor monitor;
  for (int step = 0; step < 64; ++step) monitor.jump(1);
  int told = 0;
  for (int step = 0; step < 64; ++step) told += monitor.jump(5).has_value();
  EXPECT_EQ(told, 1);
  EXPECT_FALSE(monitor.jump(5.5));
  EXPECT_TRUE(monitor.jump(11).has_value());
}

TEST(Trainer, TellsOfTheStepAndBatchThatJump) {
  for (const bool clips : {false, true}) {
    manual_seed(1);
    const auto model = std::make_shared<nn::Sequential>(nn::Linear(4, 4));
    std::vector<train::JumpEvent> jumps;
    std::vector<std::string> lines;
    train::TrainerOptions options{.epochs = 4};
    if (clips) options.step.clip_norm = 10;
    options.on_jump = [&](const train::JumpEvent& event) { jumps.push_back(event); };
    options.on_log = [&](const std::string& line) {
      if (line.find("jump") != line.npos) lines.push_back(line);
    };
    options.on_step = [&](const train::StepEvent& event) {
      EXPECT_EQ(event.grad_norm.has_value(), clips);
    };
    const auto spoil = [](data::Batch batch, int64_t epoch, int64_t number) {
      if (epoch == 2 && number == 4) batch.fields[0] = batch.fields[0] * -1000;
      return batch;
    };
    const auto optimizer =
        std::make_shared<optim::SGD>(model->parameters(), optim::SGDOptions{.lr = 1e-4});
    train::Trainer trainer(model, optimizer, small_loss(model),
                           {.train = rows(80), .loading = {.batch_size = 8}, .prepare = spoil},
                           options);
    trainer.run();
    ASSERT_EQ(jumps.size(), clips ? 2u : 1u);
    for (const train::JumpEvent& jump : jumps) {
      EXPECT_EQ(jump.step, 25);
      EXPECT_EQ(jump.epoch, 3);
      EXPECT_EQ(jump.batch, 5);
      EXPECT_GT(jump.value, 20 * jump.usual);
    }
    EXPECT_STREQ(jumps[0].figure, "loss");
    EXPECT_STREQ(jumps.back().figure, clips ? "gradient norm" : "loss");
    ASSERT_EQ(lines.size(), jumps.size());
    EXPECT_EQ(lines[0].rfind(R"({"step":25,"epoch":3,"batch":5,"jump":"loss","value":)", 0), 0u)
        << lines[0];
  }
}

}  // namespace
}  // namespace wick::testing
