#include <gtest/gtest.h>

#include <thread>

#include "wick/tests/core/profile/profiled.h"
#include "wick/tests/dist/ranks.h"
#include "wick/tests/train/small_run.h"

namespace wick::profile {
namespace {

int64_t count(const Recording& found, EventKind kind) {
  return static_cast<int64_t>(of_kind(found, kind).size());
}

TEST(TrainingProfile, HasTheStepsOfATrainer) {
  ProfilerOptions options;
  options.profile_memory = options.with_modules = options.with_flops = true;
  options.schedule = Schedule{.warmup = 2, .active = 5, .repeat = 1};
  Profiler profiler(options);
  testing::SmallRun run({.epochs = 1, .profiler = &profiler});
  profiler.start();
  run.trainer.run();
  profiler.stop();
  const Recording& found = profiler.recording();
  EXPECT_EQ(count(found, EventKind::kStep), 5);
  EXPECT_EQ(count(found, EventKind::kLoaderWait), 5);
  const KeyAverages averages(found, {.module = true});
  std::set<std::string> modules;
  for (const Average& row : averages.rows()) {
    if (row.key == "linear" || row.key == "LinearBackward") modules.insert(row.module);
  }
  EXPECT_EQ(modules, (std::set<std::string>{"0", "4"}));
  const KeyAverages by_name(found);
  for (const char* name : {"linear", "LinearBackward"}) {
    ASSERT_NE(by_name.find(name), nullptr) << name;
    EXPECT_EQ(by_name.find(name)->count, 10) << name;
  }
  EXPECT_EQ(by_name.find("Optimizer.step#adamw.step")->count, 5);
  EXPECT_EQ(by_name.find("Optimizer.zero_grad#adamw.zero_grad")->count, 5);
  double steps = 0;
  for (const Event& step : of_kind(found, EventKind::kStep)) {
    steps += static_cast<double>(step.end_ns - step.start_ns) / 1000;
  }
  EXPECT_NEAR(by_name.self_cpu_time_total() / steps, 1, 0.03);
  // The optimizer has told what memory is for.
  const MemoryTimeline timeline(found, kCpu);
  int64_t parameters = 0;
  for (const Tensor& p : run.model->parameters()) parameters += p.numel() * size_of(p.dtype());
  const MemoryTimeline::Point& last = timeline.points().back();
  EXPECT_EQ(last.bytes[static_cast<size_t>(MemoryUse::kParameter)], parameters);
  EXPECT_GE(last.bytes[static_cast<size_t>(MemoryUse::kOptimizerState)], 2 * parameters);
}

TEST(TrainingProfile, OfOneWithoutModulesHasNone) {
  const auto model = testing::small_model();
  const Tensor x = randn({8, 4});
  EXPECT_EQ(count(recorded({}, [&] { model->call(x); }), EventKind::kModule), 0);
  const Recording found = recorded({.with_modules = true}, [&] { model->call(x); });
  EXPECT_EQ(names_of(of_kind(found, EventKind::kModule)),
            (std::vector<std::string>{"nn.Module: Sequential", "nn.Module: 0", "nn.Module: 1",
                                      "nn.Module: 2", "nn.Module: 3", "nn.Module: 4"}));
}

// A data set whose samples take their time.
struct Slow final : data::Dataset {
  std::vector<data::Field> parts = {{Shape{4}, kFloat32}, {Shape{}, kInt64}};
  int64_t size() const override { return 80; }
  const std::vector<data::Field>& fields() const override { return parts; }
  void read(int64_t, PhiloxStream, std::span<void* const> out) const override {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    for (int i = 0; i < 4; ++i) static_cast<float*>(out[0])[i] = 1;
    *static_cast<int64_t*>(out[1]) = 0;
  }
};

TEST(TrainingProfile, NamesASlowLoader) {
  Profiler profiler({.schedule = Schedule{.warmup = 1, .active = 4, .repeat = 1}});
  const auto model = testing::small_model();
  const auto optimizer = std::make_shared<optim::AdamW>(model->parameters());
  train::Trainer trainer(model, optimizer, testing::small_loss(model),
                         {.train = std::make_shared<Slow>(), .loading = {.batch_size = 8}},
                         {.max_steps = 5, .profiler = &profiler});
  profiler.start();
  trainer.run();
  profiler.stop();
  const Verdict found = judge(profiler.recording());
  EXPECT_EQ(found.bound(), Bound::kData) << found.text();
  EXPECT_EQ(found.steps, 4);
}

// Ranks, loaders with workers and threads of the program's own, all profiled while a profiler
// starts and stops: for ThreadSanitizer.
TEST(TrainingProfile, SeesRanksWorkersAndThreadsAtOnce) {
  std::atomic<bool> ends = false;
  std::atomic<int64_t> rounds = 0;
  std::thread other([&] {
    const Tensor x = randn({64});
    for (; !ends; ++rounds) {
      const RecordFunction scope("beside");
      relu(x);
    }
  });
  Profiler profiler({.record_shapes = true, .profile_memory = true, .with_modules = true});
  profiler.start();
  dist::on_ranks(2, [&](const dist::Group& group) {
    set_num_threads(1);
    const auto model = testing::small_model();
    dist::DistributedDataParallel parallel(model, group);
    data::DataLoader loader(testing::rows(32), {.batch_size = 8, .num_workers = 2, .seed = 1});
    while (const auto batch = loader.next()) {
      const Tensor logits = parallel.pass([&] { return (*model)((*batch)[0]); });
      cross_entropy(logits, (*batch)[1]).backward();
      for (const Tensor& p : model->parameters()) p.set_grad({});
    }
  });
  const int64_t before = rounds;
  while (rounds < before + 2) std::this_thread::yield();  // one of them is whole
  profiler.stop();
  ends = true;
  other.join();
  const Recording& found = profiler.recording();
  EXPECT_EQ(count(found, EventKind::kLoaderWait), 10);
  // Each rank takes part in the same collectives.
  std::map<uint64_t, int> ranks;
  for (const Event& event : of_kind(found, EventKind::kCollective)) {
    ++ranks[event.sequence];
    EXPECT_TRUE(event.is_async);
    EXPECT_GE(event.bytes, 0);
  }
  EXPECT_GE(ranks.size(), 4);
  for (const auto& [number, of] : ranks) EXPECT_EQ(of, 2) << number;
  EXPECT_GE(count(found, EventKind::kCollectiveWait), 8);
  EXPECT_GT(KeyAverages(found).find("beside")->count, 0);
}

}  // namespace
}  // namespace wick::profile
