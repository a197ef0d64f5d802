#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "wick/core/base/check.h"
#include "wick/core/memory/allocator.h"
#include "wick/tests/harness/expect_error.h"

namespace wick {

using wick::testing::error_of;

inline constexpr size_t kKiB = 1024;
inline constexpr size_t kMiB = 1024 * kKiB;

/// What a test sees and controls of a FakeSource.
struct FakeDevice {
  size_t capacity = size_t{1} << 40;
  size_t held = 0;  // bytes handed out
  size_t largest_held = 0;
  int calls = 0;    // to allocate or map
  int fail_at = 0;  // the call, from 1, that fails; 0 for none
  int frees = 0;
  int events = 0;       // recorded and not destroyed
  int recorded = 0;     // in all
  bool broken = false;  // frees, marks and questions of them fail
  std::map<uintptr_t, size_t> segments;
  std::map<uintptr_t, size_t> reserved;  // addresses
  std::map<uintptr_t, size_t> pages;     // mapped into them
  std::map<void*, int64_t> queued;       // per stream handle: work items queued, and those done
  std::map<void*, int64_t> finished;

  Stream stream(int i) const { return {cuda_device(0), reinterpret_cast<void*>(intptr_t{i})}; }
  void work(Stream s) { ++queued[s.handle]; }
  void finish(Stream s) { finished[s.handle] = queued[s.handle]; }
};

/// A device of addresses without memory behind them. Work on its streams is done when the test says
/// so.
class FakeSource : public RawSource {
 public:
  explicit FakeSource(FakeDevice& fake) : fake_(fake) {}

  Device device() const override { return cuda_device(0); }
  size_t capacity() const override { return fake_.capacity; }
  void show(void*, size_t, Stream) override {}
  void hide(void*, size_t, Stream) override {}

  void* allocate(size_t bytes) override {
    ++fake_.calls;
    if (fake_.calls == fake_.fail_at || fake_.held + bytes > fake_.capacity) return nullptr;
    fake_.held += bytes;
    if (fake_.held > fake_.largest_held) fake_.largest_held = fake_.held;
    const uintptr_t address = next_;
    next_ += bytes;
    fake_.segments[address] = bytes;
    return reinterpret_cast<void*>(address);
  }
  void deallocate(void* pointer, size_t bytes) override {
    check_works();
    ++fake_.frees;
    const auto found = fake_.segments.find(reinterpret_cast<uintptr_t>(pointer));
    if (found == fake_.segments.end() || found->second != bytes) {
      fake_.held = SIZE_MAX / 2;  // seen by every test that compares what is held
      return;
    }
    fake_.segments.erase(found);
    fake_.held -= bytes;
  }

  bool can_map() const override { return true; }
  void* reserve(size_t bytes) override {
    const uintptr_t address = next_;
    next_ += bytes;
    fake_.reserved[address] = bytes;
    return reinterpret_cast<void*>(address);
  }
  void unreserve(void* pointer, size_t bytes) override {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    const auto inside = fake_.pages.lower_bound(address);
    const bool empty = inside == fake_.pages.end() || inside->first >= address + bytes;
    if (fake_.reserved[address] != bytes || !empty) fake_.held = SIZE_MAX / 2;
    fake_.reserved.erase(address);
  }
  bool map(void* pointer, size_t bytes, size_t page) override {
    ++fake_.calls;
    if (fake_.calls == fake_.fail_at || fake_.held + bytes > fake_.capacity) return false;
    fake_.held += bytes;
    if (fake_.held > fake_.largest_held) fake_.largest_held = fake_.held;
    const auto begin = reinterpret_cast<uintptr_t>(pointer);
    for (size_t i = 0; i < bytes; i += page) {
      if (!fake_.pages.emplace(begin + i, page).second) fake_.held = SIZE_MAX / 2;
    }
    return true;
  }
  void unmap(void* pointer, size_t bytes, size_t page) override {
    check_works();
    ++fake_.frees;
    const auto begin = reinterpret_cast<uintptr_t>(pointer);
    for (size_t i = 0; i < bytes; i += page) {
      const auto found = fake_.pages.find(begin + i);
      if (found == fake_.pages.end() || found->second != page) {
        fake_.held = SIZE_MAX / 2;
        return;
      }
      fake_.pages.erase(found);
      fake_.held -= page;
    }
  }

  Event record_event(Stream s) override {
    check_works();
    ++fake_.events;
    ++fake_.recorded;
    return new Mark{s.handle, fake_.queued[s.handle]};
  }
  bool event_done(Event event) override {
    const auto* mark = static_cast<Mark*>(event);
    return fake_.finished[mark->stream] >= mark->position;
  }
  void wait_event(Event event) override {
    const auto* mark = static_cast<Mark*>(event);
    int64_t& finished = fake_.finished[mark->stream];
    if (finished < mark->position) finished = mark->position;
  }
  void destroy_event(Event event) override {
    --fake_.events;
    delete static_cast<Mark*>(event);
  }

 private:
  struct Mark {
    void* stream;
    int64_t position;
  };
  void check_works() const { WICK_CHECK(!fake_.broken, "fake: the device is broken"); }

  FakeDevice& fake_;
  uintptr_t next_ = uintptr_t{1} << 40;
};

/// An allocator over a fake device, without quick lists unless a test wants them, so that blocks
/// merge at once.
struct AllocatorFixture {
  explicit AllocatorFixture(size_t capacity = size_t{1} << 40,
                            CachingAllocator::Config config = plain()) {
    fake.capacity = capacity;
    allocator = std::make_unique<CachingAllocator>(std::make_unique<FakeSource>(fake), config);
  }
  static CachingAllocator::Config plain() {
    CachingAllocator::Config config;
    config.quick_size = 0;
    config.redzone = 0;
    return config;
  }
  char* allocate(size_t bytes, int stream = 0) {
    return static_cast<char*>(allocator->allocate(bytes, fake.stream(stream)));
  }
  void free(void* pointer) { allocator->deallocate(pointer); }
  int64_t allocated() const { return allocator->stats().all.allocated_bytes.current; }
  int64_t reserved() const { return allocator->stats().all.reserved_bytes.current; }

  FakeDevice fake;
  std::unique_ptr<CachingAllocator> allocator;
};

/// The same with segments that grow.
struct Growing : AllocatorFixture {
  explicit Growing(size_t capacity = size_t{1} << 30) : AllocatorFixture(capacity, growing()) {}
  static CachingAllocator::Config growing() {
    CachingAllocator::Config config = plain();
    config.expandable_segments = true;
    return config;
  }
};

}  // namespace wick
