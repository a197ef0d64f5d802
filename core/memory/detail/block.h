#pragma once

// What the files of the caching allocator share.

#include <cstdint>
#include <set>
#include <vector>

#include "wick/core/memory/allocator.h"

#if defined(__SANITIZE_ADDRESS__)
#define WICK_POISON_MEMORY 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WICK_POISON_MEMORY 1
#endif
#endif
#ifdef WICK_POISON_MEMORY
#include <sanitizer/asan_interface.h>
#endif

namespace wick::memory {

inline constexpr size_t kMiB = size_t{1} << 20;
inline constexpr size_t kSmallSize = kMiB;         // larger requests come from the large pool
inline constexpr size_t kSmallSegment = 2 * kMiB;  // the small pool grows by this
inline constexpr size_t kLargeSegment = 20 * kMiB;
inline constexpr size_t kMinOwnSegment = 10 * kMiB;  // from here a request gets a segment its size
inline constexpr size_t kSegmentGranule = 2 * kMiB;
inline constexpr size_t kOversizeSlack = 20 * kMiB;  // what an unsplittable block may exceed by

constexpr size_t round_up(size_t n, size_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

struct Heap;

/// A part of a segment. The parts of one segment are linked in address order.
struct Block {
  char* pointer = nullptr;
  size_t size = 0;
  size_t requested = 0;
  Heap* heap = nullptr;
  Block* previous = nullptr;
  Block* next = nullptr;
  Block* next_quick = nullptr;
  uint64_t freed_at = 0;    // on the allocator's clock
  int pending_events = 0;   // until these are done the block is not free
  bool small = false;       // belongs to the small pool
  bool quick = false;       // waits in a quick list: free, but not merged nor in a free set
  bool expandable = false;  // part of a segment that grows
  bool mapped = true;       // else addresses without memory
  BlockState state = BlockState::kFree;
  const char* op = "";        // what asked for it
  std::vector<Stream> users;  // other streams that work with it

  bool is_split() const { return previous != nullptr || next != nullptr; }
  /// Whether it is all of a segment that goes back as it came.
  bool is_segment() const { return !is_split() && !expandable; }
};

struct BySizeThenAddress {
  using is_transparent = void;
  bool operator()(const Block* a, const Block* b) const {
    return a->size != b->size ? a->size < b->size : a->pointer < b->pointer;
  }
  bool operator()(const Block* a, size_t size) const { return a->size < size; }
};
struct ByAddress {
  bool operator()(const Block* a, const Block* b) const { return a->pointer < b->pointer; }
};
using FreeSet = std::set<Block*, BySizeThenAddress>;

/// The free blocks of one stream in one pool.
struct Heap {
  uint64_t pool = 0;
  Stream stream;
  FreeSet small;
  FreeSet large;
  std::set<Block*, ByAddress> unmapped;  // of segments that grow
  std::vector<Block*> quick;             // heads of the quick lists, by size in granules
  bool any_quick = false;
  int segments = 0;

  FreeSet& free_set(bool is_small) { return is_small ? small : large; }
};

inline void increase(MemoryStat& stat, int64_t amount) {
  stat.current += amount;
  stat.allocated += amount;
  if (stat.current > stat.peak) stat.peak = stat.current;
}
inline void decrease(MemoryStat& stat, int64_t amount) {
  stat.current -= amount;
  stat.freed += amount;
}

/// Makes AddressSanitizer report any use of the bytes, or allow it.
inline void poison([[maybe_unused]] const void* pointer, [[maybe_unused]] size_t bytes) {
#ifdef WICK_POISON_MEMORY
  __asan_poison_memory_region(pointer, bytes);
#endif
}
inline void unpoison([[maybe_unused]] const void* pointer, [[maybe_unused]] size_t bytes) {
#ifdef WICK_POISON_MEMORY
  __asan_unpoison_memory_region(pointer, bytes);
#endif
}

}  // namespace wick::memory
