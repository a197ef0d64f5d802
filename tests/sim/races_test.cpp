#include <gtest/gtest.h>

#include "wick/core/stream.h"
#include "wick/core/tensor.h"
#include "wick/kernels/sim/sanitizers.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/sim/kernels.h"

// What ThreadSanitizer sees of simulated threads and streams: each mistake as a race, and none
// where there is no mistake.
#if WICK_SIM_TSAN
namespace {
int races = 0;
}
namespace __tsan {
class ReportDesc;
bool OnReport(const ReportDesc*, bool suppressed);
// Called by ThreadSanitizer for each race; true keeps it from being printed and from failing.
__attribute__((no_sanitize("thread"))) bool OnReport(const ReportDesc*, bool) {
  ++races;
  return true;
}
}  // namespace __tsan
#endif

namespace wick::testing {
namespace {

using cuda::Grid;
using cuda::launch;

template <class Function>
int races_in(Function function) {
#if WICK_SIM_TSAN
  races = 0;
  function();
  synchronize(kGpu);
  return races;
#else
  (void)function;
  return -1;
#endif
}

#define SKIP_UNLESS_WATCHED() \
  if (races_in([] {}) < 0) GTEST_SKIP() << "not built with ThreadSanitizer"

TEST(SimulatedRaces, AMissingBarrierIsOneInSharedMemory) {
  SKIP_UNLESS_WATCHED();
  const Tensor x = ones({4 * 256}, kFloat32, kGpu), y = zeros({4}, kFloat32, kGpu);
  int found = 0;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const sim::ScopedSettings scope({.seed = seed});
    found += races_in([&] {
      launch("tree_sum", kGpu, Grid{dim3(4), dim3(256)}, tree_sum_kernel<false>, x.data<float>(),
             y.data<float>());
    });
    EXPECT_EQ(races_in([&] {
                launch("tree_sum", kGpu, Grid{dim3(4), dim3(256)}, tree_sum_kernel<true>,
                       x.data<float>(), y.data<float>());
              }),
              0);
  }
  EXPECT_GT(found, 0);
}

TEST(SimulatedRaces, AMissingBarrierIsOneInGlobalMemory) {
  SKIP_UNLESS_WATCHED();
  const Tensor exchange = zeros({64}, kFloat32, kGpu), y = zeros({64}, kFloat32, kGpu);
  EXPECT_GT(races_in([&] {
              launch("pass_on", kGpu, Grid{dim3(1), dim3(64)}, pass_on_kernel<false>,
                     exchange.data<float>(), y.data<float>());
            }),
            0);
  EXPECT_EQ(races_in([&] {
              launch("pass_on", kGpu, Grid{dim3(1), dim3(64)}, pass_on_kernel<true>,
                     exchange.data<float>(), y.data<float>());
            }),
            0);
}

__global__ void same_place_kernel(float* y) { y[threadIdx.x] = float(blockIdx.x); }

TEST(SimulatedRaces, ScansOfABlockThatFollowEachOtherAreNone) {
  SKIP_UNLESS_WATCHED();
  const Tensor y = zeros({256}, kInt64, kGpu);
  EXPECT_EQ(races_in([&] {
              launch("scan_twice", kGpu, Grid{dim3(1), dim3(256)}, scan_twice_kernel<int64_t>,
                     y.data<int64_t>());
            }),
            0);
}

TEST(SimulatedRaces, BlocksThatWriteOnePlaceAreOne) {
  SKIP_UNLESS_WATCHED();
  const Tensor y = zeros({32}, kFloat32, kGpu);
  EXPECT_GT(
      races_in([&] {
        launch("same_place", kGpu, Grid{dim3(2), dim3(32)}, same_place_kernel, y.data<float>());
      }),
      0);
}

TEST(SimulatedRaces, AMissingEventIsOneBetweenStreams) {
  SKIP_UNLESS_WATCHED();
  for (const bool wait : {false, true}) {
    const int found = races_in([&] {
      const Stream first = stream_from_pool(kGpu), second = stream_from_pool(kGpu);
      const Tensor x = zeros({64}, kFloat32, kGpu), y = zeros({64}, kFloat32, kGpu);
      synchronize(kGpu);
      Event produced(kGpu);
      {
        const StreamGuard guard(first);
        launch("fill_with", kGpu, cuda::grid_for(64), fill_with_kernel<float>, x.data<float>(),
               int64_t{64}, 1.0f);
        produced.record();
      }
      const StreamGuard guard(second);
      if (wait) produced.block(second);
      launch("copy_plus", kGpu, cuda::grid_for(64), copy_plus_kernel<float>, x.data<float>(),
             y.data<float>(), int64_t{64}, 1.0f);
      synchronize(second);
      synchronize(first);
    });
    if (wait) {
      EXPECT_EQ(found, 0);
    } else {
      EXPECT_GT(found, 0);
    }
  }
}

TEST(SimulatedRaces, AHostBufferChangedDuringItsCopyIsOne) {
  SKIP_UNLESS_WATCHED();
  const Tensor host = ones({64}).pin_memory();
  for (const bool wait : {false, true}) {
    const int found = races_in([&] {
      const Tensor device = host.to(kGpu, /*non_blocking=*/true);
      if (wait) synchronize(kGpu);
      for (int i = 0; i < 64; ++i) host.data<float>()[i] = 2;
      synchronize(kGpu);
    });
    if (wait) {
      EXPECT_EQ(found, 0);
    } else {
      EXPECT_GT(found, 0);
    }
  }
}

}  // namespace
}  // namespace wick::testing
