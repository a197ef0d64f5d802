// Checkpoints that are written while the run goes on, and what becomes of a run that cannot.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "wick/core/file.h"
#include "wick/tests/dist/ranks.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/temporary_folder.h"
#include "wick/tests/train/small_run.h"
#include "wick/train/detail/checkpoint_writer.h"
#include "wick/train/recipe.h"

namespace wick::testing {
namespace {

namespace fs = std::filesystem;
using train::CheckpointWriter;
using train::Outcome;
using train::TrainerOptions;

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

TEST(CheckpointWriter, WritesWhatWasThereWhenItWasAsked) {
  for (const Device device : devices()) {
    const TemporaryFolder folder;
    CheckpointWriter writer(/*keep=*/3);
    const Tensor x = zeros({1000}, kFloat32, device);
    for (int64_t step = 1; step <= 100; ++step) {
      x.fill_(static_cast<double>(step));
      Checkpoint checkpoint;
      checkpoint.step = step;
      checkpoint.parts = {{"weights", {{"x", x}}}, {"empty", {}}};
      writer.start(folder.path(), checkpoint);
      x.fill_(-1);  // while it may be written
      if (step % 10 != 0) continue;
      writer.wait();
      const auto newest = CheckpointStore(folder.path()).load_newest();
      EXPECT_EQ(newest->step, step);
      EXPECT_EQ(newest->parts.count("empty"), 1u);
      const std::vector<double> values =
          newest->parts.at("weights").at("x").to(kFloat64).to_vector<double>();
      EXPECT_EQ(values, std::vector<double>(1000, static_cast<double>(step)));
    }
    const auto written = writer.take_written();
    ASSERT_EQ(written.size(), 100u);
    for (size_t i = 0; i < written.size(); ++i) {
      EXPECT_EQ(written[i].step, static_cast<int64_t>(i) + 1);
      EXPECT_EQ(written[i].error, "");
    }
    EXPECT_TRUE(writer.take_written().empty());
    EXPECT_EQ(names_in(folder.path()), (std::set<std::string>{"step-100", "step-98", "step-99"}));
  }
}

TEST(CheckpointWriter, TakesTheHostWhereTheDeviceHasNoMemory) {
  if (!cuda_is_available()) GTEST_SKIP() << "no GPU";
  const TemporaryFolder folder;
  CheckpointWriter writer(2);
  const Tensor x = full({1000}, 3, kFloat32, kGpu);
  allocator(kGpu).fail_allocation(1);
  writer.start(folder.path(), {.step = 1, .parts = {{"weights", {{"x", x}}}}});
  x.fill_(-1);
  writer.wait();
  allocator(kGpu).fail_allocation(0);
  const auto newest = CheckpointStore(folder.path()).load_newest();
  ASSERT_TRUE(newest.has_value());
  EXPECT_EQ(newest->parts.at("weights").at("x").to_vector<float>(), std::vector<float>(1000, 3));
}

TEST(CheckpointWriter, CountsNoDamagedOneAmongThoseItKeeps) {
  const TemporaryFolder folder;
  const auto checkpoint = [](int64_t step) {
    return Checkpoint{.step = step, .parts = {{"weights", {{"x", ones({1})}}}}};
  };
  for (const int64_t step : {4, 5}) CheckpointStore(folder.path()).save(checkpoint(step));
  write_file(folder.path("step-5/manifest.json"), "{}");
  CheckpointWriter writer(2);
  writer.trust(4);
  writer.start(folder.path(), checkpoint(6));
  writer.wait();
  EXPECT_EQ(names_in(folder.path()), (std::set<std::string>{"step-4", "step-5", "step-6"}));
  writer.start(folder.path(), checkpoint(7));
  writer.wait();
  EXPECT_EQ(names_in(folder.path()), (std::set<std::string>{"step-6", "step-7"}));
}

TEST(CheckpointWriter, TellsWhatWentWrong) {
  const TemporaryFolder folder;
  write_file(folder.path("file"), "");
  CheckpointWriter writer(2);
  writer.start(folder.path("file"), {.step = 1, .parts = {{"weights", {{"x", ones({1})}}}}});
  writer.wait();
  const auto written = writer.take_written();
  ASSERT_EQ(written.size(), 1u);
  EXPECT_NE(written[0].error.find("the earlier ones are untouched"), std::string::npos);
}

TEST(Saving, GoesByTheClock) {
  const TemporaryFolder folder;
  TrainerOptions options{.epochs = 1, .folder = folder.path("run")};
  options.checkpoint_seconds = 1e-9;
  std::vector<int64_t> steps;
  options.on_checkpoint = [&](int64_t step, const std::string&) { steps.push_back(step); };
  SmallRun(options).trainer.run();
  EXPECT_EQ(steps, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
}

TEST(Saving, RanksGoByOneClock) {
  const TemporaryFolder folder;
  std::vector<int64_t> steps;
  dist::on_ranks(2, [&](const dist::Group& group) {
    TrainerOptions options{.epochs = 1, .folder = folder.path("run")};
    options.ranks = train::Ranks(group, group->rank());
    options.checkpoint_seconds = group->rank() == 0 ? 1e-9 : 1e9;
    options.on_checkpoint = [&](int64_t step, const std::string&) { steps.push_back(step); };
    auto model = std::make_shared<nn::Sequential>(nn::Linear(4, 16), nn::ReLU(), nn::Linear(16, 4));
    auto optimizer =
        std::make_shared<optim::AdamW>(model->parameters(), optim::AdamWOptions{.lr = 0.01});
    train::Trainer(model, optimizer, small_loss(model),
                   {.train = rows(80), .loading = {.batch_size = 8, .seed = 5}}, options)
        .run();
  });
  EXPECT_EQ(steps.size(), 11u);
}

TEST(Saving, IntervalsAreStepsOrMinutes) {
  EXPECT_EQ(train::parse_interval("500").steps, 500);
  EXPECT_EQ(train::parse_interval("1.5min").seconds, 90);
  EXPECT_FALSE(train::parse_interval("").steps || train::parse_interval("").seconds);
  for (const char* word : {"0", "-1", "1.5", "min", "0min", "5h", "five", "1e99"}) {
    EXPECT_THROW(train::parse_interval(word), InvalidOption) << word;
  }
}

// The test losses of a run's epochs are `losses`.
train::LossFunction losses_by_epoch(std::vector<double> losses) {
  const auto batches = std::make_shared<size_t>(0);
  return [losses, batches](const data::Batch&) {
    const size_t epoch = (*batches)++ / 4;  // 30 samples in batches of 8
    return train::BatchLoss{scalar_tensor(losses[std::min(epoch, losses.size() - 1)]), {}};
  };
}

TEST(Saving, TheBestStays) {
  const TemporaryFolder folder;
  TrainerOptions options{.epochs = 2, .folder = folder.path("run"), .keep_best = true};
  options.evaluation = losses_by_epoch({3, 4});
  SmallRun(options).trainer.run();
  options.epochs = 5;
  options.evaluation = losses_by_epoch({5, 3.5, 6});
  SmallRun longer(options);
  EXPECT_TRUE(longer.trainer.resume());
  longer.trainer.run();
  EXPECT_EQ(longer.trainer.best(), (std::pair<int64_t, double>{10, 3}));
  EXPECT_EQ(names_in(folder.path("run/checkpoints")),
            (std::set<std::string>{"step-10", "step-40", "step-50"}));
}

// Whenever a step is told as saved, it or a newer one loads.
TEST(Saving, WhatIsToldAsSavedLoads) {
  const TemporaryFolder folder;
  TrainerOptions options{.epochs = 3, .folder = folder.path("run"), .checkpoint_every = 1};
  int64_t told = 0;
  options.on_checkpoint = [&](int64_t step, const std::string&) {
    const CheckpointStore store(folder.path("run/checkpoints"));
    std::string rejected;
    const auto newest = store.load_newest(&rejected);
    ASSERT_TRUE(newest.has_value());
    EXPECT_GE(newest->step, step);
    EXPECT_EQ(rejected, "");
    ++told;
  };
  SmallRun(options).trainer.run();
  EXPECT_EQ(told, 31);
}

// A run of two epochs of 10 steps whose checkpoints cannot be written from step 3 on, until it has
// told of as many `failures`; 0: to the end.
struct Blocked {
  explicit Blocked(size_t failures, bool stops = false) {
    options.folder = folder.path("run");
    options.stop_on_failed_save = stops;
    options.on_step = [this, failures](const train::StepEvent& event) {
      // The thread that writes gets its time before the run is over.
      if (event.step > 10 && problems.size() < failures) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
      if (event.step != 3) return;
      fs::rename(place(), folder.path("aside"));
      write_file(place(), "");
    };
    options.on_failed_save = [this, failures](const std::string& problem) {
      problems.push_back(problem);
      if (problems.size() != failures) return;
      fs::remove(place());
      fs::rename(folder.path("aside"), place());
    };
  }
  std::string place() const { return folder.path("run/checkpoints"); }

  TemporaryFolder folder;
  TrainerOptions options{.epochs = 2};
  std::vector<std::string> problems;
};

TEST(Saving, ARunThatCannotSaveGoesOn) {
  Blocked blocked(/*failures=*/1);
  EXPECT_EQ(SmallRun(blocked.options).trainer.run(), Outcome::kComplete);
  ASSERT_EQ(blocked.problems.size(), 1u);  // at the end of the first epoch
  EXPECT_NE(blocked.problems[0].find("checkpoint: could not be written"), std::string::npos);
  EXPECT_EQ(names_in(blocked.folder.path("run/checkpoints")),
            (std::set<std::string>{"step-0", "step-20"}));
}

TEST(Saving, ARunThatCannotSaveAtItsEndFails) {
  Blocked blocked(/*failures=*/0);
  EXPECT_THROW(SmallRun(blocked.options).trainer.run(), FileError);
  EXPECT_EQ(blocked.problems.size(), 1u);
  std::ifstream metrics(blocked.folder.path("run/metrics.jsonl"));
  int64_t lines = 0;
  for (std::string line; std::getline(metrics, line);) ++lines;
  EXPECT_EQ(lines, 22);  // all steps and evaluations
}

TEST(Saving, ARunFailsAtOnceIfItIsAskedTo) {
  Blocked blocked(/*failures=*/0, /*stops=*/true);
  blocked.options.epochs = 4;
  SmallRun run(blocked.options);
  EXPECT_THROW(run.trainer.run(), FileError);
  EXPECT_LE(run.trainer.step(), 20);  // no checkpoint is begun before the one before is judged
  EXPECT_TRUE(blocked.problems.empty());
}

TEST(Saving, ARunTriesAgainAfterAWhile) {
  Blocked blocked(/*failures=*/2);  // at the end of the first epoch, and once more
  blocked.options.retry_seconds = 1e-9;
  std::set<int64_t> saved;
  blocked.options.on_checkpoint = [&](int64_t step, const std::string&) { saved.insert(step); };
  EXPECT_EQ(SmallRun(blocked.options).trainer.run(), Outcome::kComplete);
  EXPECT_EQ(blocked.problems.size(), 2u);
  saved.insert(20);  // told of or not: nothing comes after
  EXPECT_LT(*saved.upper_bound(10), 20);
}

TEST(Saving, ARunWithoutMemoryForACopyGoesOn) {
  const TemporaryFolder folder;
  TrainerOptions options{.epochs = 2, .folder = folder.path("run")};
  options.on_epoch = [&](const train::EpochEvent& event) {
    if (event.epoch == 1) allocator(kCpu).fail_allocation(1);
  };
  std::vector<std::string> problems;
  options.on_failed_save = [&](const std::string& problem) { problems.push_back(problem); };
  SmallRun run(options);
  EXPECT_EQ(run.trainer.run(), Outcome::kComplete);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_NE(problems[0].find("out of memory"), std::string::npos) << problems[0];
  EXPECT_EQ(names_in(folder.path("run/checkpoints")), (std::set<std::string>{"step-0", "step-20"}));
}

TEST(Saving, ARunThatCannotSavePlansGoesOn) {
  set_benchmark(true);
  for (const int64_t until : {15, 1000}) {
    const TemporaryFolder folder;
    const std::string plans = folder.path("run/plans.txt");
    TrainerOptions options{.epochs = 2, .folder = folder.path("run")};
    options.on_step = [&](const train::StepEvent& event) {
      if (event.step == 3) fs::remove(plans), fs::create_directory(plans);
      if (event.step == until) fs::remove(plans);
    };
    std::vector<std::string> problems;
    options.on_failed_save = [&](const std::string& problem) { problems.push_back(problem); };
    SmallRun run(options);
    if (until < 20) {
      EXPECT_EQ(run.trainer.run(), Outcome::kComplete);
    } else {
      EXPECT_THROW(run.trainer.run(), FileError);
    }
    ASSERT_EQ(problems.size(), 1u);
    EXPECT_NE(problems[0].find("plans.txt"), std::string::npos) << problems[0];
  }
  set_benchmark(false);
}

TEST(Saving, MetricsThatCannotBeWrittenWait) {
  const TemporaryFolder folder;
  fs::create_directory(folder.path("run"));
  fs::create_symlink("/dev/full", folder.path("run/metrics.jsonl"));
  TrainerOptions options{.epochs = 1, .folder = folder.path("run")};
  std::vector<std::string> problems;
  options.on_failed_save = [&](const std::string& problem) { problems.push_back(problem); };
  SmallRun run(options);
  EXPECT_THROW(run.trainer.run(), FileError);
  EXPECT_EQ(run.trainer.step(), 10);
  EXPECT_EQ(problems.size(), 1u);
}

}  // namespace
}  // namespace wick::testing
