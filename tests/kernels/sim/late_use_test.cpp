// Memory that is used after its tensor is gone ends the program with AddressSanitizer's report,
// wherever its block is by then: in a quick list, merged with its neighbours, back with the driver.
#include <gtest/gtest.h>

#include <functional>

#include "wick/core/memory/allocator.h"
#include "wick/core/memory/detail/workspace.h"
#include "wick/core/stream.h"
#include "wick/core/tensor.h"
#include "wick/kernels/cuda/gemm.h"
#include "wick/kernels/sim/sanitizers.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/kernels/sim/kernels.h"

namespace wick::testing {
namespace {

using cuda::launch;

constexpr int64_t kFewFloats = 10, kFloats = 5000, kManyFloats = 300'000;

class SimulatedLateUseDeathTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!WICK_SIM_ASAN) GTEST_SKIP() << "not built with AddressSanitizer";
    synchronize(kGpu);
  }

  const sim::ScopedSettings scope_{{.streams = sim::StreamOrder::kLazy}};
};

/// Work with `count` floats, which has run when it returns.
using Use = std::function<void(float* memory, int64_t count)>;

void expect_only_a_live_tensor_serves(const Use& use, int64_t count) {
  SCOPED_TRACE(count);
  Tensor x = ones({count}, kFloat32, kGpu);
  float* const memory = x.data<float>();
  use(memory, count);
  x = Tensor();
  EXPECT_DEATH(use(memory, count), "use-after-poison");
}

TEST_F(SimulatedLateUseDeathTest, OfAKernelThatReads) {
  const Tensor y = zeros({kManyFloats}, kFloat32, kGpu);
  for (const int64_t count : {kFewFloats, kFloats, kManyFloats}) {
    expect_only_a_live_tensor_serves(
        [&](float* x, int64_t n) {
          launch("copy_plus", kGpu, cuda::grid_for(kGpu, n), copy_plus_kernel<float>, x,
                 y.data<float>(), n, 1.0f);
          synchronize(kGpu);
        },
        count);
  }
}

TEST_F(SimulatedLateUseDeathTest, OfAKernelThatWrites) {
  expect_only_a_live_tensor_serves(
      [](float* x, int64_t n) {
        launch("fill_with", kGpu, cuda::grid_for(kGpu, n), fill_with_kernel<float>, x, n, 1.0f);
        synchronize(kGpu);
      },
      kFloats);
}

TEST_F(SimulatedLateUseDeathTest, OfCopies) {
  const Tensor other = zeros({kFloats}, kFloat32, kGpu);
  const auto copy = [](void* to, const void* from, int64_t count) {
    const auto bytes = static_cast<size_t>(count) * sizeof(float);
    ASSERT_EQ(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, nullptr), cudaSuccess);
    synchronize(kGpu);
  };
  expect_only_a_live_tensor_serves([&](float* x, int64_t n) { copy(other.raw_data(), x, n); },
                                   kFloats);
  expect_only_a_live_tensor_serves([&](float* x, int64_t n) { copy(x, other.raw_data(), n); },
                                   kFloats);

  Tensor pinned = ones({kFloats}).pin_memory();
  const void* const memory = pinned.raw_data();
  copy(other.raw_data(), memory, kFloats);
  pinned = Tensor();
  EXPECT_DEATH(copy(other.raw_data(), memory, kFloats), "use-after-poison");
}

// A library's code is nothing that the sanitizer sees through.
TEST_F(SimulatedLateUseDeathTest, OfALibrary) {
  constexpr int64_t kSide = 64;
  const Tensor b = ones({kSide, kSide}, kFloat32, kGpu), y = zeros({kSide, kSide}, kFloat32, kGpu);
  expect_only_a_live_tensor_serves(
      [&](float* x, int64_t) {
        cuda::Gemm g;
        g.m = g.n = g.k = kSide;
        g.a = {x, kSide};
        g.b = {b.data<float>(), kSide};
        g.y = y.data<float>();
        AllocatorWorkspace workspace(kGpu);
        cuda::gemm(kGpu, g, kAnyEngine, workspace);
        synchronize(kGpu);
      },
      kSide * kSide);
}

TEST_F(SimulatedLateUseDeathTest, OfAnotherStreamThatNobodyRecorded) {
  const auto read_elsewhere = [](bool record) {
    const Stream other = stream_from_pool(kGpu);
    const Tensor y = zeros({kFloats}, kFloat32, kGpu);
    Tensor x = ones({kFloats}, kFloat32, kGpu);
    synchronize(kGpu);
    {
      const StreamGuard guard(other);
      launch("copy_plus", kGpu, cuda::grid_for(kGpu, kFloats), copy_plus_kernel<float>,
             x.data<float>(), y.data<float>(), kFloats, 1.0f);
    }
    if (record) x.record_stream(other);
    x = Tensor();
    synchronize(current_stream(kGpu));  // the free's turn comes before the kernel's
    synchronize(other);
  };
  read_elsewhere(true);
  EXPECT_DEATH(read_elsewhere(false), "use-after-poison");
}

TEST_F(SimulatedLateUseDeathTest, OfMemoryThatWentBackToTheDriver) {
  Tensor x = empty({int64_t{3} << 20}, kFloat32, kGpu);
  float* const memory = x.data<float>();
  const Tensor y = zeros({1}, kFloat32, kGpu);
  x = Tensor();
  synchronize(kGpu);
  empty_cache(kGpu);
  const auto read = [&] {
    launch("copy_plus", kGpu, cuda::grid_for(kGpu, 1), copy_plus_kernel<float>, memory,
           y.data<float>(), int64_t{1}, 1.0f);
    synchronize(kGpu);
  };
  EXPECT_DEATH(read(), "heap-use-after-free|SEGV");
}

}  // namespace
}  // namespace wick::testing
