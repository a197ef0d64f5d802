#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "wick/tests/core/allocator_fixture.h"

namespace wick {
namespace {

// --- sizes ---------------------------------------------------------------------------------------

TEST(Allocator, RoundsAndTakesSegmentsBySizeClass) {
  struct Case {
    size_t bytes, rounded, segment;
  };
  const Case cases[] = {
      {1, 512, 2 * kMiB},
      {512, 512, 2 * kMiB},
      {513, 1024, 2 * kMiB},
      {kMiB, kMiB, 2 * kMiB},
      {kMiB + 1, kMiB + 512, 20 * kMiB},
      {10 * kMiB - 512, 10 * kMiB - 512, 20 * kMiB},
      {10 * kMiB - 511, 10 * kMiB, 10 * kMiB},
      {11 * kMiB, 12 * kMiB, 12 * kMiB},  // a rest of at most 1 MiB stays with the block
      {11 * kMiB - 512, 11 * kMiB - 512, 12 * kMiB},
      {33 * kMiB, 34 * kMiB, 34 * kMiB},
  };
  for (const Case& c : cases) {
    AllocatorFixture f;
    f.allocate(c.bytes);
    EXPECT_EQ(f.reserved(), static_cast<int64_t>(c.segment)) << c.bytes;
    EXPECT_EQ(f.allocator->stats().all.requested_bytes.current, static_cast<int64_t>(c.bytes));
    const bool small = c.bytes <= kMiB;
    EXPECT_EQ(f.allocator->snapshot().at(0).small, small) << c.bytes;
    EXPECT_EQ(f.allocated(), static_cast<int64_t>(c.rounded)) << c.bytes;
  }
}

TEST(Allocator, ZeroBytesAreNull) {
  AllocatorFixture f;
  EXPECT_EQ(f.allocate(0), nullptr);
  f.free(nullptr);
  f.allocator->record_stream(nullptr, f.fake.stream(1));
  EXPECT_EQ(f.fake.calls, 0);
}

TEST(Allocator, HostGranuleIs64) {
  CachingAllocator::Config config = AllocatorFixture::plain();
  config.granule = 64;
  AllocatorFixture f(size_t{1} << 40, config);
  char* a = f.allocate(4);
  char* b = f.allocate(65);
  char* c = f.allocate(4);
  EXPECT_EQ(b - a, 64);
  EXPECT_EQ(c - b, 128);
}

TEST(Allocator, RoundsUpToDivisionsOfPowersOfTwo) {
  CachingAllocator::Config config = AllocatorFixture::plain();
  config.roundup_power2_divisions.fill(4);
  config.roundup_power2_divisions[2] = 0;  // from 4 to 8 MiB: plain rounding
  const auto rounded = [&](size_t bytes) {
    AllocatorFixture f(size_t{1} << 40, config);
    f.allocate(bytes);
    return static_cast<size_t>(f.allocated());
  };
  EXPECT_EQ(rounded(1200), 1536u);  // at most granule x divisions: plain
  EXPECT_EQ(rounded(4200), 5 * kKiB);
  EXPECT_EQ(rounded(1200 * kKiB), 1280 * kKiB);
  EXPECT_EQ(rounded(1024 * kKiB), 1024 * kKiB);
  EXPECT_EQ(rounded(2049 * kKiB), 2560 * kKiB);
  EXPECT_EQ(rounded(4097 * kKiB), 4097 * kKiB);
  config.roundup_power2_divisions[3] = 3;
  EXPECT_NE(error_of([&] { AllocatorFixture f(kMiB, config); }).find("roundup_power2_divisions"),
            std::string::npos);
}

TEST(Allocator, RedzoneLiesBehindEveryBlock) {
  CachingAllocator::Config config = AllocatorFixture::plain();
  config.redzone = 64;
  AllocatorFixture f(size_t{1} << 40, config);
  char* a = f.allocate(512);
  EXPECT_EQ(f.allocate(512) - a, 1024);
}

// --- splitting, merging, best fit ----------------------------------------------------------------

TEST(Allocator, SplitsAndMergesNeighbours) {
  AllocatorFixture f;
  char* a = f.allocate(600);
  char* b = f.allocate(600);
  char* c = f.allocate(600);
  EXPECT_EQ(b, a + 1024);
  EXPECT_EQ(c, b + 1024);
  f.free(a);
  f.free(c);  // merges with the rest of the segment behind it
  std::vector<SegmentInfo> segments = f.allocator->snapshot();
  ASSERT_EQ(segments.size(), 1u);
  ASSERT_EQ(segments[0].blocks.size(), 3u);
  EXPECT_EQ(segments[0].blocks[0].state, BlockState::kFree);
  EXPECT_EQ(segments[0].blocks[1].state, BlockState::kLive);
  EXPECT_EQ(segments[0].blocks[1].requested, 600u);
  EXPECT_EQ(segments[0].blocks[2].size, 2 * kMiB - 2048);
  EXPECT_EQ(f.allocator->stats().all.inactive_split.current, 2);
  EXPECT_EQ(f.allocator->stats().all.inactive_split_bytes.current,
            static_cast<int64_t>(2 * kMiB - 1024));
  f.free(b);  // merges with both sides
  segments = f.allocator->snapshot();
  ASSERT_EQ(segments[0].blocks.size(), 1u);
  EXPECT_EQ(segments[0].size, 2 * kMiB);
  EXPECT_EQ(f.allocator->stats().all.inactive_split.current, 0);
  EXPECT_EQ(f.allocator->stats().all.inactive_split_bytes.current, 0);
  EXPECT_EQ(f.fake.calls, 1);
}

TEST(Allocator, LargeRestsUpToOneMiBStayWithTheBlock) {
  AllocatorFixture f;
  char* a = f.allocate(30 * kMiB);
  f.free(a);
  EXPECT_EQ(f.allocate(29 * kMiB), a);
  EXPECT_EQ(f.allocated(), static_cast<int64_t>(30 * kMiB));
  f.free(a);
  EXPECT_EQ(f.allocate(29 * kMiB - 512), a);
  EXPECT_EQ(f.allocated(), static_cast<int64_t>(29 * kMiB - 512));
  EXPECT_EQ(f.fake.calls, 1);
}

TEST(Allocator, TakesTheSmallestBlockThatFitsAndOfEqualsTheLowest) {
  AllocatorFixture f;
  std::vector<char*> blocks;
  for (const size_t mib : {40, 20, 14, 20, 14}) blocks.push_back(f.allocate(mib * kMiB));
  for (char* block : blocks) f.free(block);
  EXPECT_EQ(f.allocate(14 * kMiB), blocks[2]);
  EXPECT_EQ(f.allocate(13 * kMiB + 1), blocks[4]);
  EXPECT_EQ(f.allocate(14 * kMiB), blocks[1]);  // 20 MiB: cut, 6 MiB left
  EXPECT_EQ(f.allocate(5 * kMiB), blocks[1] + 14 * kMiB);
  EXPECT_EQ(f.allocate(21 * kMiB), blocks[0]);
  EXPECT_EQ(f.fake.calls, 5);
}

TEST(Allocator, OversizeBlocksAreNeitherSplitNorWasted) {
  CachingAllocator::Config config = AllocatorFixture::plain();
  config.max_split_size = 64 * kMiB;
  AllocatorFixture f(size_t{1} << 40, config);
  char* large = f.allocate(100 * kMiB);
  EXPECT_EQ(f.allocator->stats().oversize_allocation.current, 1);
  EXPECT_EQ(f.allocator->stats().oversize_segment.current, 1);
  f.free(large);
  EXPECT_NE(f.allocate(30 * kMiB), large);  // smaller than max_split_size
  EXPECT_NE(f.allocate(80 * kMiB), large);  // 20 MiB smaller than the block
  EXPECT_EQ(f.allocate(81 * kMiB), large);  // near enough; not split
  EXPECT_EQ(f.allocator->snapshot()[0].blocks.size(), 1u);
  EXPECT_EQ(f.fake.calls, 3);
  char* just = f.allocate(64 * kMiB);
  f.free(just);
  EXPECT_NE(f.allocate(63 * kMiB), just);  // near, but may itself be split
  config.max_split_size = 20 * kMiB;
  EXPECT_NE(error_of([&] { AllocatorFixture g(kMiB, config); }).find("max_split_size"),
            std::string::npos);
}

TEST(Allocator, QuickListsReuseTheLatestBlockOfTheSizeAndMergeBeforeGrowing) {
  CachingAllocator::Config config = AllocatorFixture::plain();
  config.quick_size = 4096;
  AllocatorFixture f(size_t{1} << 40, config);
  char* a = f.allocate(1000);
  char* b = f.allocate(1000);
  f.free(a);
  f.free(b);
  EXPECT_EQ(f.allocate(900), b);
  EXPECT_EQ(f.allocate(1024), a);
  EXPECT_NE(error_of([&] {
              f.free(b);
              f.free(b);
            }).find("deallocate: not a live block"),
            std::string::npos);
  f.free(a);
  std::vector<char*> all;
  for (size_t i = 0; i < 2 * kMiB / 512; ++i) all.push_back(f.allocate(512));
  EXPECT_EQ(f.fake.calls, 1);  // a and b gave way to smaller blocks
  EXPECT_EQ(f.allocator->stats().all.inactive_split_bytes.current, 0);
  for (char* block : all) f.free(block);
  EXPECT_EQ(f.allocator->stats().all.inactive_split_bytes.current, static_cast<int64_t>(2 * kMiB));
  f.allocate(kMiB);
  EXPECT_EQ(f.fake.calls, 1);
}

// --- streams -------------------------------------------------------------------------------------

TEST(Allocator, StreamsDoNotShareBlocks) {
  AllocatorFixture f;
  char* a = f.allocate(20 * kMiB, 1);
  f.free(a);
  EXPECT_NE(f.allocate(20 * kMiB, 2), a);
  EXPECT_EQ(f.allocate(20 * kMiB, 1), a);
}

TEST(Allocator, RecordedStreamsHoldAFreedBlockUntilTheirWorkIsDone) {
  AllocatorFixture f;
  char* a = f.allocate(20 * kMiB, 0);
  f.allocator->record_stream(a, f.fake.stream(0));  // its own: no event
  f.allocator->record_stream(a, f.fake.stream(1));
  f.allocator->record_stream(a, f.fake.stream(1));
  f.allocator->record_stream(a, f.fake.stream(2));
  f.fake.work(f.fake.stream(1));
  f.fake.work(f.fake.stream(2));
  f.free(a);
  EXPECT_EQ(f.fake.recorded, 2);
  EXPECT_EQ(f.allocated(), 0);
  EXPECT_EQ(f.allocator->stats().all.active_bytes.current, static_cast<int64_t>(20 * kMiB));
  EXPECT_EQ(f.allocator->snapshot()[0].blocks[0].state, BlockState::kPending);
  EXPECT_NE(f.allocate(20 * kMiB, 0), a);
  f.fake.finish(f.fake.stream(1));
  EXPECT_NE(f.allocate(20 * kMiB, 0), a);
  f.fake.finish(f.fake.stream(2));
  f.fake.work(f.fake.stream(2));  // later work does not matter
  EXPECT_EQ(f.allocate(20 * kMiB, 0), a);
  EXPECT_EQ(f.fake.events, 0);
}

TEST(Allocator, APendingBlockIsNotMerged) {
  AllocatorFixture f;
  char* a = f.allocate(4 * kMiB);
  char* b = f.allocate(4 * kMiB);
  f.allocator->record_stream(b, f.fake.stream(1));
  f.fake.work(f.fake.stream(1));
  f.free(b);
  f.free(a);
  EXPECT_EQ(f.allocator->snapshot()[0].blocks.size(), 3u);
  f.fake.finish(f.fake.stream(1));
  f.allocate(512);  // looks at the events
  EXPECT_EQ(f.allocator->snapshot()[0].blocks.size(), 1u);
}

TEST(Allocator, RejectsPointersThatAreNotLive) {
  AllocatorFixture f;
  char* a = f.allocate(5000);
  int unknown = 0;
  EXPECT_NE(error_of([&] { f.free(&unknown); }).find("not a live block of cuda:0"),
            std::string::npos);
  EXPECT_NE(error_of([&] { f.free(a + 512); }).find("not a live block"), std::string::npos);
  f.free(a);
  EXPECT_NE(error_of([&] { f.free(a); }).find("not a live block"), std::string::npos);
  EXPECT_NE(error_of([&] {
              f.allocator->record_stream(a, f.fake.stream(1));
            }).find("record_stream: not a live block"),
            std::string::npos);
  char* b = f.allocate(5000);
  f.allocator->record_stream(b, f.fake.stream(1));
  f.fake.work(f.fake.stream(1));
  f.free(b);
  EXPECT_NE(error_of([&] { f.free(b); }).find("not a live block"), std::string::npos);
  EXPECT_EQ(f.allocated(), 0);
}

// --- private pools -------------------------------------------------------------------------------

TEST(Allocator, PrivatePoolsKeepTheirMemoryApart) {
  AllocatorFixture f;
  char* outside = f.allocate(20 * kMiB);
  f.free(outside);
  const CachingAllocator::PoolId pool = f.allocator->create_pool();
  f.allocator->begin_allocate_to_pool(pool);
  char* inside = f.allocate(20 * kMiB);
  EXPECT_NE(inside, outside);
  f.free(inside);
  EXPECT_EQ(f.allocate(20 * kMiB), inside);
  f.free(inside);
  char* joined = f.allocate(20 * kMiB, 1);  // on a stream that joins the capture
  f.free(joined);
  char* others = nullptr;
  std::thread([&] { others = f.allocate(20 * kMiB); }).join();
  EXPECT_EQ(others, outside);
  f.free(others);
  EXPECT_NE(error_of([&] { f.allocator->release_pool(pool); }).find("still allocated to"),
            std::string::npos);
  f.allocator->end_allocate_to_pool(pool);
  EXPECT_EQ(f.allocate(20 * kMiB), outside);
  f.free(outside);
  f.allocator->empty_cache();
  std::vector<SegmentInfo> segments = f.allocator->snapshot();
  ASSERT_EQ(segments.size(), 2u);  // a replayed graph would use them
  for (const SegmentInfo& segment : segments) EXPECT_EQ(segment.pool, pool);
  f.allocator->release_pool(pool);
  f.allocator->empty_cache();
  EXPECT_EQ(f.fake.held, 0u);
  EXPECT_NE(error_of([&] { f.allocator->begin_allocate_to_pool(pool); }).find("no such pool"),
            std::string::npos);
  EXPECT_NE(error_of([&] { f.allocator->end_allocate_to_pool(pool); }).find("was not begun"),
            std::string::npos);
}

TEST(Allocator, NoEventIsRecordedNorQueriedDuringACapture) {
  AllocatorFixture f;
  char* a = f.allocate(20 * kMiB);
  f.allocator->record_stream(a, f.fake.stream(1));
  const CachingAllocator::PoolId pool = f.allocator->create_pool();
  f.allocator->begin_allocate_to_pool(pool);
  f.free(a);
  EXPECT_EQ(f.fake.recorded, 0);
  EXPECT_NE(f.allocate(20 * kMiB), a);
  f.allocator->end_allocate_to_pool(pool);
  EXPECT_EQ(f.fake.recorded, 1);
  f.allocator->begin_allocate_to_pool(pool);
  EXPECT_NE(f.allocate(20 * kMiB), a);
  f.allocator->end_allocate_to_pool(pool);
  EXPECT_EQ(f.allocate(20 * kMiB), a);
}

// --- configuration -------------------------------------------------------------------------------

TEST(Allocator, NothingIsGivenBackDuringACapture) {
  AllocatorFixture f(100 * kMiB);
  f.free(f.allocate(60 * kMiB));
  const CachingAllocator::PoolId pool = f.allocator->create_pool();
  f.allocator->begin_allocate_to_pool(pool);
  EXPECT_THROW(f.allocate(50 * kMiB), OutOfMemory);
  f.allocator->empty_cache();
  EXPECT_EQ(f.fake.frees, 0);
  f.allocator->end_allocate_to_pool(pool);
  f.allocate(80 * kMiB);
  EXPECT_EQ(f.fake.frees, 1);
}

TEST(Allocator, APoolIsReleasedOnce) {
  AllocatorFixture f;
  const CachingAllocator::PoolId pool = f.allocator->create_pool();
  f.allocator->release_pool(pool);
  EXPECT_EQ(error_of([&] { f.allocator->release_pool(pool); }),
            concat("release_pool: no such pool, or released before: got ", pool));
}

// --- devices that break -------------------------------------------------------------------------

TEST(Allocator, ABlockWithoutAMarkIsNeverReused) {
  AllocatorFixture f;
  char* const block = f.allocate(kMiB);
  f.allocator->record_stream(block, f.fake.stream(1));
  f.allocator->record_stream(block, f.fake.stream(2));
  f.fake.broken = true;
  EXPECT_NO_THROW(f.free(block));
  f.fake.broken = false;
  EXPECT_EQ(f.allocated(), 0);
  f.allocator->empty_cache();
  EXPECT_NE(f.allocate(kMiB), block);
}

TEST(Allocator, WhatCannotBeGivenBackIsKept) {
  AllocatorFixture f;
  char* const block = f.allocate(30 * kMiB);
  f.free(block);
  f.fake.broken = true;
  EXPECT_THROW(f.allocator->empty_cache(), Error);
  f.fake.broken = false;
  EXPECT_EQ(f.reserved(), int64_t{30 * kMiB});
  EXPECT_EQ(f.fake.held, 30 * kMiB);
  EXPECT_EQ(f.allocate(30 * kMiB), block);
}

TEST(AllocatorConfig, ParsesTextOverADefault) {
  AllocatorConfig base;
  base.granule = 64;
  const AllocatorConfig config = AllocatorConfig::parse(
      "max_split_size_mb:128,garbage_collection_threshold:0.8,roundup_power2_divisions:8,"
      "memory_limit_mb:4096",
      base);
  EXPECT_EQ(config.granule, 64u);
  EXPECT_EQ(config.max_split_size, 128 * kMiB);
  EXPECT_EQ(config.garbage_collection_threshold, 0.8);
  EXPECT_EQ(config.roundup_power2_divisions[0], 8);
  EXPECT_EQ(config.roundup_power2_divisions[15], 8);
  EXPECT_EQ(config.memory_limit, 4096 * kMiB);
  EXPECT_EQ(AllocatorConfig::parse("", base).max_split_size, AllocatorConfig::kUnlimited);
  const char* wrong[] = {"max_split_size_mb:",
                         "max_split_size_mb:12x",
                         "max_split_size_mb",
                         "garbage_collection_threshold:2",
                         "memory_limit_mb:-5",
                         "memory_limit:5",
                         "roundup_power2_divisions:99999999999"};
  for (const char* text : wrong) {
    EXPECT_NE(error_of([&] { AllocatorConfig::parse(text, base); }).find("allocator: "),
              std::string::npos)
        << text;
  }
}

// What PyTorch 2.15 reads in them.
TEST(AllocatorConfig, ParsesListsOfDivisionsBySize) {
  using Divisions = decltype(AllocatorConfig::roundup_power2_divisions);
  const auto parsed = [](const std::string& list) {
    return AllocatorConfig::parse("roundup_power2_divisions:" + list, {}).roundup_power2_divisions;
  };
  EXPECT_EQ(parsed("[256:1,512:2,1024:4,>:8]"),
            (Divisions{1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8}));
  EXPECT_EQ(parsed("[4:2,16:4]"), (Divisions{2, 2, 2, 0, 4}));
  EXPECT_EQ(parsed("[1:0,32768:1]"), (Divisions{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}));
  const AllocatorConfig both = AllocatorConfig::parse(
      "memory_limit_mb:64,roundup_power2_divisions:[1:2,>:4],max_split_size_mb:30", {});
  EXPECT_EQ(both.memory_limit, 64 * kMiB);
  EXPECT_EQ(both.roundup_power2_divisions[15], 4);
  EXPECT_EQ(both.max_split_size, 30 * kMiB);
}

TEST(AllocatorConfig, SaysWhatIsWrongWithAList) {
  const std::pair<const char*, const char*> wrong[] = {
      {"[4:2", "expected a list that ends in ]"},
      {"[4:2,>:8", "expected a list that ends in ]"},
      {"[4:2]8", "expected a list that ends in ]"},
      {"[]", "expected MiB:DIVISIONS in each place"},
      {"[4:2,]", "expected MiB:DIVISIONS in each place"},
      {"[4]", "expected MiB:DIVISIONS in each place"},
      {"[>:8]", "expected > in the last place only"},
      {"[4:2,>:8,16:4]", "expected > in the last place only"},
      {"[4:2,3:4]", "expected powers of two in ascending order"},
      {"[4:2,4:4]", "expected powers of two in ascending order"},
      {"[8:2,4:4]", "expected powers of two in ascending order"},
      {"[4:]", "got \"\", expected a number from 0 to 1024"},
      {"[4:2:1]", "got \"2:1\", expected a number from 0 to 1024"},
      {"[65536:2]", "got \"65536\", expected a number from 1 to 32768"},
      {"[0:2]", "got \"0\", expected a number from 1 to 32768"},
      {"[4:-1]", "got \"-1\", expected a number from 0 to 1024"}};
  for (const auto& [text, why] : wrong) {
    const std::string error = error_of(
        [text = text] { AllocatorConfig::parse(concat("roundup_power2_divisions:", text), {}); });
    EXPECT_EQ(error.rfind("allocator: bad roundup_power2_divisions: ", 0), 0u) << text << error;
    EXPECT_NE(error.find(why), std::string::npos) << text << ": " << error;
  }
}

}  // namespace
}  // namespace wick
