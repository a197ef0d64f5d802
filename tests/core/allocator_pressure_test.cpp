// What the allocator does when memory is short, and its figures.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "wick/tests/core/allocator_fixture.h"

namespace wick {
namespace {

int64_t mib(size_t n) { return static_cast<int64_t>(n * kMiB); }

// --- retrying ------------------------------------------------------------------------------------

TEST(AllocatorPressure, ReleasesOneCachedSegmentBeforeAll) {
  AllocatorFixture f(100 * kMiB);
  std::vector<char*> blocks;
  for (const size_t size : {20, 40}) blocks.push_back(f.allocate(size * kMiB, 1));
  blocks.push_back(f.allocate(30 * kMiB, 3));
  for (char* block : blocks) f.free(block);
  f.allocate(24 * kMiB, 2);  // 10 MiB are left: the 30 MiB segment goes
  EXPECT_EQ(f.fake.frees, 1);
  EXPECT_EQ(f.reserved(), mib(84));
  EXPECT_EQ(f.allocator->stats().num_alloc_retries, 1);
  f.allocate(60 * kMiB, 2);  // no segment is large enough: all cached ones go
  EXPECT_EQ(f.fake.frees, 3);
  EXPECT_EQ(f.reserved(), mib(84));
  EXPECT_EQ(f.allocator->stats().num_ooms, 0);
}

TEST(AllocatorPressure, WaitsForOtherStreamsRatherThanFail) {
  AllocatorFixture f(40 * kMiB);
  char* a = f.allocate(40 * kMiB);
  f.allocator->record_stream(a, f.fake.stream(1));
  f.fake.work(f.fake.stream(1));
  f.free(a);
  EXPECT_EQ(f.allocate(40 * kMiB), a);
  EXPECT_EQ(f.fake.frees, 0);
  EXPECT_EQ(f.allocator->stats().num_sync_all_streams, 1);
}

TEST(AllocatorPressure, TakesAnExactSegmentWhenAFullOneDoesNotFit) {
  AllocatorFixture f(50 * kMiB);
  f.allocate(44 * kMiB);
  f.allocate(5 * kMiB);
  EXPECT_EQ(f.reserved(), mib(50));
}

TEST(AllocatorPressure, OutOfMemoryCarriesTheFiguresAndTheAllocatorGoesOn) {
  AllocatorFixture f(100 * kMiB);
  char* a = f.allocate(30 * kMiB);
  char* b = f.allocate(40 * kMiB);
  char* c = f.allocate(5 * kMiB);
  f.free(f.allocate(3 * kMiB));
  try {
    f.allocate(50 * kMiB);
    FAIL() << "expected OutOfMemory";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.requested_bytes(), 50 * kMiB);
    EXPECT_EQ(error.figures().allocated, 75 * kMiB);
    EXPECT_EQ(error.figures().reserved, 90 * kMiB);
    EXPECT_EQ(error.figures().free, 15 * kMiB);
    EXPECT_EQ(error.figures().largest_free_block, 15 * kMiB);
    EXPECT_STREQ(error.what(),
                 "allocate: out of memory on cuda:0: requested 50.00 MiB; allocated 75.00 MiB, "
                 "reserved 90.00 MiB of at most 100.00 MiB, free in cache 15.00 MiB, largest free "
                 "block 15.00 MiB, device capacity 100.00 MiB; nn::advise_on_memory tells a "
                 "program what would fit");
  }
  EXPECT_EQ(f.allocator->stats().num_ooms, 1);
  EXPECT_EQ(f.allocated(), mib(75));
  EXPECT_EQ(f.allocate(15 * kMiB), c + 5 * kMiB);
  f.free(a);
  f.free(b);
  f.allocate(70 * kMiB);
  EXPECT_EQ(f.reserved(), mib(90));
}

TEST(AllocatorPressure, ImpossibleSizesAreOutOfMemory) {
  AllocatorFixture f(100 * kMiB);
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX - 600, SIZE_MAX / 2, size_t{1} << 62}) {
    EXPECT_THROW(f.allocate(bytes), OutOfMemory) << bytes;
  }
  EXPECT_EQ(f.fake.calls, 0);
}

TEST(AllocatorPressure, HoldsTheLimit) {
  CachingAllocator::Config config = AllocatorFixture::plain();
  config.memory_limit = 50 * kMiB;
  AllocatorFixture f(100 * kMiB, config);
  f.free(f.allocate(30 * kMiB));
  EXPECT_THROW(f.allocate(51 * kMiB), OutOfMemory);
  f.allocate(50 * kMiB);
  EXPECT_EQ(f.reserved(), mib(50));
  f.allocator->set_memory_limit(size_t{1} << 50);
  f.allocate(50 * kMiB);
  EXPECT_THROW(f.allocate(2 * kMiB), OutOfMemory);  // the device has no more
}

/// A step of training in miniature: parameters live on, activations come and go.
void train_steps(AllocatorFixture& f, int steps) {
  constexpr size_t kSizes[] = {400, 70 * kKiB, 900 * kKiB, 3 * kMiB, 11 * kMiB, 25 * kMiB};
  struct Freed {  // as tensors do, also when an exception passes
    AllocatorFixture& f;
    std::vector<char*> blocks;
    ~Freed() {
      for (char* block : blocks) f.free(block);
    }
  } parameters{f, {}};
  for (const size_t size : kSizes) parameters.blocks.push_back(f.allocate(size));
  for (int step = 0; step < steps; ++step) {
    Freed activations{f, {}};
    for (int layer = 0; layer < 4; ++layer) {
      for (const size_t size : kSizes) activations.blocks.push_back(f.allocate(size));
      f.free(f.allocate(2 * kMiB));
    }
  }
}

TEST(AllocatorPressure, EverySingleFailureOfTheSourceIsSurvived) {
  AllocatorFixture whole;
  train_steps(whole, 3);
  const int calls = whole.fake.calls;
  ASSERT_GT(calls, 10);
  for (int n = 1; n <= calls; ++n) {
    AllocatorFixture f;
    f.fake.fail_at = n;
    train_steps(f, 3);  // retried: one failure alone is not fatal
    EXPECT_EQ(f.allocator->stats().num_alloc_retries, 1) << n;
    EXPECT_EQ(f.allocated(), 0) << n;
    f.allocator->empty_cache();
    EXPECT_EQ(f.fake.held, 0u) << n;
  }
}

TEST(AllocatorPressure, AnyCapacityEitherServesOrThrowsAndLeaksNothing) {
  AllocatorFixture whole;
  train_steps(whole, 3);
  int failed = 0;
  for (size_t capacity = 0; capacity < whole.fake.largest_held; capacity += 2 * kMiB) {
    AllocatorFixture f(capacity);
    try {
      train_steps(f, 3);
    } catch (const OutOfMemory&) {
      ++failed;
    }
    EXPECT_LE(f.fake.largest_held, capacity);
    EXPECT_EQ(f.allocated(), 0) << capacity;
    f.fake.capacity = whole.fake.largest_held;
    f.allocator->empty_cache();
    EXPECT_EQ(f.fake.held, 0u) << capacity;
  }
  EXPECT_GT(failed, 0);
  AllocatorFixture enough(whole.fake.largest_held);
  train_steps(enough, 3);
}

TEST(AllocatorPressure, NeedsNoNewMemoryInTheSteadyState) {
  AllocatorFixture two;
  train_steps(two, 2);
  AllocatorFixture many;
  train_steps(many, 50);
  EXPECT_EQ(many.fake.calls, two.fake.calls);
  EXPECT_EQ(many.fake.frees, 0);
  EXPECT_EQ(many.allocator->stats().all.allocated_bytes.peak,
            two.allocator->stats().all.allocated_bytes.peak);
}

// --- giving back ---------------------------------------------------------------------------------

TEST(AllocatorPressure, EmptyCacheKeepsSegmentsWithALiveBlock) {
  AllocatorFixture f;
  char* a = f.allocate(5 * kMiB);
  char* b = f.allocate(5 * kMiB);
  char* c = f.allocate(30 * kMiB);
  char* d = f.allocate(1000);
  for (char* block : {a, c, d}) f.free(block);
  f.allocator->empty_cache();
  EXPECT_EQ(f.reserved(), mib(20));
  f.free(b);
  f.allocator->empty_cache();
  EXPECT_EQ(f.reserved(), 0);
  EXPECT_EQ(f.fake.held, 0u);
  EXPECT_EQ(f.allocator->stats().num_device_alloc, 3);
  EXPECT_EQ(f.allocator->stats().num_device_free, 3);
}

TEST(AllocatorPressure, DestructionGivesEverythingBack) {
  AllocatorFixture f;
  char* a = f.allocate(5 * kMiB);
  f.allocator->record_stream(a, f.fake.stream(1));
  f.fake.work(f.fake.stream(1));
  f.free(a);
  const CachingAllocator::PoolId pool = f.allocator->create_pool();
  f.allocator->begin_allocate_to_pool(pool);
  f.free(f.allocate(5 * kMiB));
  f.allocator->end_allocate_to_pool(pool);
  f.allocator.reset();
  EXPECT_EQ(f.fake.held, 0u);
  EXPECT_EQ(f.fake.events, 0);
}

TEST(AllocatorPressure, CollectsTheLongestUnusedAboveTheThreshold) {
  CachingAllocator::Config config = AllocatorFixture::plain();
  config.garbage_collection_threshold = 0.5;
  AllocatorFixture f(200 * kMiB, config);
  std::vector<char*> blocks;
  for (const size_t size : {20, 22, 24, 26, 28}) blocks.push_back(f.allocate(size * kMiB));
  for (const int i : {3, 0, 1, 4, 2}) f.free(blocks[static_cast<size_t>(i)]);
  EXPECT_EQ(f.allocate(26 * kMiB), blocks[3]);  // used: no longer a candidate
  f.allocate(40 * kMiB);                        // 120 MiB held, 100 allowed: the 20 go
  EXPECT_EQ(f.fake.frees, 1);
  EXPECT_EQ(f.reserved(), mib(140));
  f.allocate(42 * kMiB);  // 22 and 28 go: 90 are left
  EXPECT_EQ(f.fake.frees, 3);
  EXPECT_EQ(f.reserved(), mib(132));
}

// --- figures -------------------------------------------------------------------------------------

TEST(AllocatorStats, FollowPoolsAndPeaks) {
  AllocatorFixture f;
  char* a = f.allocate(1000);
  char* b = f.allocate(15 * kMiB);
  f.free(a);
  MemoryStats s = f.allocator->stats();
  EXPECT_EQ(s.small.allocated_bytes.current, 0);
  EXPECT_EQ(s.small.allocated_bytes.peak, 1024);
  EXPECT_EQ(s.small.allocated_bytes.allocated, 1024);
  EXPECT_EQ(s.small.allocated_bytes.freed, 1024);
  EXPECT_EQ(s.small.requested_bytes.peak, 1000);
  EXPECT_EQ(s.small.reserved_bytes.current, mib(2));
  EXPECT_EQ(s.large.allocated_bytes.current, mib(16));
  EXPECT_EQ(s.large.reserved_bytes.current, mib(16));
  EXPECT_EQ(s.all.allocated_bytes.peak, mib(16) + 1024);
  EXPECT_EQ(s.all.allocation.current, 1);
  EXPECT_EQ(s.all.allocation.peak, 2);
  EXPECT_EQ(s.all.segment.current, 2);
  EXPECT_EQ(s.all.active.current, 1);
  f.allocator->reset_peak_stats();
  s = f.allocator->stats();
  EXPECT_EQ(s.all.allocated_bytes.peak, mib(16));
  EXPECT_EQ(s.small.allocated_bytes.peak, 0);
  EXPECT_EQ(s.all.reserved_bytes.peak, mib(18));
  EXPECT_EQ(s.small.allocated_bytes.allocated, 1024);
  f.free(b);
}

TEST(AllocatorStats, FormatsBytes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(int64_t{5} << 40), "5.00 TiB");
}

}  // namespace
}  // namespace wick
