// What CUPTI tells of GPUs, by what stands for it on simulated ones.
#ifdef WICK_SIM
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "wick/core/base/detail/launch_scope.h"
#include "wick/core/core.h"
#include "wick/kernels/sim/activity.h"
#include "wick/kernels/sim/simulator.h"
#include "wick/tests/core/profile/profiled.h"
#include "wick/tests/harness/scoped_variable.h"

namespace wick::profile {
namespace {

using Json = nlohmann::json;

// With settings of its own, and a process of its own where those of the library last.
class GpuActivities : public ::testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    step();  // gradients exist from now on
  }
  void TearDown() override {
    sim::set_activity_settings({});
    sim::set_engines({});
  }

  // What a step queues, by the calls of launch(): its kernels' names by the op around each.
  void step() const {
    const Tensor loss = sum(relu(mul(x_, w_)));
    loss.backward();
    synchronize(device_);
  }
  // The events of the GPU's work, and of each the name of what it is within.
  static std::multimap<std::string, std::string> launches_of(const Recording& recording,
                                                             EventKind kind) {
    const std::vector<int64_t> parents = parents_of(recording);
    std::multimap<std::string, std::string> found;
    for (size_t i = 0; i < recording.events.size(); ++i) {
      const Event& event = recording.events[i];
      if (event.kind != kind) continue;
      const int64_t parent = parents[i];
      found.emplace(event.name, parent < 0 ? "" : recording.events[size_t(parent)].name);
    }
    return found;
  }
  static int64_t told_kernels(const Recording& recording) {
    int64_t told = 0;
    for (const Event& event : of_kind(recording, EventKind::kKernel)) told += event.sequence > 0;
    return told;
  }
  static Json trace_of(const Recording& recording) {
    const std::string path = ::testing::TempDir() + "/wick_activities.json";
    write_chrome_trace(recording, path);
    return Json::parse(read_file(path, 1 << 24))["traceEvents"];
  }

  const Device device_ = cuda_device();
  const Tensor x_ = randn({64, 33}, kFloat32, device_);
  const Tensor w_ = randn({64, 33}, kFloat32, device_).set_requires_grad();
};

// The order of records, and how many come at once, changes nothing.
TEST_F(GpuActivities, TellOfEachKernelOnceWithinItsOp) {
  const std::multimap<std::string, std::string> expected = {
      {"add", "add_"},   {"fill", "fill_"}, {"mul", "mul"},           {"mul", "mul"},
      {"reduce", "sum"}, {"relu", "relu"},  {"relu", "relu_backward"}};
  for (const int64_t early : {0, 1, 7}) {
    for (const bool shuffled : {false, true}) {
      sim::set_activity_settings({.shuffled = shuffled, .early = early});
      const Recording found = recorded({}, [&] { step(); });
      const auto kernels = launches_of(found, EventKind::kKernel);
      EXPECT_EQ(told_kernels(found), int64_t(kernels.size()));
      EXPECT_EQ(kernels, expected);
      std::set<uint32_t> correlations;
      for (const Event& event : of_kind(found, EventKind::kKernel)) {
        EXPECT_EQ(event.device_ns, 0);  // which a simulated GPU does not know
        EXPECT_EQ(event.device_start, 0);
        const Launch& launch = found.launches.at(event.sequence - 1);
        EXPECT_TRUE(correlations.insert(launch.correlation).second);
        EXPECT_EQ(launch.grid[1], 1);
        EXPECT_GE(launch.block[0], 32);
      }
      EXPECT_EQ(found.dropped_activities, 0);
    }
  }
}

TEST_F(GpuActivities, TellOfStreamsCopiesAndWaits) {
  const Stream other = stream_from_pool(device_);
  const Tensor host = zeros({64, 33});
  const Recording found = recorded({}, [&] {
    {
      const StreamGuard guard(other);
      relu(x_);
      wick::Event mark(device_);
      mark.record(current_stream(device_));
      mark.block({device_, nullptr});
    }
    relu(x_);
    x_.copy_(host);
    synchronize(other);
  });
  const std::vector<Event> kernels = of_kind(found, EventKind::kKernel);
  ASSERT_EQ(kernels.size(), 2);
  EXPECT_EQ(kernels[0].stream, other.handle);
  EXPECT_EQ(kernels[1].stream, nullptr);
  EXPECT_NE(found.launches[kernels[0].sequence - 1].stream,
            found.launches[kernels[1].sequence - 1].stream);
  const auto copies = launches_of(found, EventKind::kDeviceCopy);
  ASSERT_EQ(copies.size(), 1);
  EXPECT_EQ(copies.begin()->first, "Memcpy HtoD (Pageable -> Device)");
  EXPECT_EQ(copies.begin()->second, "Memcpy HtoD");
  EXPECT_EQ(of_kind(found, EventKind::kDeviceCopy)[0].bytes, 64 * 33 * 4);
  const auto waits = launches_of(found, EventKind::kDeviceWait);
  EXPECT_EQ(waits.count("Stream Wait Event"), 1);
  EXPECT_EQ(waits.count("Stream Sync"), 2);  // of the copy, and the program's own
  for (const Event& wait : of_kind(found, EventKind::kDeviceWait)) {
    EXPECT_EQ(wait.device, device_);
  }
}

TEST_F(GpuActivities, LeadFromLaunchesInTheTrace) {
  const Recording found = recorded({}, [&] { step(); });
  const auto kernels = int64_t(of_kind(found, EventKind::kKernel).size());
  std::map<int64_t, Json> begun;
  int64_t ended = 0, moments = 0;
  for (const Json& event : trace_of(found)) {
    if (event["ph"] == "M") continue;
    if (event["cat"] == "kernel") {
      EXPECT_EQ(event["ph"], "i");
      EXPECT_FALSE(event.contains("dur"));
      EXPECT_EQ(event["args"]["grid"].size(), 3);
      EXPECT_GT(event["args"]["correlation"], 0);
      ++moments;
    }
    if (event["cat"] != "launch") continue;
    if (event["ph"] == "s") {
      begun[event["id"]] = event;
      continue;
    }
    ASSERT_TRUE(begun.contains(event["id"]));  // which comes first
    EXPECT_LT(begun[event["id"]]["tid"], 1'000'000);
    EXPECT_GE(event["tid"], 1'000'000);
    ++ended;
  }
  EXPECT_EQ(moments, kernels);
  EXPECT_GE(ended, kernels);
  EXPECT_EQ(ended, int64_t(begun.size()));
}

TEST_F(GpuActivities, TellOfKernelsInReplays) {
  for (int i = 0; i < 2; ++i) exp(relu(x_));
  const Recording found = recorded({}, [&] {
    Tensor y;
    CudaGraph graph(device_, [&] { y = exp(relu(x_)); });
    graph.replay();
    graph.replay();
    synchronize(device_);
  });
  int64_t captured = 0;
  std::map<std::string, int64_t> replayed;
  const std::vector<int64_t> parents = parents_of(found);
  for (size_t i = 0; i < found.events.size(); ++i) {
    const Event& event = found.events[i];
    if (event.kind != EventKind::kKernel) continue;
    const Event& parent = found.events[size_t(parents[i])];
    if (parent.kind != EventKind::kReplay) {
      EXPECT_EQ(event.sequence, 0);  // it never ran
      ++captured;
      continue;
    }
    EXPECT_GT(found.launches.at(event.sequence - 1).graph_node, 0);
    ++replayed[std::string(event.name)];
  }
  EXPECT_EQ(captured, 2);
  EXPECT_EQ(replayed, (std::map<std::string, int64_t>{{"exp", 2}, {"relu", 2}}));
}

TEST_F(GpuActivities, HaveTheTimesOfGpusThatTellThem) {
  sim::set_engines({{.name = "slow", .milliseconds = 2}});
  const Tensor a = randn({64, 64}, kFloat32, device_);
  const Recording found = recorded({}, [&] {
    matmul(a, a);
    matmul(a, a);
    CudaGraph graph(device_, [&] { matmul(a, a); });
    graph.replay();
  });
  std::vector<Event> kernels = of_kind(found, EventKind::kKernel);
  std::erase_if(kernels, [](const Event& e) { return e.name != "cublasLtMatmul" || !e.sequence; });
  ASSERT_EQ(kernels.size(), 3);
  for (const Event& kernel : kernels) {
    EXPECT_EQ(kernel.device_ns, 2'000'000);
    // Kernels began when the session did, on our clock, not on CUPTI's.
    EXPECT_GT(kernel.device_start, found.start_ns - 1'000'000'000);
    EXPECT_LT(kernel.device_start, found.end_ns + 1'000'000'000);
  }
  const KeyAverages averages(found);
  EXPECT_EQ(averages.find("matmul")->device_time_total, 4000);
  EXPECT_EQ(averages.find("CudaGraph.replay")->device_time_total, 2000);
  EXPECT_EQ(averages.self_device_time_total(), 6000);
}

TEST_F(GpuActivities, AreBoundedAndCountedWhereDropped) {
  const Recording whole = recorded({}, [&] { step(); });
  sim::set_activity_settings({.drop_every = 3});
  const Recording found = recorded({}, [&] { step(); });
  EXPECT_GT(found.dropped_activities, 0);
  // Launches are there, without what CUPTI dropped; kernels may have lost theirs.
  auto launches = launches_of(found, EventKind::kKernel);
  std::erase_if(launches, [](const auto& launch) { return launch.second.empty(); });
  EXPECT_EQ(launches, launches_of(whole, EventKind::kKernel));
  EXPECT_LT(found.launches.size(), whole.launches.size());
  const std::string told =
      concat("Records of GPU work that CUPTI dropped: ", found.dropped_activities, "\n");
  EXPECT_NE(KeyAverages(found).table().find(told), std::string::npos);
  EXPECT_EQ(KeyAverages(whole).table().find("CUPTI"), std::string::npos);
  sim::set_activity_settings({});

  const Recording small = recorded({.max_events = 512}, [&] {
    for (int i = 0; i < 600; ++i) relu(x_);
    synchronize(device_);
  });
  EXPECT_LE(small.launches.size(), 512);
  EXPECT_GE(small.dropped_activities, 600 - 512);
  EXPECT_LE(small.events.size(), 2 * 512);
}

TEST_F(GpuActivities, BelongToTheThreadThatLaunchedThem) {
  sim::set_activity_settings({.shuffled = true, .early = 5});
  const Recording found = recorded({}, [&] {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        const StreamGuard guard(stream_from_pool(device_));
        for (int n = 0; n < 20; ++n) i % 2 == 0 ? relu(x_) : exp(x_);
        synchronize(current_stream(device_));
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  const auto kernels = launches_of(found, EventKind::kKernel);
  EXPECT_EQ(kernels.size(), 80);
  EXPECT_EQ(told_kernels(found), 80);
  for (const auto& [kernel, op] : kernels) EXPECT_EQ(kernel, op);
  std::map<const void*, std::set<uint32_t>> threads_of;
  for (const Event& event : of_kind(found, EventKind::kKernel)) {
    threads_of[event.stream].insert(event.thread);
  }
  EXPECT_EQ(threads_of.size(), 4);
  for (const auto& [stream, threads] : threads_of) EXPECT_EQ(threads.size(), 1);
}

// Records of waits name contexts alone, and so few streams that two GPUs have one number.
TEST_F(GpuActivities, TellGpusApart) {
  const testing::ScopedVariable two("WICK_SIM_DEVICES", "2");
  EXPECT_EXIT(
      {
        const Tensor y = ones({3}, kFloat32, cuda_device(1));
        const Recording found = recorded({}, [&] {
          relu(x_);
          exp(y);
          synchronize(current_stream(y.device()));
        });
        std::string told;
        for (const Event& event : found.events) {
          if (event.sequence > 0) told += concat(event.name, " on ", event.device, ", ");
        }
        std::fputs(told.c_str(), stderr);
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(0), "^relu on cuda:0, exp on cuda:1, Stream Sync on cuda:1, $");
}

// A step recorded without CUPTI: events, as ever, and no word. Ends the process.
[[noreturn]] void end_without_cupti(const std::function<void()>& work, int64_t told) {
  const Recording found = recorded({}, work);
  const std::vector<Event> kernels = of_kind(found, EventKind::kKernel);
  int64_t count = 0;
  for (const Event& event : kernels) count += event.sequence > 0;
  std::_Exit(!kernels.empty() && count == told && found.launches.empty() ? 0 : 1);
}

TEST_F(GpuActivities, AreLeftOutWithoutCupti) {
  for (const char* missing : {"libcupti", "cuptiActivityFlushAll"}) {
    EXPECT_EXIT(
        {
          sim::set_activity_settings({.missing = missing});
          end_without_cupti([&] { step(); }, 0);
        },
        ::testing::ExitedWithCode(0), "^$");
  }
}

TEST_F(GpuActivities, SayOnceThatCuptiFailed) {
  for (const char* failing :
       {"cuptiActivityEnable", "cuptiGetTimestamp", "cuptiActivityRegisterCallbacks"}) {
    EXPECT_EXIT(
        {
          sim::set_activity_settings({.failing = failing});
          recorded({}, [&] { step(); });
          end_without_cupti([&] { step(); }, 0);
        },
        ::testing::ExitedWithCode(0),
        concat(
            "^wick: profiler: CUPTI: ", failing,
            " failed: CUPTI_ERROR_NOT_INITIALIZED; events take the times of kernels instead\n$"));
  }
}

// The times are lost, not the events.
TEST_F(GpuActivities, KeepEventsWhereCuptiFailsAtTheEnd) {
  EXPECT_EXIT(
      {
        const auto work = [&] {
          step();
          sim::set_activity_settings({.failing = "cuptiActivityFlushAll"});
        };
        end_without_cupti(work, 0);
      },
      ::testing::ExitedWithCode(0),
      "^wick: profiler: CUPTI: cuptiActivityFlushAll failed: CUPTI_ERROR_NOT_INITIALIZED; some "
      "kernels have no times\n$");
}

// After a session nothing is kept, and calls reach CUPTI no more.
TEST_F(GpuActivities, EndWithTheSession) {
  const Recording first = recorded({}, [&] { relu(x_); });
  EXPECT_EQ(wanted() & kWantsActivities, 0);
  relu(x_);
  synchronize(device_);
  const Recording second = recorded({}, [&] { exp(x_); });
  EXPECT_EQ(launches_of(first, EventKind::kKernel).count("relu"), 1);
  EXPECT_EQ(launches_of(second, EventKind::kKernel),
            (std::multimap<std::string, std::string>{{"exp", "exp"}}));
  EXPECT_EQ(second.launches.size(), 1);
  const Recording host_alone = recorded({.cuda = false}, [&] { relu(x_); });
  EXPECT_TRUE(host_alone.launches.empty());
}

}  // namespace
}  // namespace wick::profile
#endif
