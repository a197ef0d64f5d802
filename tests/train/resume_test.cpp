// What a run finds when it goes on, and what it says of it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "wick/core/file.h"
#include "wick/core/plans.h"
#include "wick/data/fingerprint.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/temporary_folder.h"
#include "wick/tests/train/small_run.h"
#include "wick/train/classifier.h"

namespace wick::testing {
namespace {

namespace fs = std::filesystem;
using train::Outcome;
using train::TrainerOptions;

TEST(Resume, RefusesResultsWithoutACheckpoint) {
  for (const char* gone : {"", "metrics.jsonl", "weights.safetensors"}) {
    const TemporaryFolder folder;
    const TrainerOptions options{.epochs = 1, .folder = folder.path("run")};
    SmallRun(options).trainer.run();
    fs::remove_all(folder.path("run/checkpoints"));
    if (*gone != 0) fs::remove(folder.path("run/") + gone);
    EXPECT_EQ(error_of([&] { SmallRun(options).trainer.resume(); }),
              "train: resume: " + options.folder +
                  " has metrics or weights but no checkpoint: to begin anew, remove metrics.jsonl "
                  "and weights.safetensors, or name another folder");
    fs::remove(folder.path("run/metrics.jsonl"));
    fs::remove(folder.path("run/weights.safetensors"));
    SmallRun anew(options);
    EXPECT_FALSE(anew.trainer.resume());
  }
}

TEST(Resume, GoesOnFromTheBeginningWhereNothingElseWasSaved) {
  const TemporaryFolder folder;
  TrainerOptions options{.epochs = 1};
  SmallRun whole(options);
  whole.trainer.run();
  options.folder = folder.path("run");
  TrainerOptions broken = options;
  broken.on_step = [](const train::StepEvent& event) {
    if (event.step == 3) throw Error("the process ends here");
  };
  EXPECT_THROW(SmallRun(broken).trainer.run(), Error);
  SmallRun again(options);
  EXPECT_TRUE(again.trainer.resume());
  EXPECT_EQ(again.trainer.step(), 0);
  again.trainer.run();
  EXPECT_EQ(again.weights(), whole.weights());
}

TEST(Resume, PlansAreSavedBeforeACheckpoint) {
  struct Measured {
    Measured() { set_benchmark(true); }
    ~Measured() {
      set_benchmark(false);
      plans_clear();
    }
  } measured;
  const TemporaryFolder folder;
  TrainerOptions options{.epochs = 1, .folder = folder.path("run"), .checkpoint_every = 2};
  int64_t checkpoints = 0;
  options.on_checkpoint = [&](int64_t, const std::string&) {
    ++checkpoints;
    EXPECT_TRUE(fs::exists(folder.path("run/plans.txt")));
  };
  SmallRun(options).trainer.run();
  EXPECT_EQ(checkpoints, 6);
}

TEST(Resume, AFolderThatIsRenamedStaysWhole) {
  const TemporaryFolder folder;
  TrainerOptions options{.epochs = 3, .folder = folder.path("run")};
  options.on_step = [&](const train::StepEvent& event) {
    if (event.step != 5) return;
    fs::rename(folder.path("run"), folder.path("moved"));
    fs::create_directory(folder.path("run"));
  };
  SmallRun run(options);
  EXPECT_EQ(run.trainer.run(), Outcome::kComplete);
  EXPECT_EQ(run.trainer.folder(), fs::canonical(folder.path("moved")).string());
  EXPECT_TRUE(fs::is_empty(folder.path("run")));
  EXPECT_TRUE(fs::exists(folder.path("moved/weights.safetensors")));
  EXPECT_TRUE(fs::exists(folder.path("moved/checkpoints/step-30")));
  EXPECT_TRUE(fs::exists(folder.path("moved/checkpoints/step-20")));
}

TEST(Resume, AFolderThatIsRemovedIsAnError) {
  const TemporaryFolder folder;
  TrainerOptions options{.epochs = 1, .folder = folder.path("run")};
  options.on_step = [&](const train::StepEvent& event) {
    if (event.step == 5) fs::remove_all(folder.path("run"));
  };
  EXPECT_NE(error_of([&] { SmallRun(options).trainer.run(); }).find("was removed"),
            std::string::npos);
}

train::Recipe resolved(const train::Recipe& recipe = {}) {
  train::Recipe full = recipe;
  full.run.threads = 1;
  full.record = {.world_size = 1, .data = "a"};
  return train::resolve(full);
}

TEST(Resume, SaysWhatChangesTheBytes) {
  const train::Recipe before = resolved();
  EXPECT_TRUE(train::changes_since(before, before).empty());
  train::Recipe now = before;
  now.run.log_every = 7;
  now.run.checkpoint_every = "3";
  now.loading.workers = 3;
  now.data.dir = "elsewhere";
  EXPECT_TRUE(train::changes_since(now, before).empty());
  now.run.epochs = 9;
  now.run.threads = 2;
  now.run.max_steps = 4;
  now.optimizer.lr = 0.25;
  now.record = {.world_size = 2, .data = "b"};
  EXPECT_EQ(train::changes_since(now, before),
            (std::vector<std::string>{"lr: was 0.01, is 0.25", "epochs: was 5, is 9",
                                      "max_steps: was none, is 4", "threads: was 1, is 2",
                                      "ranks: was 1, is 2", "the data is not what it was"}));
  train::Recipe old = before;  // of before this was written
  old.run.threads.reset();
  old.record = {};
  EXPECT_TRUE(train::changes_since(before, old).empty());
}

TEST(Resume, OtherDataHasAnotherFingerprint) {
  const auto print = [](const std::shared_ptr<data::Dataset>& train) {
    return data::fingerprint({.train = train, .test = rows(9, 4), .class_names = {"a", "b"}});
  };
  const std::string first = print(rows(200));
  EXPECT_EQ(first.size(), 32u);
  EXPECT_EQ(print(rows(200)), first);
  EXPECT_NE(print(rows(201)), first);
  EXPECT_NE(print(rows(200, 2)), first);
  const auto open = [] { return data::open_images("shapes10", ""); };
  EXPECT_EQ(data::fingerprint(open()), data::open_data("shapes10", "").fingerprint);
}

TEST(Resume, AnotherMachineIsSaid) {
  const TemporaryFolder folder;
  const auto run = train::RunFolder::of_other(folder.path());
  run.write_config("{}");
  EXPECT_TRUE(run.environment_changes().empty());
  write_file(run.environment_file(), R"({"time": "then", "machine": "an abacus", "x": 1})");
  const std::vector<std::string> changes = run.environment_changes();
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_TRUE(changes[0].starts_with("machine: was an abacus, is "));
  write_file(run.environment_file(), "damaged");
  EXPECT_TRUE(run.environment_changes().empty());
}

}  // namespace
}  // namespace wick::testing
