#include <gtest/gtest.h>

#include "wick/core/core.h"
#include "wick/tests/core/allocator_fixture.h"

namespace wick {
namespace {

std::vector<MemoryEvent> history_of(const CachingAllocator& allocator) {
  std::vector<MemoryEvent> history;
  allocator.snapshot(&history);
  return history;
}

std::vector<MemoryAction> actions_of(const CachingAllocator& allocator) {
  std::vector<MemoryAction> actions;
  for (const MemoryEvent& event : history_of(allocator)) actions.push_back(event.action);
  return actions;
}

TEST(MemoryHistory, TellsWhatHappenedInOrder) {
  FakeDevice fake;
  fake.capacity = 32 * kMiB;
  CachingAllocator allocator(std::make_unique<FakeSource>(fake));
  const Stream one = fake.stream(1), two = fake.stream(2);
  allocator.deallocate(allocator.allocate(100, one));
  EXPECT_TRUE(history_of(allocator).empty());  // nothing unless asked for

  allocator.record_history(100);
  void* block = allocator.allocate(3 * kMiB, one);
  allocator.record_stream(block, two);
  fake.work(two);
  allocator.deallocate(block);
  fake.finish(two);
  allocator.deallocate(allocator.allocate(64, one));
  EXPECT_THROW(allocator.allocate(64 * kMiB, one), OutOfMemory);
  allocator.empty_cache();

  using enum MemoryAction;
  EXPECT_EQ(
      actions_of(allocator),
      (std::vector<MemoryAction>{kSegmentAllocate, kAllocate, kFree, kFreeCompleted, kAllocate,
                                 kFree, kFreeCompleted, kOutOfMemory, kSegmentFree, kSegmentFree}));
  const std::vector<MemoryEvent> history = history_of(allocator);
  EXPECT_EQ(history[0].size, 20 * kMiB);
  for (const size_t i : {1, 2, 3}) {
    EXPECT_EQ(history[i].address, reinterpret_cast<uintptr_t>(block));
    EXPECT_EQ(history[i].size, 3 * kMiB);  // as asked for
    EXPECT_EQ(history[i].stream, one);
    EXPECT_GE(history[i].time_us, history[i - 1].time_us);
  }
  EXPECT_EQ(history[7].size, 64 * kMiB);
}

TEST(MemoryHistory, KeepsTheLatest) {
  FakeDevice fake;
  CachingAllocator allocator(std::make_unique<FakeSource>(fake));
  allocator.record_history(5);
  for (size_t size = 1; size <= 20; ++size) allocator.allocate(size, fake.stream(1));
  const std::vector<MemoryEvent> history = history_of(allocator);
  ASSERT_EQ(history.size(), 5u);
  EXPECT_EQ(allocator.history_limit(), 5u);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(history[i].size, 16 + i);
  allocator.record_history(0);
  allocator.allocate(1, fake.stream(1));
  EXPECT_TRUE(history_of(allocator).empty());
  EXPECT_EQ(allocator.history_limit(), 0u);
}

TEST(MemoryHistory, NamesTheOperation) {
  record_memory_history(kCpu);
  const Tensor x = ones({1000});
  const Tensor y = x.exp();
  const std::vector<MemoryEvent> history = memory_history(kCpu);
  record_memory_history(kCpu, 0);
  ASSERT_FALSE(history.empty());
  EXPECT_STREQ(history.back().op, "exp");
  const auto address = reinterpret_cast<uintptr_t>(y.raw_data());
  bool found = false;
  for (const SegmentInfo& segment : memory_snapshot(kCpu)) {
    for (const BlockInfo& block : segment.blocks) {
      if (block.address != address) continue;
      found = true;
      EXPECT_STREQ(block.op, "exp");
      EXPECT_EQ(block.requested, 4000u);
    }
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace wick
