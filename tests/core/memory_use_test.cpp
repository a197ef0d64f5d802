#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <sstream>

#include "wick/core/memory/allocator.h"
#include "wick/core/stream.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/sanitized.h"
#ifdef WICK_SIM
#include "wick/kernels/sim/cuda_runtime.h"
#endif

namespace wick::testing {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;

TEST(MemoryUse, TellsTensorsFromTheCache) {
  for (const Device device : devices()) {
    empty_cache(device);
    const MemoryUse before = memory_use(device);
    void* pointer = allocator(device).allocate(64 * kMebibyte, current_stream(device));
    const MemoryUse live = memory_use(device);
    EXPECT_GE(live.tensors, before.tensors + 64 * kMebibyte) << device;
    EXPECT_LE(live.tensors, before.tensors + 66 * kMebibyte) << device;  // with a sanitizer's edges
    EXPECT_NE(memory_summary(device).find(format_bytes(live.tensors)), std::string::npos);
    allocator(device).deallocate(pointer);
    const MemoryUse freed = memory_use(device);
    EXPECT_EQ(freed.tensors, before.tensors);
    EXPECT_GE(freed.cache, before.cache + 64 * kMebibyte);
    EXPECT_GT(freed.capacity, freed.tensors + freed.cache);
    empty_cache(device);
    EXPECT_EQ(memory_use(device).cache, before.cache);
  }
}

TEST(MemoryUse, CountsWhatTheProcessHasBesides) {
  if (kSanitized) GTEST_SKIP() << "sanitizers use memory of their own";
  const MemoryUse before = memory_use(kCpu);
  EXPECT_GT(before.libraries, kMebibyte);  // of code, if of nothing else
  // Not of the heap, which may hold as much that earlier tests freed.
  constexpr size_t kBytes = static_cast<size_t>(200 * kMebibyte);
  void* const own =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(own, MAP_FAILED);
  std::memset(own, 'x', kBytes);
  EXPECT_GT(memory_use(kCpu).context, before.context + 150 * kMebibyte);
  EXPECT_EQ(memory_use(kCpu).tensors, before.tensors);
  munmap(own, kBytes);
}

#ifdef WICK_SIM
TEST(MemoryUse, CountsWhatLibrariesTakeOfAGpu) {
  const MemoryUse before = memory_use(kGpu);
  void* pointer = nullptr;
  ASSERT_EQ(cudaMalloc(&pointer, static_cast<size_t>(8 * kMebibyte)), cudaSuccess);
  const MemoryUse during = memory_use(kGpu);
  EXPECT_EQ(during.libraries, before.libraries + 8 * kMebibyte);
  EXPECT_EQ(during.context, before.context);
  EXPECT_EQ(during.tensors, before.tensors);
  ASSERT_EQ(cudaFree(pointer), cudaSuccess);
  EXPECT_EQ(memory_use(kGpu).libraries, before.libraries);
}
#endif

TEST(MemorySummary, IsATable) {
  for (const bool abbreviated : {false, true}) {
    std::istringstream lines(memory_summary(kCpu, abbreviated));
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
      EXPECT_EQ(line.size(), 81u) << line;
      EXPECT_EQ(line.front(), '|');
      EXPECT_EQ(line.back(), '|');
    }
    EXPECT_EQ(count, abbreviated ? 33 : 51);
  }
  const std::string text = memory_summary(kCpu);
  for (const char* word : {"memory summary of cpu, ", "tensors", "cache", "libraries", "context",
                           "Peak Usage", "Allocated memory", "from large pool"}) {
    EXPECT_NE(text.find(word), std::string::npos) << word;
  }
}

}  // namespace
}  // namespace wick::testing
