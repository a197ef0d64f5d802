#include <gtest/gtest.h>

#include <vector>

#include "wick/core/stream.h"
#include "wick/core/tensor.h"
#include "wick/kernels/sim/sanitizers.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/scoped_blocks.h"
#include "wick/tests/kernels/sim/kernels.h"

namespace wick::testing {
namespace {

using cuda::Grid;
using cuda::launch;
using sim::ThreadOrder;

constexpr ThreadOrder kOrders[] = {ThreadOrder::kForward, ThreadOrder::kReverse,
                                   ThreadOrder::kRandom, ThreadOrder::kAhead};

Tensor counting(int64_t n) { return arange(0, n).to(kFloat32).to(kGpu); }

template <bool kBarrier>
std::vector<float> tree_sums(int blocks) {
  const Tensor x = counting(blocks * 256), y = zeros({blocks}, kFloat32, kGpu);
  launch("tree_sum", kGpu, Grid{dim3(unsigned(blocks)), dim3(256)}, tree_sum_kernel<kBarrier>,
         x.data<float>(), y.data<float>());
  return y.to_vector<float>();
}

TEST(SimulatedThreads, WaitAtBarriersInEveryOrder) {
  for (const ThreadOrder order : kOrders) {
    const sim::ScopedSettings scope({.threads = order, .seed = 3});
    const std::vector<float> sums = tree_sums<true>(5);
    for (int b = 0; b < 5; ++b) EXPECT_EQ(sums[size_t(b)], 256.0f * 256 * float(b) + 255 * 128);
  }
}

TEST(SimulatedThreads, ScansOfABlockMayFollowEachOther) {
  for (const ThreadOrder order : kOrders) {
    const sim::ScopedSettings scope({.threads = order, .seed = 3});
    const Tensor y = zeros({256}, kInt64, kGpu);
    launch("scan_twice", kGpu, Grid{dim3(1), dim3(256)}, scan_twice_kernel<int64_t>,
           y.data<int64_t>());
    const std::vector<int64_t> sums = y.to_vector<int64_t>();
    for (int64_t t = 0; t < 256; ++t) EXPECT_EQ(sums[size_t(t)], (t + 1) * (t + 2) / 2);
  }
}

// Under ThreadSanitizer these are races, which races_test.cpp looks at.
#if !WICK_SIM_TSAN
TEST(SimulatedThreads, AMissingBarrierShowsInSomeOrder) {
  int wrong = 0, passed_wrong = 0;
  for (const ThreadOrder order : kOrders) {
    const sim::ScopedSettings scope({.threads = order, .seed = 3});
    wrong += tree_sums<false>(1)[0] != 255.0f * 128;
    const Tensor exchange = zeros({64}, kFloat32, kGpu), y = zeros({64}, kFloat32, kGpu);
    launch("pass_on", kGpu, Grid{dim3(1), dim3(64)}, pass_on_kernel<false>, exchange.data<float>(),
           y.data<float>());
    const std::vector<float> passed = y.to_vector<float>();
    for (size_t t = 0; t < 64; ++t) passed_wrong += passed[t] != float((t + 1) % 64);
  }
  EXPECT_GT(wrong, 0);
  EXPECT_GT(passed_wrong, 0);
}
#endif

template <int kMistake>
__global__ void mistaken_kernel(float* y) {
  const unsigned t = threadIdx.x;
  float value = float(t);
  if (kMistake == 0 && t == 3) __syncthreads();
  if (kMistake == 1 && t == 3) return;
  if (kMistake <= 1) value = __shfl_xor_sync(0xffffffffu, value, 1);
  if (kMistake == 2) value = __shfl_sync(0xfu, value, 1);
  if (kMistake == 3 && t == 5) __trap();
  if (kMistake == 4 && t < 16) __syncthreads();
  if (kMistake == 4 && t >= 16) __syncthreads();
  y[t] = value;
}

template <int kMistake>
std::string mistake(unsigned threads = 32) {
  const Tensor y = zeros({threads}, kFloat32, kGpu);
  const std::string text = error_of([&] {
    launch("mistaken", kGpu, Grid{dim3(2), dim3(threads)}, mistaken_kernel<kMistake>,
           y.data<float>());
    y.to_vector<float>();
  });
  EXPECT_THROW(zeros({2}, kFloat32, kGpu).to_vector<float>(), DeviceError);  // broken from now on
  sim::reset();
  EXPECT_EQ(zeros({2}, kFloat32, kGpu).to_vector<float>()[0], 0.0f);
  return text;
}

TEST(SimulatedThreads, MistakesAreNamedWithKernelBlockAndThread) {
  EXPECT_NE(mistake<0>().find("mistaken: threads wait for others that never come: thread"),
            std::string::npos);
  EXPECT_NE(mistake<1>().find("lane 3 of the warp mask is absent"), std::string::npos);
  EXPECT_NE(mistake<2>().find("is not in its own warp mask: thread (4, 0, 0)"), std::string::npos);
  const std::string trapped = mistake<3>();
  EXPECT_NE(trapped.find("the kernel trapped: thread (5, 0, 0), at "), std::string::npos);
  EXPECT_NE(trapped.find("threads_test.cpp:"), std::string::npos);
  EXPECT_NE(trapped.find("block (0, 0, 0)"), std::string::npos);
  EXPECT_NE(mistake<4>().find("divergent barrier: thread (0, 0, 0) waits at"), std::string::npos);
  EXPECT_NE(mistake<1>(7).find("of the warp mask is absent"), std::string::npos);
}

__global__ void warp_kernel(int* y) {
  const int lane = int(threadIdx.x) % 32;
  int* out = y + int64_t{threadIdx.x} * 5;
  out[0] = __shfl_xor_sync(0xffffffffu, lane, 5);
  out[1] = __shfl_up_sync(0xffffffffu, lane, 3);
  out[2] = __shfl_down_sync(0xffffffffu, lane, 3, 8);
  out[3] = int(__ballot_sync(0xffffffffu, lane % 3 == 0));
  out[4] = __syncthreads_count(threadIdx.x < 10);
}

TEST(SimulatedThreads, WarpFunctionsGiveWhatTheDeviceGives) {
  for (const ThreadOrder order : kOrders) {
    const sim::ScopedSettings scope({.threads = order});
    const Tensor y = zeros({64, 5}, kInt32, kGpu);
    launch("warp", kGpu, Grid{dim3(1), dim3(64)}, warp_kernel, y.data<int32_t>());
    const std::vector<int32_t> got = y.to_vector<int32_t>();
    for (int t = 0; t < 64; ++t) {
      const int lane = t % 32;
      const int32_t* out = got.data() + t * 5;
      EXPECT_EQ(out[0], lane ^ 5);
      EXPECT_EQ(out[1], lane < 3 ? lane : lane - 3);
      EXPECT_EQ(out[2], lane % 8 < 5 ? lane + 3 : lane);
      EXPECT_EQ(unsigned(out[3]), 0x49249249u);
      EXPECT_EQ(out[4], 10);
    }
  }
}

__global__ void too_much_shared_kernel(float* y) {
  WICK_SHARED(double, a, 4096);
  WICK_SHARED(double, b, 4096);
  a[threadIdx.x] = b[threadIdx.x] = 1;
  y[0] = float(a[0] + b[0]);
}

TEST(SimulatedThreads, LimitsOfABlockAreErrors) {
  const Tensor y = zeros({1}, kFloat32, kGpu);
  EXPECT_NE(error_of([&] {
              launch("wide", kGpu, Grid{dim3(1), dim3(2048)}, fill_with_kernel<float>,
                     y.data<float>(), int64_t{1}, 1.0f);
            }).find("wide failed: cudaErrorInvalidConfiguration"),
            std::string::npos);
  EXPECT_NE(
      error_of([&] {
        launch("greedy", kGpu, Grid{dim3(1), dim3(32)}, too_much_shared_kernel, y.data<float>());
        synchronize(kGpu);
      }).find("too much shared memory"),
      std::string::npos);
  sim::reset();
}

TEST(SimulatedThreads, OnlyChosenBlocksOfAHugeGridCanBeRun) {
  const Tensor y = zeros({4}, kFloat32, kGpu);
  const ScopedBlocks ends({0, 0x7ffffffe});
  launch("huge", kGpu, Grid{dim3(0x7fffffff), dim3(1)}, copy_plus_kernel<float>, y.data<float>(),
         y.data<float>(), int64_t{1}, 1.0f);
  synchronize(kGpu);
  EXPECT_EQ(y.to_vector<float>()[0], 1.0f);
}

}  // namespace
}  // namespace wick::testing
