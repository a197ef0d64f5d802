#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "wick/core/base/profiling.h"
#include "wick/core/memory/detail/block.h"

namespace wick {

/// All functions expect `mutex` to be held.
struct CachingAllocator::Impl {
  using Block = memory::Block;
  using Heap = memory::Heap;

  /// Where a thread's allocations go instead of pool 0.
  struct Route {
    PoolId pool;
    std::thread::id thread;
  };
  struct PendingFree {
    RawSource::Event event;
    Block* block;
  };
  struct StreamQueue {
    Stream stream;
    std::deque<PendingFree> frees;  // in the order their events were recorded
  };

  Impl(std::unique_ptr<RawSource> raw, const Config& settings);

  // allocator.cpp: finding, splitting and merging blocks.
  size_t rounded(size_t bytes) const;
  Heap& heap_for(Stream stream);
  Block* allocate(size_t bytes, Stream stream);
  Block* take_quick(Heap& heap, size_t size);
  Block* take_best_fit(Heap& heap, size_t size);
  void split(Block* block, size_t size);
  Block& live_block(const char* op, void* pointer);
  void deallocate(Block* block);
  void reclaim(Block* block);
  Block* merge(Block* block);
  Block* cut(Block* block, size_t size);
  Block* absorb(Block* left, Block* right);
  void count_inactive(Block* block, bool enters);
  bool flush_quick(Heap& heap);

  // segments.cpp: getting memory from the source and giving it back.
  Block* grow(Heap& heap, size_t size);
  Block* retry(Heap& heap, size_t size, size_t segment);
  Block* add_segment(Heap& heap, size_t segment, size_t size);
  void release_segment(Block* block);
  void release_one(size_t size);
  void release_cached();
  void collect_garbage();
  [[noreturn]] void out_of_memory(size_t bytes);

  // expandable.cpp: segments that grow.
  size_t page_of(bool small) const;
  memory::FreeSet::iterator least_growable(memory::FreeSet& set, memory::FreeSet::iterator best);
  Block* expand(Heap& heap, size_t size);
  Block* reserve(Heap& heap, bool small);
  Block* map_front(Block* block, size_t size);
  void unmap_pages(Block* block);
  void abandon(const Block* first);

  // history.cpp
  void note(MemoryAction action, const void* pointer, size_t size, Stream stream) {
    if (max_events > 0) keep_event(action, pointer, size, stream);
    if ((profile::wanted() & profile::kWantsMemory) != 0) [[unlikely]] {
      tell_profiler(action, pointer, size, stream);
    }
  }
  void tell_profiler(MemoryAction action, const void* pointer, size_t size, Stream stream) const;
  std::vector<MemoryEvent> events_in_order() const;
  void keep_event(MemoryAction action, const void* pointer, size_t size, Stream stream);

  // streams.cpp: blocks that other streams still use, and private pools.
  void record_events(Block* block) noexcept;
  void process_events(bool wait);
  bool may_release(const Heap& heap) const;

  template <class Change>
  void count(MemoryStat PoolStats::*kind, bool small, Change change, size_t amount) {
    change(stats.all.*kind, static_cast<int64_t>(amount));
    PoolStats& pool = small ? stats.small : stats.large;  // g++ 12 copies it without the name
    change(pool.*kind, static_cast<int64_t>(amount));
  }
  void add(MemoryStat PoolStats::*kind, bool small, size_t amount) {
    count(kind, small, memory::increase, amount);
  }
  void subtract(MemoryStat PoolStats::*kind, bool small, size_t amount) {
    count(kind, small, memory::decrease, amount);
  }

  mutable std::mutex mutex;
  const std::unique_ptr<RawSource> source;
  const Config config;
  const Device device;
  const size_t capacity;
  size_t limit;
  const bool expandable;
  MemoryStats stats;
  uint64_t clock = 0;          // counts blocks freed into the sets
  int64_t fail_countdown = 0;  // see fail_allocation

  std::vector<std::unique_ptr<Heap>> heaps;
  Heap* last_heap = nullptr;               // that of the latest allocation
  std::unordered_map<void*, Block*> used;  // live, pending and quick blocks
  std::map<char*, Block*> segments;        // first blocks
  std::vector<StreamQueue> queues;
  size_t pending = 0;            // events in `queues`
  std::vector<Block*> deferred;  // freed during a capture: no events yet
  std::vector<Route> routes;
  std::unordered_set<PoolId> live_pools;
  PoolId next_pool = 1;
  std::vector<MemoryEvent> events;  // once full, a ring that begins at next_event
  size_t max_events = 0;
  size_t next_event = 0;
};

}  // namespace wick
