// Memory of the simulated GPU apart from its addresses, as segments that grow use it.
#include <gtest/gtest.h>

#include <cstring>

#include "wick/core/core.h"
#include "wick/core/cuda/virtual_memory.h"
#include "wick/kernels/sim/simulator.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

constexpr size_t kPage = size_t{2} << 20;

size_t free_memory() {
  size_t free = 0, total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  return free;
}

TEST(SimulatedVirtualMemory, IsUsableAsOnePieceOnceMapped) {
  ASSERT_TRUE(cuda::has_virtual_memory(kGpu));
  const size_t before = free_memory();
  auto* const base = static_cast<char*>(cuda::reserve_addresses(kGpu, 8 * kPage));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(base) % kPage, 0u);
  EXPECT_FALSE(sim::is_device_memory(base, 1));
  ASSERT_TRUE(cuda::map_memory(kGpu, base + kPage, 3 * kPage, kPage));
  EXPECT_EQ(before - free_memory(), 3 * kPage);
  EXPECT_TRUE(sim::is_device_memory(base + kPage, 3 * kPage));
  EXPECT_FALSE(sim::is_device_memory(base + kPage, 3 * kPage + 1));
  EXPECT_FALSE(sim::is_device_memory(base, 1));
  std::memset(base + kPage, 1, 3 * kPage);
  EXPECT_NE(cudaFree(base + kPage), cudaSuccess);
  (void)cudaGetLastError();

  cuda::unmap_memory(kGpu, base + 2 * kPage, kPage, kPage);
  EXPECT_FALSE(sim::is_device_memory(base + kPage, kPage + 1));
  EXPECT_TRUE(sim::is_device_memory(base + 3 * kPage, kPage));
  EXPECT_EQ(error_of([&] { cuda::release_addresses(base, 8 * kPage); }),
            "cuda: cuMemAddressFree failed: cudaErrorInvalidValue");  // memory is behind them
  cuda::unmap_memory(kGpu, base + kPage, kPage, kPage);
  cuda::unmap_memory(kGpu, base + 3 * kPage, kPage, kPage);
  cuda::release_addresses(base, 8 * kPage);
  EXPECT_EQ(free_memory(), before);
}

TEST(SimulatedVirtualMemory, AFailureAtAnyCallLeavesNothingBehind) {
  const size_t before = free_memory();
  void* const base = cuda::reserve_addresses(kGpu, 4 * kPage);
  for (const char* call : {"cuMemCreate", "cuMemMap", "cuMemSetAccess"}) {
    for (int64_t nth = 1; nth <= 3; ++nth) {
      sim::fail_call(nth, cudaErrorMemoryAllocation, call);
      EXPECT_FALSE(cuda::map_memory(kGpu, base, 3 * kPage, kPage)) << call;
      EXPECT_EQ(free_memory(), before) << call << nth;
      sim::fail_call(nth, cudaErrorUnknown, call);
      EXPECT_EQ(error_of([&] { cuda::map_memory(kGpu, base, 3 * kPage, kPage); }),
                concat("cuda: ", call, " failed: cudaErrorUnknown"));
      EXPECT_EQ(free_memory(), before) << call << nth;
    }
  }
  sim::fail_malloc_from(2);
  EXPECT_FALSE(cuda::map_memory(kGpu, base, 3 * kPage, kPage));
  sim::fail_malloc_from(0);
  EXPECT_TRUE(cuda::map_memory(kGpu, base, 3 * kPage, kPage));
  cuda::unmap_memory(kGpu, base, 3 * kPage, kPage);
  cuda::release_addresses(base, 4 * kPage);
  EXPECT_EQ(free_memory(), before);
}

// Run with WICK_CUDA_ALLOC=expandable_segments:true (the test sim_expandable).
TEST(SimulatedVirtualMemory, TensorsLiveInSegmentsThatGrow) {
  if (std::getenv("WICK_CUDA_ALLOC") == nullptr) GTEST_SKIP() << "WICK_CUDA_ALLOC is not set";
  empty_cache(kGpu);
  const Tensor small = ones({100}, kFloat32, kGpu);
  const Tensor most = empty({(20 << 18) - 1000}, kFloat32, kGpu);  // of a page of 20 MiB
  const Tensor large = full({300000}, 2, kFloat32, kGpu);          // in two pages
  for (const SegmentInfo& segment : memory_snapshot(kGpu)) EXPECT_TRUE(segment.expandable);
  EXPECT_EQ((large + small.sum()).max().item<float>(), 102);
  // Another GPU cannot reach such memory by itself.
  EXPECT_EQ(large.to(cuda_device(1)).to(kGpu).max().item<float>(), 2);
  empty_cache(kGpu);
  sim::fail_malloc_from(1);
  EXPECT_THROW(empty({1 << 28}, kFloat32, kGpu), OutOfMemory);
  sim::fail_malloc_from(0);
  EXPECT_EQ((large + large).max().item<float>(), 4);
}

}  // namespace
}  // namespace wick::testing
