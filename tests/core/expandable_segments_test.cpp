// Segments that grow: memory behind reserved addresses, page by page.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "wick/core/stream.h"
#include "wick/core/tensor.h"
#include "wick/tests/core/allocator_fixture.h"

namespace wick {
namespace {

TEST(ExpandableSegments, GrowByPagesWhereTheyAre) {
  Growing f;
  char* a = f.allocate(5 * kMiB);
  EXPECT_EQ(f.reserved(), static_cast<int64_t>(20 * kMiB));
  char* b = f.allocate(30 * kMiB);  // a rest of 15 MiB, and one page more
  EXPECT_EQ(b, a + 5 * kMiB);
  EXPECT_EQ(f.reserved(), static_cast<int64_t>(40 * kMiB));
  char* small = f.allocate(kKiB);
  EXPECT_EQ(f.reserved(), static_cast<int64_t>(42 * kMiB));
  EXPECT_EQ(f.fake.reserved.size(), 2u);  // of small and of large requests
  EXPECT_EQ(f.fake.pages.size(), 3u);
  EXPECT_EQ(f.fake.segments.size(), 0u);
  // Addresses for an eighth more than the device has, in whole pages.
  const uintptr_t address = reinterpret_cast<uintptr_t>(a);
  EXPECT_EQ(f.fake.reserved.at(address),
            (f.fake.capacity / 8 * 9 + 20 * kMiB - 1) / (20 * kMiB) * (20 * kMiB));
  const std::vector<SegmentInfo> segments = f.allocator->snapshot();
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_TRUE(segments[0].expandable);
  EXPECT_EQ(segments[0].size, 40 * kMiB);
  EXPECT_EQ(segments[0].blocks.size(), 3u);
  EXPECT_EQ(f.allocator->stats().all.segment.current, 2);
  for (char* p : {a, b, small}) f.free(p);
  f.allocator->empty_cache();
  EXPECT_EQ(f.fake.held, 0u);
  EXPECT_TRUE(f.fake.reserved.empty());
  EXPECT_EQ(f.allocator->stats().all.segment.current, 0);
}

TEST(ExpandableSegments, PagesThatFailToGoBackAreNotReused) {
  Growing f;
  char* const block = f.allocate(30 * kMiB);
  f.free(block);
  f.fake.broken = true;
  EXPECT_THROW(f.allocator->empty_cache(), Error);
  f.fake.broken = false;
  EXPECT_NE(f.allocate(30 * kMiB), block);
  EXPECT_EQ(f.reserved(), static_cast<int64_t>(80 * kMiB));
  f.allocator->empty_cache();
  EXPECT_EQ(f.fake.held, 80 * kMiB);
}

TEST(ExpandableSegments, EachStreamHasItsOwn) {
  Growing f;
  f.allocate(5 * kMiB, 0);
  f.allocate(5 * kMiB, 1);
  EXPECT_EQ(f.fake.reserved.size(), 2u);
}

TEST(ExpandableSegments, EmptyCacheTakesWholePagesOutOfTheMiddle) {
  Growing f;
  char* a = f.allocate(15 * kMiB);
  char* b = f.allocate(60 * kMiB);
  char* c = f.allocate(5 * kMiB);
  ASSERT_EQ(f.fake.pages.size(), 4u);
  f.free(b);  // from 15 to 75 of 80 MiB: the pages from 20 to 60 are free
  f.allocator->empty_cache();
  EXPECT_EQ(f.fake.pages.size(), 2u);
  EXPECT_EQ(f.reserved(), static_cast<int64_t>(40 * kMiB));
  const std::vector<SegmentInfo> segments = f.allocator->snapshot();
  ASSERT_EQ(segments.size(), 2u);  // what has no memory parts them
  EXPECT_EQ(segments[0].size, 20 * kMiB);
  EXPECT_EQ(segments[1].size, 20 * kMiB);

  EXPECT_EQ(f.allocate(56 * kMiB), a + 15 * kMiB);  // the hole has memory again
  EXPECT_EQ(f.fake.pages.size(), 4u);
  EXPECT_EQ(f.allocator->snapshot().size(), 1u);
  EXPECT_EQ(f.fake.reserved.size(), 1u);
  (void)c;
}

TEST(ExpandableSegments, KeepWhatCanGrowForWhatNeedsIt) {
  Growing f;
  char* a = f.allocate(10 * kMiB);
  f.allocate(2 * kMiB);
  char* rest = f.allocate(8 * kMiB);  // up to the end of what has memory
  f.free(a);
  f.free(rest);
  EXPECT_EQ(f.allocate(7 * kMiB), a);
}

TEST(ExpandableSegments, AreOffUnlessAskedForAndWhereTheSourceCannot) {
  AllocatorFixture off;
  off.allocate(5 * kMiB);
  EXPECT_EQ(off.fake.reserved.size(), 0u);
  EXPECT_FALSE(off.allocator->snapshot()[0].expandable);

  struct Simple final : FakeSource {
    using FakeSource::FakeSource;
    bool can_map() const override { return false; }
  };
  FakeDevice fake;
  CachingAllocator allocator(std::make_unique<Simple>(fake), Growing::growing());
  allocator.deallocate(allocator.allocate(5 * kMiB, fake.stream(0)));
  EXPECT_EQ(fake.segments.size(), 1u);
}

TEST(ExpandableSegments, AreReadFromText) {
  EXPECT_TRUE(AllocatorConfig::parse("expandable_segments:True", {}).expandable_segments);
  EXPECT_FALSE(
      AllocatorConfig::parse("expandable_segments:false", Growing::growing()).expandable_segments);
  EXPECT_EQ(error_of([] { AllocatorConfig::parse("expandable_segments:1", {}); }),
            "allocator: bad expandable_segments: got \"1\", expected true or false");
}

TEST(ExpandableSegments, HistoryTellsOfPages) {
  Growing f;
  f.allocator->record_history(100);
  f.free(f.allocate(25 * kMiB));
  f.allocator->empty_cache();
  std::vector<MemoryEvent> history;
  f.allocator->snapshot(&history);
  using enum MemoryAction;
  std::vector<MemoryAction> actions;
  for (const MemoryEvent& event : history) actions.push_back(event.action);
  EXPECT_EQ(actions, (std::vector<MemoryAction>{kSegmentMap, kAllocate, kFree, kFreeCompleted,
                                                kSegmentUnmap}));
  EXPECT_EQ(history[0].size, 40 * kMiB);
}

// --- random traces -------------------------------------------------------------------------------

/// Random requests on two streams; `fail_at`: the call for memory that fails.
class GrowingTrace {
 public:
  GrowingTrace(uint32_t seed, size_t capacity, int fail_at = 0) : random_(seed), f_(capacity) {
    f_.fake.fail_at = fail_at;
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      if (live_.empty() || next(100) < (i / 50 % 2 == 0 ? 65u : 35u)) {
        add();
      } else {
        remove(next(live_.size()));
      }
      if (next(100) == 0) f_.allocator->empty_cache();
      ASSERT_EQ(f_.reserved(), static_cast<int64_t>(f_.fake.held));
      ASSERT_LE(f_.fake.held, f_.fake.capacity);
    }
    check_snapshot();
    while (!live_.empty()) remove(live_.size() - 1);
    f_.allocator->empty_cache();
    EXPECT_EQ(f_.fake.held, 0u);
    EXPECT_TRUE(f_.fake.pages.empty());
    EXPECT_TRUE(f_.fake.reserved.empty());
    EXPECT_EQ(f_.allocator->stats().all.segment.current, 0);
  }

  int failures() const { return failures_; }
  int calls() const { return f_.fake.calls; }

 private:
  size_t next(size_t n) { return random_() % n; }

  void add() {
    const size_t bytes = (size_t{1} << next(27)) + next(5000);
    char* p = nullptr;
    try {
      p = f_.allocate(bytes, static_cast<int>(next(2)));
    } catch (const OutOfMemory&) {
      ++failures_;
      return;
    }
    const auto begin = reinterpret_cast<uintptr_t>(p);
    const auto after = live_.lower_bound(begin);
    if (after != live_.end()) {
      EXPECT_LE(begin + bytes, after->first);
    }
    if (after != live_.begin()) {
      EXPECT_LE(std::prev(after)->first + std::prev(after)->second, begin);
    }
    live_[begin] = bytes;
    // There is memory behind every byte of it.
    auto page = std::prev(f_.fake.pages.upper_bound(begin));
    uintptr_t end = begin;
    for (; page != f_.fake.pages.end() && page->first <= end && end < begin + bytes; ++page) {
      end = page->first + page->second;
    }
    EXPECT_GE(end, begin + bytes);
  }

  void remove(size_t index) {
    const auto it = std::next(live_.begin(), static_cast<std::ptrdiff_t>(index));
    f_.free(reinterpret_cast<void*>(it->first));
    live_.erase(it);
  }

  // Segments are what has memory, in address order, and their blocks leave no gaps.
  void check_snapshot() {
    size_t mapped = 0, live = 0;
    uintptr_t last = 0;
    for (const SegmentInfo& segment : f_.allocator->snapshot()) {
      EXPECT_GT(segment.address, last);
      uintptr_t at = segment.address;
      bool was_free = false;
      for (const BlockInfo& block : segment.blocks) {
        EXPECT_EQ(block.address, at);
        at += block.size;
        const bool is_free = block.state == BlockState::kFree;
        EXPECT_FALSE(is_free && was_free) << "two free neighbours";
        was_free = is_free;
        live += is_free ? 0 : 1;
      }
      EXPECT_EQ(at, segment.address + segment.size);
      last = at - 1;
      mapped += segment.size;
    }
    EXPECT_EQ(mapped, f_.fake.held);
    EXPECT_EQ(live, live_.size());
  }

  std::mt19937 random_;
  Growing f_;
  std::map<uintptr_t, size_t> live_;
  int failures_ = 0;
};

TEST(ExpandableSegments, RandomTracesKeepBlocksApartAndGiveAllBack) {
  int failures = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    GrowingTrace trace(seed, 400 * kMiB);
    trace.run(500);
    failures += trace.failures();
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(failures, 0);  // else the capacity tested nothing
}

TEST(ExpandableSegments, EverySingleFailureToMapIsSurvived) {
  GrowingTrace whole(7, size_t{8} << 30);
  whole.run(200);
  EXPECT_EQ(whole.failures(), 0);
  for (int n = 1; n <= whole.calls(); ++n) {
    SCOPED_TRACE(n);
    GrowingTrace trace(7, size_t{8} << 30, n);
    trace.run(200);
    EXPECT_EQ(trace.failures(), 0);  // the second attempt finds memory
    if (::testing::Test::HasFailure()) return;
  }
}

// --- fragments -----------------------------------------------------------------------------------

/// Training whose batches grow: what was cached for the last batch is too small for the next.
size_t held_for_growing_batches(AllocatorFixture& f) {
  for (size_t batch = 64; batch <= 128; batch += 8) {
    std::vector<char*> kept;
    for (size_t layer = 0; layer < 24; ++layer) {
      kept.push_back(f.allocate(batch * (512 >> (layer / 6)) * kKiB / 2));
    }
    while (!kept.empty()) {
      f.free(kept.back());
      kept.pop_back();
    }
  }
  return f.fake.largest_held;
}

TEST(ExpandableSegments, HoldLessThanSegmentsThatCannotGrow) {
  AllocatorFixture fixed;
  Growing growing_fixture(size_t{1} << 40);
  size_t last_batch = 0;
  for (size_t layer = 0; layer < 24; ++layer) {
    last_batch += 128 * (512 >> (layer / 6)) * kKiB / 2;
  }
  const size_t held = held_for_growing_batches(growing_fixture);
  EXPECT_LE(held, last_batch + 20 * kMiB);
  EXPECT_GT(held_for_growing_batches(fixed), held + held / 10);
}

// --- real memory ---------------------------------------------------------------------------------

TEST(ExpandableSegments, AreWhatTheCpuHas) {
  if (!make_host_source()->can_map()) GTEST_SKIP() << "ulimit -v rations addresses";
  const Tensor some = empty({1 << 20});
  for (const SegmentInfo& segment : memory_snapshot(kCpu)) EXPECT_TRUE(segment.expandable);
}

TEST(ExpandableSegments, AreNotForAHostThatRationsAddresses) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlimit rationed{std::min(before.rlim_max, RLIM_INFINITY - 1), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &rationed), 0);
  const bool can = make_host_source()->can_map();
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_FALSE(can);
}

TEST(ExpandableSegments, WorkOnTheHost) {
  CachingAllocator::Config config;
  config.granule = 64;
  config.expandable_segments = true;
  CachingAllocator host(make_host_source(), config);
  const Stream stream = current_stream(kCpu);
  std::mt19937 random(3);
  std::vector<std::pair<unsigned char*, size_t>> live;
  for (int i = 0; i < 300; ++i) {
    if (live.empty() || random() % 100 < 55) {
      const size_t bytes = (size_t{1} << random() % 25) + random() % 5000;
      auto* p = static_cast<unsigned char*>(host.allocate(bytes, stream));
      std::memset(p, i, bytes);
      live.emplace_back(p, bytes);
    } else {
      const size_t k = random() % live.size();
      const auto [p, bytes] = live[k];
      EXPECT_EQ(p[0], p[bytes - 1]);
      host.deallocate(p);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(k));
    }
    if (i % 60 == 59) host.empty_cache();
  }
  for (const auto& [p, bytes] : live) host.deallocate(p);
  host.empty_cache();
  EXPECT_EQ(host.stats().all.reserved_bytes.current, 0);
}

}  // namespace
}  // namespace wick
