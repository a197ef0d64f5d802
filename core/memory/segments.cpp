#include <algorithm>

#include "wick/core/base/check.h"
#include "wick/core/memory/detail/allocator_impl.h"

namespace wick {

using memory::Block;
using memory::FreeSet;
using memory::Heap;

/// A block of `size` for which there was no free one. Null when nothing helps.
Block* CachingAllocator::Impl::grow(Heap& heap, size_t size) {
  if (flush_quick(heap)) {
    if (Block* block = take_best_fit(heap, size)) return block;
  }
  const size_t segment = size <= memory::kSmallSize      ? memory::kSmallSegment
                         : size < memory::kMinOwnSegment ? memory::kLargeSegment
                                                         : memory::round_up(size, memory::kMiB * 2);
  collect_garbage();
  Block* block = add_segment(heap, segment, size);
  return block != nullptr ? block : retry(heap, size, segment);
}

Block* CachingAllocator::Impl::retry(Heap& heap, size_t size, size_t segment) {
  ++stats.num_alloc_retries;
  const auto attempt = [&](size_t new_segment) {
    flush_quick(heap);
    Block* block = take_best_fit(heap, size);
    return block != nullptr ? block : add_segment(heap, new_segment, size);
  };
  release_one(segment);
  if (Block* block = attempt(segment)) return block;
  process_events(/*wait=*/true);
  if (Block* block = attempt(segment)) return block;
  release_cached();
  if (Block* block = attempt(segment)) return block;
  return attempt(memory::round_up(size, memory::kSegmentGranule));
}

/// A block of `size` at the start of a new segment; null if the limit or the source forbids.
Block* CachingAllocator::Impl::add_segment(Heap& heap, size_t segment, size_t size) {
  if (expandable) return expand(heap, size);
  const auto reserved = static_cast<size_t>(stats.all.reserved_bytes.current);
  if (reserved > limit || segment > limit - reserved) return nullptr;
  void* pointer = source->allocate(segment);
  if (pointer == nullptr) return nullptr;
  auto* block = new Block;
  block->pointer = static_cast<char*>(pointer);
  block->size = segment;
  block->heap = &heap;
  block->small = size <= memory::kSmallSize;
  segments.emplace(block->pointer, block);
  ++heap.segments;
  source->hide(block->pointer, segment, heap.stream);
  ++stats.num_device_alloc;
  note(MemoryAction::kSegmentAllocate, block->pointer, segment, heap.stream);
  add(&PoolStats::segment, block->small, 1);
  add(&PoolStats::reserved_bytes, block->small, segment);
  if (segment >= config.max_split_size) memory::increase(stats.oversize_segment, 1);
  split(block, size);
  return block;
}

/// Gives a segment back that is one free block.
void CachingAllocator::Impl::release_segment(Block* block) {
  Heap& heap = *block->heap;
  source->show(block->pointer, block->size, heap.stream);
  try {
    source->deallocate(block->pointer, block->size);
  } catch (...) {  // it is as free as before
    source->hide(block->pointer, block->size, heap.stream);
    throw;
  }
  heap.free_set(block->small).erase(block);
  segments.erase(block->pointer);
  --heap.segments;
  ++stats.num_device_free;
  note(MemoryAction::kSegmentFree, block->pointer, block->size, heap.stream);
  subtract(&PoolStats::segment, block->small, 1);
  subtract(&PoolStats::reserved_bytes, block->small, block->size);
  if (block->size >= config.max_split_size) memory::decrease(stats.oversize_segment, 1);
  delete block;
}

/// Releases the smallest cached segment of at least `size`, of any stream.
void CachingAllocator::Impl::release_one(size_t size) {
  Block* best = nullptr;
  for (const auto& heap : heaps) {
    if (!may_release(*heap)) continue;
    for (FreeSet* set : {&heap->small, &heap->large}) {
      const auto first = set->lower_bound(size);
      const auto found = std::find_if(first, set->end(), [](Block* b) { return b->is_segment(); });
      if (found == set->end()) continue;
      if (best == nullptr || (*found)->size < best->size) best = *found;
    }
  }
  if (best != nullptr) release_segment(best);
}

void CachingAllocator::Impl::release_cached() {
  for (const auto& heap : heaps) {
    if (!may_release(*heap)) continue;
    flush_quick(*heap);
    for (FreeSet* set : {&heap->small, &heap->large}) {
      for (auto it = set->begin(); it != set->end();) {
        Block* block = *it++;
        if (block->expandable) {
          unmap_pages(block);
        } else if (block->is_segment()) {
          release_segment(block);
        }
      }
    }
  }
  // A pool whose graph is gone and whose memory went back needs no heap any more.
  const auto gone = [&](const std::unique_ptr<Heap>& heap) {
    return heap->pool != 0 && heap->segments == 0 && may_release(*heap);
  };
  heaps.erase(std::remove_if(heaps.begin(), heaps.end(), gone), heaps.end());
  last_heap = nullptr;
}

/// Above the threshold, releases large cached segments, the longest unused first, until below it.
void CachingAllocator::Impl::collect_garbage() {
  if (config.garbage_collection_threshold <= 0) return;
  const double threshold = config.garbage_collection_threshold * static_cast<double>(limit);
  const MemoryStat& reserved = stats.all.reserved_bytes;
  std::vector<Block*> unused;
  for (const auto& heap : heaps) {
    if (!may_release(*heap)) continue;
    for (Block* block : heap->large) {
      if (block->is_segment()) unused.push_back(block);
    }
  }
  std::sort(unused.begin(), unused.end(),
            [](const Block* a, const Block* b) { return a->freed_at < b->freed_at; });
  for (Block* block : unused) {
    if (static_cast<double>(reserved.current) <= threshold) return;
    release_segment(block);
  }
}

void CachingAllocator::Impl::out_of_memory(size_t bytes) {
  ++stats.num_ooms;
  note(MemoryAction::kOutOfMemory, nullptr, bytes, {device, nullptr});
  size_t largest = 0;
  for (const auto& heap : heaps) {
    flush_quick(*heap);
    for (const FreeSet* set : {&heap->small, &heap->large}) {
      if (!set->empty()) largest = std::max(largest, (*set->rbegin())->size);
    }
  }
  MemoryFigures now;
  now.allocated = static_cast<uint64_t>(stats.all.allocated_bytes.current);
  now.reserved = static_cast<uint64_t>(stats.all.reserved_bytes.current);
  now.free = now.reserved - static_cast<uint64_t>(stats.all.active_bytes.current);
  now.largest_free_block = largest;
  const auto text = [](uint64_t n) { return format_bytes(static_cast<int64_t>(n)); };
  const std::string_view advice = source->advice();
  throw OutOfMemory(
      concat("allocate: out of ", source->kind(), " on ", device, ": requested ", text(bytes),
             "; allocated ", text(now.allocated), ", reserved ", text(now.reserved), " of at most ",
             text(limit), ", free in cache ", text(now.free), ", largest free block ",
             text(largest), ", device capacity ", text(capacity), advice.empty() ? "" : "; ",
             advice),
      bytes, now);
}

CachingAllocator::CachingAllocator(std::unique_ptr<RawSource> source, const Config& config)
    : impl_(std::make_unique<Impl>(std::move(source), config)) {}

CachingAllocator::~CachingAllocator() {
  impl_->routes.clear();
  impl_->process_events(/*wait=*/true);
  for (const auto& [pointer, first] : impl_->segments) {
    impl_->abandon(first);
    for (const Block* block = first; block != nullptr;) {
      const Block* done = block;
      block = block->next;
      delete done;
    }
  }
}

void CachingAllocator::empty_cache() {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->process_events(/*wait=*/true);
  impl_->release_cached();
}

void CachingAllocator::set_memory_limit(size_t bytes) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->limit = std::min(bytes, impl_->capacity);
}

size_t CachingAllocator::memory_limit() const {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  return impl_->limit;
}

void CachingAllocator::fail_allocation(int64_t nth) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->fail_countdown = nth;
}

}  // namespace wick
