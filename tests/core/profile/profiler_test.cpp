#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "wick/tests/core/profile/profiled.h"

namespace wick::profile {
namespace {

using Names = std::vector<std::string>;

Tensor leaf(const Shape& shape) {
  Tensor w = randn(shape);
  w.set_requires_grad();
  return w;
}

TEST(Profiler, RecordsOpsForwardAndBackward) {
  const Tensor x = randn({4, 3}), w = leaf({3, 2});
  const Recording found = recorded({}, [&] { small_step(x, w); });
  std::vector<Event> ops = of_kind(found, EventKind::kOp);
  std::erase_if(ops, [](const Event& event) { return event.sequence == 0; });
  ASSERT_EQ(ops.size(), 3);  // those that are recorded for backward
  EXPECT_EQ(ops[0].name, "matmul");
  EXPECT_EQ(ops[1].name, "relu");
  EXPECT_EQ(ops[2].name, "sum");
  const std::vector<Event> backward = of_kind(found, EventKind::kBackward);
  EXPECT_EQ(names_of(backward),
            (Names{"SumBackward", "ReluBackward", "MatmulBackward", "AccumulateGrad"}));
  for (const size_t i : {0, 1, 2}) {
    EXPECT_EQ(ops[i].sequence, backward[2 - i].sequence) << ops[i].name;
  }
  EXPECT_EQ(backward[3].sequence, 0);  // a leaf has no operation
  for (const Event& event : found.events) {
    EXPECT_LE(found.start_ns, event.start_ns);
    EXPECT_LE(event.start_ns, event.end_ns);
    EXPECT_LE(event.end_ns, found.end_ns);
  }
}

TEST(Profiler, RecordsNothingUnlessItRuns) {
  const Tensor x = randn({4, 3});
  EXPECT_EQ(wanted(), 0U);
  Profiler profiler;
  relu(x);
  profiler.start();
  profiler.stop();
  relu(x);
  EXPECT_TRUE(profiler.recording().events.empty());
  EXPECT_EQ(wanted(), 0U);
}

TEST(Profiler, NestsWhatIsWithinAnother) {
  const Tensor x = randn({4, 3});
  const Recording found = recorded({}, [&] {
    const RecordFunction outer("outer");
    {
      const RecordFunction inner("inner"), deeper("deeper");
      relu(x);
    }
    relu(x);
  });
  const std::vector<int64_t> parents = parents_of(found);
  EXPECT_EQ(names_of(found.events), (Names{"outer", "inner", "deeper", "relu", "relu"}));
  EXPECT_EQ(parents, (std::vector<int64_t>{-1, 0, 1, 2, 0}));
  const std::vector<int64_t> self = self_times(found, parents);
  int64_t sum = 0;
  for (const int64_t ns : self) {
    EXPECT_GE(ns, 0);
    sum += ns;
  }
  EXPECT_EQ(sum, found.events[0].end_ns - found.events[0].start_ns);
}

TEST(Profiler, RecordsAllThreads) {
  Profiler profiler;
  std::thread([&] { profiler.start(); }).join();  // neither start nor stop belongs to a thread
  const Tensor x = randn({4, 3});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 2000; ++k) {
        const RecordFunction scope("work");
        relu(x);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::thread([&] { profiler.stop(); }).join();
  const Recording& found = profiler.recording();
  const std::vector<int64_t> parents = parents_of(found);
  int64_t works = 0, ops = 0;
  for (size_t i = 0; i < found.events.size(); ++i) {
    if (found.events[i].name == "work") ++works;
    if (found.events[i].name != "relu") continue;
    ++ops;
    ASSERT_GE(parents[i], 0);
    EXPECT_EQ(found.events[static_cast<size_t>(parents[i])].name, "work");
  }
  EXPECT_EQ(works, 8000);
  EXPECT_EQ(ops, 8000);
  EXPECT_EQ(found.dropped, 0);
}

TEST(Profiler, StopsWhileOthersGoOn) {
  const Tensor x = randn({4, 3});
  std::atomic<bool> ends = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!ends) {
        const RecordFunction scope("work");
        relu(x);
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    const Recording found = recorded({.max_events = 4096}, [&] { relu(x); });
    for (const Event& event : found.events) {
      EXPECT_TRUE(event.name == "work" || event.name == "relu") << event.name;
    }
  }
  ends = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(Profiler, KeepsSoManyEventsAndCountsTheRest) {
  const Tensor x = randn({2});
  const Recording found = recorded({.max_events = 1000}, [&] {
    for (int i = 0; i < 5000; ++i) relu(x);
  });
  EXPECT_GE(found.events.size(), 1000);
  EXPECT_LT(found.events.size(), 2000);
  EXPECT_EQ(static_cast<int64_t>(found.events.size()) + found.dropped, 5000);
}

TEST(Profiler, RecordsShapesAndFlops) {
  const Tensor x = randn({4, 3}), w = leaf({3, 2});
  const Recording plain = recorded({}, [&] { matmul(x, w); });
  EXPECT_EQ(plain.events[0].shapes, "");
  EXPECT_EQ(plain.events[0].flops, 0);
  const Recording found =
      recorded({.record_shapes = true, .with_flops = true}, [&] { matmul(x, w); });
  EXPECT_EQ(found.events[0].shapes, "[[4, 3], [3, 2]]");
  EXPECT_EQ(found.events[0].flops, 2 * 4 * 3 * 2);
  EXPECT_EQ(found.events[0].bytes, 4 * (4 * 3 + 3 * 2 + 4 * 2));
}

TEST(Profiler, RecordsMemory) {
  const Tensor x = randn({1024});
  const Recording found = recorded({.profile_memory = true}, [&] { relu(x); });
  const std::vector<Event> taken = of_kind(found, EventKind::kAllocation);
  const std::vector<Event> freed = of_kind(found, EventKind::kFree);
  ASSERT_EQ(taken.size(), 1);
  ASSERT_EQ(freed.size(), 1);
  EXPECT_EQ(taken[0].bytes, 4096);
  EXPECT_EQ(taken[0].address, freed[0].address);
  EXPECT_EQ(taken[0].allocated - freed[0].allocated, 4096);
}

TEST(Profiler, FollowsASchedule) {
  const Tensor x = randn({2});
  std::vector<Names> steps;
  ProfilerOptions options;
  options.schedule = Schedule{.wait = 1, .warmup = 1, .active = 2, .repeat = 2, .skip_first = 1};
  options.on_trace_ready = [&](Profiler& profiler) {
    steps.push_back(names_of(of_kind(profiler.recording(), EventKind::kStep)));
    EXPECT_EQ(of_kind(profiler.recording(), EventKind::kOp).size(), 2);
  };
  Profiler profiler(options);
  profiler.start();
  for (int i = 0; i < 20; ++i) {
    relu(x);
    EXPECT_EQ(wanted() != 0, i == 2 || i == 3 || i == 4 || i == 6 || i == 7 || i == 8) << i;
    profiler.step();
  }
  profiler.stop();
  EXPECT_EQ(steps, (std::vector<Names>{{"ProfilerStep#3", "ProfilerStep#4"},
                                       {"ProfilerStep#7", "ProfilerStep#8"}}));
}

TEST(Profiler, KeepsAnUnfinishedCycle) {
  int ready = 0;
  Profiler profiler({.schedule = Schedule{.warmup = 1, .active = 5},
                     .on_trace_ready = [&](Profiler&) { ++ready; }});
  profiler.start();
  profiler.step();
  relu(randn({2}));
  profiler.stop();
  EXPECT_EQ(ready, 1);
  profiler.start();  // and anew: a warm-up alone is nothing
  profiler.stop();
  EXPECT_EQ(ready, 1);
}

TEST(Profiler, RefusesBadUse) {
  Profiler profiler, other;
  EXPECT_THROW(profiler.stop(), Error);
  EXPECT_THROW(profiler.step(), Error);
  EXPECT_THROW(profiler.recording(), Error);
  profiler.start();
  EXPECT_THROW(profiler.start(), Error);
  EXPECT_THROW(other.start(), Error);
  relu(randn({2}));
  profiler.stop();
  EXPECT_FALSE(profiler.recording().events.empty());  // the second start() harmed nothing
  other.start();
  other.stop();
  EXPECT_THROW(Profiler({.schedule = Schedule{.active = 0}}), Error);
  EXPECT_THROW(Profiler({.schedule = Schedule{.wait = -1}}), Error);
  EXPECT_THROW(Profiler({.cpu = false, .cuda = false}), Error);
}

TEST(Profiler, EndsWithItsObject) {
  {
    Profiler profiler;
    profiler.start();
  }
  EXPECT_EQ(wanted(), 0U);
  Profiler next;
  next.start();
  next.stop();
}

TEST(RecordFunction, MayEndElsewhereOrLater) {
  auto open = std::make_unique<std::optional<RecordFunction>>();
  const Recording first = recorded({}, [&] {
    open->emplace("moved");
    std::thread([&] { open->reset(); }).join();
    open->emplace("left open");
  });
  ASSERT_EQ(names_of(first.events), Names{"moved"});
  EXPECT_TRUE(first.events[0].is_async);
  const Recording second = recorded({}, [&] { open->reset(); });
  EXPECT_TRUE(second.events.empty());  // it began in another recording
}

TEST(RecordFunction, KeepsAnyName) {
  const std::string name("a \"name\"\n\0 of <bytes> \xff", 22);
  const Recording found = recorded({}, [&] { const RecordFunction scope{std::string(name)}; });
  EXPECT_EQ(found.events[0].name, name);
}

}  // namespace
}  // namespace wick::profile
