#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "wick/core/core.h"
#include "wick/tests/core/profile/profiled.h"
#ifdef WICK_SIM
#include "wick/kernels/sim/simulator.h"
#endif

namespace wick::profile {
namespace {

class GpuProfile : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  }
  void TearDown() override { set_sync_debug_mode(SyncDebugMode::kDefault); }
  const Device device_ = cuda_device();
};

TEST_F(GpuProfile, HasKernelsByStreamWithinTheirOps) {
  const Tensor x = randn({64, 64}, kFloat32, device_);
  const Stream other = stream_from_pool(device_);
  const bool simulated = device_properties(device_).simulated;
  const Recording found = recorded({}, [&] {
    relu(x);
    {
      const StreamGuard guard(other);
      relu(x);
    }
    synchronize(device_);
  });
  const std::vector<int64_t> parents = parents_of(found);
  std::set<const void*> streams;
  int64_t kernels = 0;
  for (size_t i = 0; i < found.events.size(); ++i) {
    const Event& event = found.events[i];
    if (event.kind != EventKind::kKernel) continue;
    ++kernels;
    streams.insert(event.stream);
    EXPECT_EQ(event.device_ns == 0, simulated);  // which has no speed
    ASSERT_GE(parents[i], 0);
    EXPECT_EQ(found.events[static_cast<size_t>(parents[i])].name, "relu");
  }
  EXPECT_EQ(kernels, 2);
  EXPECT_EQ(streams.size(), 2);
  EXPECT_EQ(of_kind(found, EventKind::kSynchronization).size(), 1);
  EXPECT_EQ(of_kind(recorded({.cuda = false}, [&] { relu(x); }), EventKind::kKernel).size(), 0);
  const Recording alone = recorded({.cpu = false}, [&] { relu(x); });
  EXPECT_EQ(names_of(alone.events).size(), 1);
}

TEST_F(GpuProfile, NamesWaitsAndCopies) {
  const Tensor x = randn({64}, kFloat32, device_);
  const Recording found = recorded({.profile_memory = true}, [&] { sum(x).item(); });
  const std::vector<Event> waits = of_kind(found, EventKind::kSynchronization);
  ASSERT_EQ(waits.size(), 1);
  EXPECT_EQ(waits[0].name, "synchronize (copy_)");
  const std::vector<Event> copies = of_kind(found, EventKind::kCopy);
  ASSERT_EQ(copies.size(), 1);
  EXPECT_EQ(copies[0].name, "Memcpy DtoH");
  EXPECT_EQ(copies[0].bytes, 4);
  bool on_gpu = false;
  for (const Event& event : of_kind(found, EventKind::kAllocation)) {
    on_gpu = on_gpu || event.device == device_;
  }
  EXPECT_TRUE(on_gpu);
}

TEST_F(GpuProfile, RefusesOrTellsOfHiddenWaits) {
  const Tensor x = sum(randn({64}, kFloat32, device_));
  set_sync_debug_mode(SyncDebugMode::kError);
  EXPECT_EQ(sync_debug_mode(), SyncDebugMode::kError);
  try {
    x.item();
    FAIL() << "item() waited";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("copy_: the host would wait for cuda:0"), 0)
        << error.what();
  }
  synchronize(device_);  // asked for by the program
  set_sync_debug_mode(SyncDebugMode::kWarn);
  ::testing::internal::CaptureStderr();
  x.item();
  synchronize(device_);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "wick: copy_: the host waits for cuda:0\n");
  set_sync_debug_mode(SyncDebugMode::kDefault);
  ::testing::internal::CaptureStderr();
  x.item();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST_F(GpuProfile, HasCapturesAndReplays) {
  Tensor x = randn({64}, kFloat32, device_);
  for (int i = 0; i < 2; ++i) relu(x);
  const Recording found = recorded({}, [&] {
    Tensor y;
    CudaGraph graph(device_, [&] { y = relu(x); });
    graph.replay();
    graph.replay();
  });
  EXPECT_EQ(of_kind(found, EventKind::kCapture).size(), 1);
  EXPECT_EQ(of_kind(found, EventKind::kReplay).size(), 2);
  const bool simulated = device_properties(device_).simulated;
  const std::vector<int64_t> parents = parents_of(found);
  int64_t replayed = 0;
  for (size_t i = 0; i < found.events.size(); ++i) {
    const Event& event = found.events[i];
    if (event.kind != EventKind::kKernel || parents[i] < 0) continue;
    if (found.events[static_cast<size_t>(parents[i])].kind != EventKind::kReplay) continue;
    ++replayed;
    EXPECT_EQ(event.device_ns == 0, simulated);
  }
  EXPECT_EQ(replayed, 2);
}

#ifdef WICK_SIM
// Of engines that are said to take their time.
TEST_F(GpuProfile, TakesTheTimesOfKernels) {
  sim::set_engines({{.name = "slow", .milliseconds = 2}});
  const Tensor x = randn({64, 64}, kFloat32, device_);
  const Recording found = recorded({}, [&] {
    matmul(x, x);
    matmul(x, x);
  });
  const std::string path = ::testing::TempDir() + "/wick_kernel_times.json";
  write_chrome_trace(found, path);
  sim::set_engines({});
  std::vector<Event> kernels = of_kind(found, EventKind::kKernel);
  std::erase_if(kernels, [](const Event& event) { return event.name != "cublasLtMatmul"; });
  ASSERT_EQ(kernels.size(), 2);
  for (const Event& kernel : kernels) EXPECT_EQ(kernel.device_ns, 2'000'000);
  // Two clocks are read to a microsecond or so.
  EXPECT_NEAR(static_cast<double>(kernels[1].device_start - kernels[0].device_start), 2e6, 1e4);
  const KeyAverages averages(found);
  EXPECT_EQ(averages.find("matmul")->device_time_total, 4000);
  EXPECT_EQ(averages.self_device_time_total(), 4000);
  // In the trace a bar on the stream's row, at the end of an arrow from its launch.
  int64_t bars = 0, begun = 0, ended = 0;
  double last = 0;
  const auto trace = nlohmann::json::parse(read_file(path, 1 << 20));
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "M") continue;
    EXPECT_GE(event["ts"].get<double>(), last);
    last = event["ts"];
    if (event["cat"] == "kernel" && event["ph"] == "X") {
      ++bars;
      EXPECT_EQ(event["dur"], 2000);
    }
    if (event["cat"] == "launch") ++(event["ph"] == "s" ? begun : ended);
  }
  EXPECT_EQ(bars, 2);
  EXPECT_EQ(begun, 2);
  EXPECT_EQ(ended, 2);
}
#endif

}  // namespace
}  // namespace wick::profile
