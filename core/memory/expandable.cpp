#include <algorithm>

#include "wick/core/memory/detail/allocator_impl.h"

// Segments that grow: addresses for more than the device has are reserved once, and get memory page
// by page, next to what is there. A free part that is too small then grows instead of lying idle
// beside a new segment.

namespace wick {

using memory::Block;
using memory::Heap;

namespace {

bool is_free(const Block* block) {
  return block != nullptr && block->mapped && block->state == BlockState::kFree && !block->quick;
}

/// Whether `first` and the free and the unmapped blocks behind it together have `size`.
bool has_room(const Block* first, size_t size) {
  size_t room = 0;
  for (const Block* b = first; b != nullptr && room < size && (!b->mapped || is_free(b));
       b = b->next) {
    room += b->size;
  }
  return room >= size;
}

}  // namespace

size_t CachingAllocator::Impl::page_of(bool small) const {
  return small ? memory::kSmallSegment : source->large_page();
}

/// Of blocks that fit, one that could grow least: what can grow is kept for what needs it.
memory::FreeSet::iterator CachingAllocator::Impl::least_growable(memory::FreeSet& set,
                                                                 memory::FreeSet::iterator best) {
  const auto grown = [](const Block* b) {
    return b->size + (b->next != nullptr && !b->next->mapped ? b->next->size : 0);
  };
  for (auto next = std::next(best); next != set.end() && grown(*next) < grown(*best); ++next) {
    best = next;
  }
  return best;
}

/// A block of `size`, for which more memory was had. Null if the limit or the source forbids.
Block* CachingAllocator::Impl::expand(Heap& heap, size_t size) {
  const bool small = size <= memory::kSmallSize;
  Block* block = nullptr;
  for (Block* unmapped : heap.unmapped) {
    if (unmapped->small != small) continue;
    Block* first = is_free(unmapped->previous) ? unmapped->previous : unmapped;
    if (!has_room(first, size)) continue;
    block = first;
    break;
  }
  if (block == nullptr) block = reserve(heap, small);
  if (block != nullptr && !block->mapped) block = map_front(block, std::min(size, block->size));
  while (block != nullptr && block->size < size) {
    block = map_front(block->next, std::min(size - block->size, block->next->size));
  }
  if (block == nullptr) return nullptr;
  heap.free_set(small).erase(block);
  split(block, size);
  return block;
}

/// A new segment: addresses without memory. Null if there are none.
Block* CachingAllocator::Impl::reserve(Heap& heap, bool small) {
  // More than there is memory, for free parts between live blocks have addresses too.
  const size_t bytes = memory::round_up(capacity + capacity / 8, page_of(small));
  void* pointer = source->reserve(bytes);
  if (pointer == nullptr) return nullptr;
  auto* block = new Block;
  block->pointer = static_cast<char*>(pointer);
  block->size = bytes;
  block->heap = &heap;
  block->small = small;
  block->expandable = true;
  block->mapped = false;
  segments.emplace(block->pointer, block);
  heap.unmapped.insert(block);
  ++heap.segments;
  add(&PoolStats::segment, small, 1);
  return block;
}

/// Puts memory behind the first `size` bytes of an unmapped block, rounded up to pages. Returns the
/// free block that they now belong to; null, and nothing has changed, if there is no memory.
Block* CachingAllocator::Impl::map_front(Block* block, size_t size) {
  Heap& heap = *block->heap;
  const size_t page = page_of(block->small);
  const size_t bytes = memory::round_up(size, page);
  const auto reserved = static_cast<size_t>(stats.all.reserved_bytes.current);
  if (reserved > limit || bytes > limit - reserved) return nullptr;
  if (!source->map(block->pointer, bytes, page)) return nullptr;
  heap.unmapped.erase(block);
  if (bytes < block->size) heap.unmapped.insert(cut(block, bytes));
  block->mapped = true;
  source->hide(block->pointer, bytes, heap.stream);
  ++stats.num_device_alloc;
  note(MemoryAction::kSegmentMap, block->pointer, bytes, heap.stream);
  add(&PoolStats::reserved_bytes, block->small, bytes);
  return merge(block);
}

/// Gives back the memory of a free block's whole pages, and the addresses with the last of them.
void CachingAllocator::Impl::unmap_pages(Block* block) {
  Heap& heap = *block->heap;
  memory::FreeSet& set = heap.free_set(block->small);
  const size_t page = page_of(block->small);
  const char* base = std::prev(segments.upper_bound(block->pointer))->first;
  const auto offset = static_cast<size_t>(block->pointer - base);
  const size_t begin = memory::round_up(offset, page) - offset;
  const size_t end = (offset + block->size) / page * page;
  if (end <= offset + begin) return;
  const size_t bytes = end - offset - begin;
  char* pointer = block->pointer + begin;
  set.erase(block);
  if (begin + bytes < block->size) set.insert(cut(block, begin + bytes));
  if (begin > 0) {
    Block* middle = cut(block, begin);
    set.insert(block);
    block = middle;
  }
  source->show(pointer, bytes, heap.stream);
  try {
    source->unmap(pointer, bytes, page);
  } catch (...) {  // nobody knows which of its pages are left: it is never used again
    block->state = BlockState::kPending;
    add(&PoolStats::active, block->small, 1);
    add(&PoolStats::active_bytes, block->small, block->size);
    throw;
  }
  ++stats.num_device_free;
  note(MemoryAction::kSegmentUnmap, pointer, bytes, heap.stream);
  subtract(&PoolStats::reserved_bytes, block->small, bytes);
  block->mapped = false;
  for (Block* neighbour : {block->previous, block->next}) {
    if (neighbour == nullptr || neighbour->mapped) continue;
    heap.unmapped.erase(neighbour);
    block = neighbour == block->next ? absorb(block, neighbour) : absorb(neighbour, block);
  }
  heap.unmapped.insert(block);
  if (block->is_split()) return;
  source->unreserve(block->pointer, block->size);
  heap.unmapped.erase(block);
  segments.erase(block->pointer);
  --heap.segments;
  subtract(&PoolStats::segment, block->small, 1);
  delete block;
}

/// Gives back a segment with all that is in it, live or not. Its blocks stay.
void CachingAllocator::Impl::abandon(const Block* first) {
  size_t size = 0;
  for (const Block* block = first; block != nullptr;) {
    if (!block->mapped) {
      size += block->size;
      block = block->next;
      continue;
    }
    char* const pointer = block->pointer;
    size_t bytes = 0;
    for (; block != nullptr && block->mapped; block = block->next) bytes += block->size;
    size += bytes;
    source->show(pointer, bytes, first->heap->stream);
    if (first->expandable) {
      source->unmap(pointer, bytes, page_of(first->small));
    } else {
      source->deallocate(pointer, bytes);
    }
  }
  if (first->expandable) source->unreserve(first->pointer, size);
}

}  // namespace wick
