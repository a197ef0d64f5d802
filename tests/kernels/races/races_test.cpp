#include <gtest/gtest.h>

#include "wick/core/memory/allocator.h"
#include "wick/core/memory/stats.h"
#include "wick/core/stream.h"
#include "wick/core/tensor.h"
#include "wick/kernels/sim/sanitizers.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/kernels/sim/kernels.h"

// What ThreadSanitizer sees of simulated threads and streams: each mistake as a race, and none
// where there is no mistake. A program of its own: here races are counted, elsewhere they fail.
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

namespace wick::testing {
namespace {

using cuda::Grid;
using cuda::launch;

/// How many races are seen in `function`, whose memory is new: ThreadSanitizer reports a place
/// once.
template <class Function>
int races_in(Function function) {
  empty_cache(kGpu);
  pinned_allocator().empty_cache();
  races = 0;
  function();
  synchronize(kGpu);
  return races;
}

template <bool kBarrier>
void sum_by_tree() {
  const Tensor x = ones({4 * 256}, kFloat32, kGpu), y = zeros({4}, kFloat32, kGpu);
  launch("tree_sum", kGpu, Grid{dim3(4), dim3(256)}, tree_sum_kernel<kBarrier>, x.data<float>(),
         y.data<float>());
}

TEST(SimulatedRaces, AMissingBarrierIsOneInSharedMemory) {
  EXPECT_GT(races_in(sum_by_tree<false>), 0);
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const sim::ScopedSettings scope({.seed = seed});
    EXPECT_EQ(races_in(sum_by_tree<true>), 0);
  }
}

template <bool kBarrier>
void pass_on() {
  const Tensor exchange = zeros({64}, kFloat32, kGpu), y = zeros({64}, kFloat32, kGpu);
  launch("pass_on", kGpu, Grid{dim3(1), dim3(64)}, pass_on_kernel<kBarrier>, exchange.data<float>(),
         y.data<float>());
}

TEST(SimulatedRaces, AMissingBarrierIsOneInGlobalMemory) {
  EXPECT_GT(races_in(pass_on<false>), 0);
  EXPECT_EQ(races_in(pass_on<true>), 0);
}

void scan_twice() {
  const Tensor y = zeros({256}, kInt64, kGpu);
  launch("scan_twice", kGpu, Grid{dim3(1), dim3(256)}, scan_twice_kernel<int64_t>,
         y.data<int64_t>());
}

TEST(SimulatedRaces, ScansOfABlockThatFollowEachOtherAreNone) {
  EXPECT_EQ(races_in(scan_twice), 0);
}

__global__ void same_place_kernel(float* y) { y[threadIdx.x] = float(blockIdx.x); }

void write_one_place() {
  const Tensor y = zeros({32}, kFloat32, kGpu);
  launch("same_place", kGpu, Grid{dim3(2), dim3(32)}, same_place_kernel, y.data<float>());
}

TEST(SimulatedRaces, BlocksThatWriteOnePlaceAreOne) { EXPECT_GT(races_in(write_one_place), 0); }

template <bool kWait>
void produce_and_consume() {
  const Stream first = stream_from_pool(kGpu), second = stream_from_pool(kGpu);
  const Tensor x = zeros({64}, kFloat32, kGpu), y = zeros({64}, kFloat32, kGpu);
  synchronize(kGpu);
  Event produced(kGpu);
  {
    const StreamGuard guard(first);
    launch("fill_with", kGpu, cuda::grid_for(kGpu, 64), fill_with_kernel<float>, x.data<float>(),
           int64_t{64}, 1.0f);
    produced.record();
  }
  const StreamGuard guard(second);
  if (kWait) produced.block(second);
  launch("copy_plus", kGpu, cuda::grid_for(kGpu, 64), copy_plus_kernel<float>, x.data<float>(),
         y.data<float>(), int64_t{64}, 1.0f);
  synchronize(second);
  synchronize(first);
}

TEST(SimulatedRaces, AMissingEventIsOneBetweenStreams) {
  EXPECT_GT(races_in(produce_and_consume<false>), 0);
  EXPECT_EQ(races_in(produce_and_consume<true>), 0);
}

template <bool kWait>
void change_while_copied() {
  const Tensor host = ones({64}).pin_memory();
  const Tensor device = host.to(kGpu, /*non_blocking=*/true);
  if (kWait) synchronize(kGpu);
  for (int i = 0; i < 64; ++i) host.data<float>()[i] = 2;
  synchronize(kGpu);
}

TEST(SimulatedRaces, AHostBufferChangedDuringItsCopyIsOne) {
  EXPECT_GT(races_in(change_while_copied<false>), 0);
  EXPECT_EQ(races_in(change_while_copied<true>), 0);
}

}  // namespace
}  // namespace wick::testing
