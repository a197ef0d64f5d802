// Properties that must hold for any sequence of requests, from any threads, and on the CPU device.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "wick/tests/core/allocator_fixture.h"

namespace wick {
namespace {

// --- random traces -------------------------------------------------------------------------------

/// Live blocks as the caller sees them, and the checks that hold at any time.
class Trace {
 public:
  Trace(uint32_t seed, bool with_streams)
      : random_(seed), with_streams_(with_streams), f_(kCapacity, config(seed)) {}

  void step() {
    const bool allocate = live_.empty() || next(100) < (draining_ ? 20u : 55u);
    if (next(60) == 0) draining_ = !draining_;
    if (allocate) {
      add();
    } else {
      remove(next(live_.size()));
    }
    if (with_streams_ && next(8) == 0) f_.fake.finish(f_.fake.stream(static_cast<int>(next(3))));
    if (next(200) == 0) f_.allocator->empty_cache();
  }

  void finish() {
    while (!live_.empty()) remove(next(live_.size()));
    EXPECT_EQ(f_.allocated(), 0);
    EXPECT_LE(f_.fake.largest_held, kCapacity);
    EXPECT_EQ(f_.reserved(), static_cast<int64_t>(f_.fake.held));
    for (int i = 0; i < 3; ++i) f_.fake.finish(f_.fake.stream(i));
    f_.allocate(1);  // looks at the events
    int parts = 0;
    for (const SegmentInfo& segment : f_.allocator->snapshot()) {
      parts += static_cast<int>(segment.blocks.size());
      parts -= 1;
    }
    if (!quick_) {
      EXPECT_EQ(parts, 1);  // the block above cuts one segment in two
    }
    f_.allocator->empty_cache();
    EXPECT_EQ(f_.fake.held, 2 * kMiB);
    EXPECT_EQ(f_.fake.events, 0);
    EXPECT_EQ(f_.allocator->stats().all.active.current, 1);
    EXPECT_EQ(f_.allocator->stats().all.segment.current, 1);
  }

  int failures() const { return failures_; }

 private:
  static constexpr size_t kCapacity = 200 * kMiB;

  CachingAllocator::Config config(uint32_t seed) {
    CachingAllocator::Config c = AllocatorFixture::plain();
    quick_ = seed % 2 == 0;
    if (quick_) c.quick_size = 4096;
    if (seed % 3 == 0) c.granule = 64;
    if (seed % 5 == 0) c.max_split_size = 40 * kMiB;
    if (seed % 7 == 0) c.garbage_collection_threshold = 0.6;
    granule_ = c.granule;
    oracle_ = !quick_ && !with_streams_ && seed % 5 != 0;
    return c;
  }

  size_t next(size_t n) { return random_() % n; }

  /// Sizes over all classes, as often small as large.
  size_t size() { return (size_t{1} << next(26)) + next(5000); }

  void add() {
    const size_t bytes = size();
    const Stream stream = f_.fake.stream(static_cast<int>(next(2)));
    const uintptr_t expected = oracle_ ? best_fit(bytes, stream) : 0;
    void* pointer = nullptr;
    try {
      pointer = f_.allocator->allocate(bytes, stream);
    } catch (const OutOfMemory&) {
      ++failures_;
      EXPECT_EQ(expected, 0u);
      return;
    }
    const auto begin = reinterpret_cast<uintptr_t>(pointer);
    if (expected != 0) {
      EXPECT_EQ(begin, expected) << bytes;
    }
    EXPECT_EQ(begin % granule_, 0u);
    const auto after = live_.lower_bound(begin);
    if (after != live_.end()) {
      EXPECT_LE(begin + bytes, after->first);
    }
    if (after != live_.begin()) {
      const auto before = std::prev(after);
      EXPECT_LE(before->first + before->second, begin);
    }
    const auto segment = f_.fake.segments.upper_bound(begin);
    ASSERT_NE(segment, f_.fake.segments.begin());
    const auto& [start, length] = *std::prev(segment);
    EXPECT_LE(begin + bytes, start + length);
    EXPECT_TRUE(owners_.emplace(start, stream).first->second == stream) << "of another stream";
    for (const InFlight& use : in_flight_) {
      if (f_.fake.finished[use.stream.handle] >= use.position) continue;
      EXPECT_TRUE(begin + bytes <= use.begin || use.begin + use.bytes <= begin)
          << "another stream has not finished with it";
    }
    live_[begin] = bytes;
    requested_ += static_cast<int64_t>(bytes);
    EXPECT_EQ(f_.allocator->stats().all.requested_bytes.current, requested_);
  }

  void remove(size_t index) {
    const auto it = std::next(live_.begin(), static_cast<std::ptrdiff_t>(index));
    if (with_streams_ && next(3) == 0) {
      const Stream user = f_.fake.stream(static_cast<int>(next(3)));
      f_.allocator->record_stream(reinterpret_cast<void*>(it->first), user);
      f_.fake.work(user);
      const Stream owner = std::prev(owners_.upper_bound(it->first))->second;
      if (!(user == owner)) {
        in_flight_.push_back({it->first, it->second, user, f_.fake.queued[user.handle]});
      }
    }
    f_.free(reinterpret_cast<void*>(it->first));
    requested_ -= static_cast<int64_t>(it->second);
    live_.erase(it);
  }

  /// Where best fit must put a request; 0 if no free block of the stream serves it.
  uintptr_t best_fit(size_t bytes, Stream stream) const {
    const size_t need = (bytes + granule_ - 1) / granule_ * granule_;
    std::pair<size_t, uintptr_t> best{SIZE_MAX, 0};
    for (const SegmentInfo& segment : f_.allocator->snapshot()) {
      if (!(segment.stream == stream) || segment.small != (need <= kMiB)) continue;
      for (const BlockInfo& block : segment.blocks) {
        if (block.state != BlockState::kFree || block.size < need) continue;
        best = std::min(best, {block.size, block.address});
      }
    }
    return best.second;
  }

  /// A block that was freed while another stream worked with it.
  struct InFlight {
    uintptr_t begin;
    size_t bytes;
    Stream stream;
    int64_t position;  // of the work in its stream
  };

  std::mt19937 random_;
  bool with_streams_;
  bool quick_ = false;
  bool oracle_ = false;
  bool draining_ = false;
  size_t granule_ = 0;
  AllocatorFixture f_;
  std::map<uintptr_t, size_t> live_;
  std::map<uintptr_t, Stream> owners_;  // of segments, whose addresses come once
  std::vector<InFlight> in_flight_;
  int64_t requested_ = 0;
  int failures_ = 0;
};

TEST(AllocatorStress, RandomTracesKeepBlocksApartAndMergeThemAll) {
  int failures = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Trace trace(seed, /*with_streams=*/seed % 4 >= 2);
    for (int i = 0; i < 1000; ++i) trace.step();
    trace.finish();
    failures += trace.failures();
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(failures, 0);  // else the capacity tested nothing
}

// --- threads -------------------------------------------------------------------------------------

TEST(AllocatorStress, ThreadsShareItAndFreeEachOthersBlocks) {
  constexpr int kThreads = 4;
  CachingAllocator& cpu = allocator(kCpu);
  const Stream stream = current_stream(kCpu);
  const int64_t before = memory_allocated(kCpu);
  std::atomic<unsigned char*> exchange[16] = {};
  std::atomic<int> wrong{0};
  const auto release = [&](unsigned char* block) {  // the first bytes say how large it is
    uint32_t bytes = 0;
    std::memcpy(&bytes, block, sizeof bytes);
    for (uint32_t i = sizeof bytes; i < bytes; ++i) {
      if (block[i] != static_cast<unsigned char>(bytes)) ++wrong;
    }
    cpu.deallocate(block);
  };
  const auto work = [&](uint32_t seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < 2000; ++i) {
      const auto bytes =
          static_cast<uint32_t>(random() % 50 == 0 ? random() % 3000000 : random() % 8000) + 4;
      auto* block = static_cast<unsigned char*>(cpu.allocate(bytes, stream));
      std::memset(block, static_cast<int>(bytes), bytes);
      std::memcpy(block, &bytes, sizeof bytes);
      if (unsigned char* other = exchange[random() % 16].exchange(block)) release(other);
      if (i % 500 == 0) empty_cache(kCpu);
    }
  };
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) threads.emplace_back(work, t);
  for (std::thread& thread : threads) thread.join();
  for (auto& slot : exchange) {
    if (slot.load() != nullptr) release(slot.load());
  }
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(memory_allocated(kCpu), before);
}

// --- the CPU device ------------------------------------------------------------------------------

TEST(CpuMemory, IsAlignedForVectorsAndHugePages) {
  CachingAllocator& cpu = allocator(kCpu);
  const Stream stream = current_stream(kCpu);
  for (const size_t bytes : {1, 65, 5000, 1 << 20, 3 << 20}) {
    void* pointer = cpu.allocate(bytes, stream);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pointer) % 64, 0u) << bytes;
    std::memset(pointer, 1, bytes);
    cpu.deallocate(pointer);
  }
  for (const SegmentInfo& segment : memory_snapshot(kCpu)) {
    EXPECT_EQ(segment.address % (2 * kMiB), 0u);
    EXPECT_EQ(segment.size % (2 * kMiB), 0u);
  }
}

TEST(CpuMemory, LeavesNoAddressesMapped) {
  const auto mapped_pages = [] {
    int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    return pages;
  };
  empty_cache(kCpu);
  const int64_t before = mapped_pages();
  for (int i = 0; i < 100; ++i) {
    allocator(kCpu).deallocate(allocator(kCpu).allocate(30 * kMiB, current_stream(kCpu)));
    empty_cache(kCpu);
  }
  EXPECT_LT((mapped_pages() - before) * 4096, static_cast<int64_t>(50 * kMiB));
}

TEST(CpuMemory, IsCountedAndGivenBack) {
  empty_cache(kCpu);
  const int64_t allocated = memory_allocated(kCpu);
  const int64_t reserved = memory_reserved(kCpu);
  reset_peak_memory_stats(kCpu);
  void* pointer = allocator(kCpu).allocate(64 * kMiB, current_stream(kCpu));
  EXPECT_GE(memory_allocated(kCpu), allocated + static_cast<int64_t>(64 * kMiB));
  allocator(kCpu).deallocate(pointer);
  EXPECT_EQ(memory_allocated(kCpu), allocated);
  EXPECT_GE(max_memory_allocated(kCpu), allocated + static_cast<int64_t>(64 * kMiB));
  EXPECT_GE(memory_reserved(kCpu), reserved + static_cast<int64_t>(64 * kMiB));
  EXPECT_GE(max_memory_reserved(kCpu), memory_reserved(kCpu));
  empty_cache(kCpu);
  EXPECT_EQ(memory_reserved(kCpu), reserved);
}

TEST(CpuMemory, AFractionOfItCanBeSet) {
  set_memory_fraction(kCpu, 0);
  EXPECT_THROW(allocator(kCpu).allocate(100 * kMiB, current_stream(kCpu)), OutOfMemory);
  set_memory_fraction(kCpu, 1);
  allocator(kCpu).deallocate(allocator(kCpu).allocate(100 * kMiB, current_stream(kCpu)));
  EXPECT_NE(error_of([] { set_memory_fraction(kCpu, 1.5); }).find("bad fraction: got 1.5"),
            std::string::npos);
  EXPECT_THROW(allocator(kCpu).allocate(allocator(kCpu).capacity() + 1, current_stream(kCpu)),
               OutOfMemory);
}

FakeDevice registered;

TEST(CudaMemory, ComesFromTheSourceThatWasRegistered) {
  const Device last = cuda_device(63);
  if (error_of([&] { allocator(last); }).find("has no CUDA") == std::string::npos) {
    GTEST_SKIP() << "this build has CUDA";
  }
  register_cuda_sources(
      [](int index) -> std::unique_ptr<RawSource> {
        WICK_CHECK(index == 63, "no such GPU: got ", index);
        return std::make_unique<FakeSource>(registered);
      },
      nullptr);
  EXPECT_EQ(error_of([] { allocator(cuda_device(62)); }), "no such GPU: got 62");
  CachingAllocator& cuda = allocator(last);
  EXPECT_EQ(&cuda, &allocator(last));
  cuda.deallocate(cuda.allocate(1, registered.stream(0)));
  EXPECT_EQ(memory_reserved(last), static_cast<int64_t>(2 * kMiB));
  empty_cache(last);
  EXPECT_EQ(registered.held, 0u);
  register_cuda_sources(nullptr, nullptr);
  EXPECT_NE(error_of([] { allocator(cuda_device(62)); }).find("has no CUDA"), std::string::npos);
  EXPECT_NE(error_of([] { allocator(cuda_device(64)); }).find("no such device: got cuda:64"),
            std::string::npos);
}

TEST(AllocatorDeathTest, AddressSanitizerSeesUseAfterFreeAndOverruns) {
  if (AllocatorConfig::kDefaultRedzone == 0) GTEST_SKIP() << "not built with AddressSanitizer";
  for (const size_t bytes : {4, 64, 4096, 10000, 3 << 20}) {
    auto* p = static_cast<volatile char*>(allocator(kCpu).allocate(bytes, current_stream(kCpu)));
    p[0] = 1;
    p[bytes - 1] = 1;
    EXPECT_DEATH(p[bytes] = 1, "use-after-poison") << bytes;
    allocator(kCpu).deallocate(const_cast<char*>(p));
    EXPECT_DEATH(p[0] = 1, "use-after-poison") << bytes;
    EXPECT_DEATH(p[bytes - 1] = 1, "use-after-poison") << bytes;
  }
}

}  // namespace
}  // namespace wick
