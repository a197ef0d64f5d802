#include "wick/core/memory/allocator.h"

#include <algorithm>
#include <bit>

#include "wick/core/base/check.h"
#include "wick/core/memory/detail/allocator_impl.h"

namespace wick {

using memory::FreeSet;
using memory::kSmallSize;

CachingAllocator::Impl::Impl(std::unique_ptr<RawSource> raw, const Config& settings)
    : source(std::move(raw)),
      config(settings),
      device(source->device()),
      capacity(source->capacity()),
      limit(std::min(settings.memory_limit, capacity)),
      expandable(settings.expandable_segments && source->can_map()) {
  WICK_CHECK(capacity < SIZE_MAX / 4, "allocator: bad capacity of ", device, ": got ", capacity);
  WICK_CHECK(std::has_single_bit(config.granule) && config.granule <= kSmallSize,
             "allocator: bad granule: got ", config.granule, ", expected a power of two");
  WICK_CHECK(config.max_split_size > memory::kLargeSegment,
             "allocator: max_split_size is too small: got ", config.max_split_size,
             ", expected more than ", memory::kLargeSegment);
  WICK_CHECK(config.quick_size < kSmallSize, "allocator: quick_size is too large: got ",
             config.quick_size, ", expected less than ", kSmallSize);
  for (const int divisions : config.roundup_power2_divisions) {
    WICK_CHECK(divisions == 0 || (divisions > 0 && std::has_single_bit(unsigned(divisions))),
               "allocator: bad roundup_power2_divisions: got ", divisions,
               ", expected 0 or a power of two");
  }
}

void RawSource::show(void* pointer, size_t bytes, Stream) { memory::unpoison(pointer, bytes); }
void RawSource::hide(void* pointer, size_t bytes, Stream) { memory::poison(pointer, bytes); }

size_t CachingAllocator::Impl::rounded(size_t bytes) const {
  const size_t n = bytes + config.redzone;
  const int log2 = static_cast<int>(std::bit_width(n)) - 1;
  const auto divisions = static_cast<size_t>(
      config.roundup_power2_divisions[static_cast<size_t>(std::clamp(log2 - 20, 0, 15))]);
  if (divisions > 1 && n > config.granule * divisions) {
    return memory::round_up(n, (size_t{1} << log2) / divisions);
  }
  return memory::round_up(n, config.granule);
}

memory::Heap& CachingAllocator::Impl::heap_for(Stream stream) {
  PoolId pool = 0;
  for (const Route& route : routes) {
    if (route.thread == std::this_thread::get_id()) pool = route.pool;
  }
  const auto matches = [&](const Heap& h) { return h.pool == pool && h.stream == stream; };
  if (last_heap != nullptr && matches(*last_heap)) return *last_heap;
  const auto found = std::find_if(heaps.begin(), heaps.end(),
                                  [&](const std::unique_ptr<Heap>& h) { return matches(*h); });
  if (found == heaps.end()) {
    auto heap = std::make_unique<Heap>();
    heap->pool = pool;
    heap->stream = stream;
    heap->quick.resize(config.quick_size / config.granule + 1);
    last_heap = heaps.emplace_back(std::move(heap)).get();
  } else {
    last_heap = found->get();
  }
  return *last_heap;
}

memory::Block* CachingAllocator::Impl::allocate(size_t bytes, Stream stream) {
  if (pending > 0) process_events(/*wait=*/false);
  if (fail_countdown > 0 && --fail_countdown == 0) out_of_memory(bytes);
  if (bytes > limit) out_of_memory(bytes);  // also keeps the arithmetic below from overflowing
  const size_t size = rounded(bytes);
  Heap& heap = heap_for(stream);
  Block* block = take_quick(heap, size);
  if (block == nullptr) {
    block = take_best_fit(heap, size);
    if (block == nullptr) block = grow(heap, size);
    if (block == nullptr) out_of_memory(bytes);
    used.emplace(block->pointer, block);
  }
  block->state = BlockState::kLive;
  block->requested = bytes;
  block->op = detail::current_op();
  source->show(block->pointer, bytes, stream);
  add(&PoolStats::allocation, block->small, 1);
  add(&PoolStats::allocated_bytes, block->small, block->size);
  add(&PoolStats::active, block->small, 1);
  add(&PoolStats::active_bytes, block->small, block->size);
  add(&PoolStats::requested_bytes, block->small, bytes);
  if (block->size >= config.max_split_size) memory::increase(stats.oversize_allocation, 1);
  note(MemoryAction::kAllocate, block->pointer, bytes, stream);
  return block;
}

memory::Block* CachingAllocator::Impl::take_quick(Heap& heap, size_t size) {
  if (size > config.quick_size) return nullptr;
  Block*& head = heap.quick[size / config.granule];
  Block* block = head;
  if (block == nullptr) return nullptr;
  head = block->next_quick;
  block->quick = false;
  count_inactive(block, /*enters=*/false);
  return block;
}

memory::Block* CachingAllocator::Impl::take_best_fit(Heap& heap, size_t size) {
  const bool small = size <= kSmallSize;
  FreeSet& set = heap.free_set(small);
  auto best = set.lower_bound(size);
  if (best == set.end()) return nullptr;
  if (expandable) best = least_growable(set, best);
  Block* block = *best;
  // A block too large to be split must not be wasted on a request that is much smaller.
  if (block->size >= config.max_split_size &&
      (size < config.max_split_size || block->size >= size + memory::kOversizeSlack)) {
    return nullptr;
  }
  set.erase(best);
  count_inactive(block, /*enters=*/false);
  split(block, size);
  return block;
}

/// Cuts `block` to `size` if the rest is worth keeping: it becomes a free block behind.
void CachingAllocator::Impl::split(Block* block, size_t size) {
  const size_t excess = block->size - size;
  const bool worth = block->small || block->expandable
                         ? excess >= config.granule
                         : size < config.max_split_size && excess > kSmallSize;
  if (!worth) return;
  Block* rest = cut(block, size);
  rest->heap->free_set(rest->small).insert(rest);
  count_inactive(rest, /*enters=*/true);
}

/// Leaves the first `size` bytes to `block`; returns the rest, which is in no set.
memory::Block* CachingAllocator::Impl::cut(Block* block, size_t size) {
  auto* rest = new Block;
  rest->pointer = block->pointer + size;
  rest->size = block->size - size;
  rest->heap = block->heap;
  rest->small = block->small;
  rest->expandable = block->expandable;
  rest->mapped = block->mapped;
  rest->freed_at = block->freed_at;
  rest->previous = block;
  rest->next = block->next;
  if (rest->next != nullptr) rest->next->previous = rest;
  block->next = rest;
  block->size = size;
  return rest;
}

void CachingAllocator::Impl::count_inactive(Block* block, bool enters) {
  if (!block->is_split() || block->expandable) return;
  if (enters) {
    add(&PoolStats::inactive_split, block->small, 1);
    add(&PoolStats::inactive_split_bytes, block->small, block->size);
  } else {
    subtract(&PoolStats::inactive_split, block->small, 1);
    subtract(&PoolStats::inactive_split_bytes, block->small, block->size);
  }
}

memory::Block& CachingAllocator::Impl::live_block(const char* op, void* pointer) {
  const auto found = used.find(pointer);
  WICK_CHECK(found != used.end() && found->second->state == BlockState::kLive, op,
             ": not a live block of ", device, ": got ", reinterpret_cast<uintptr_t>(pointer),
             ", expected what allocate returned and nobody freed");
  return *found->second;
}

void CachingAllocator::Impl::deallocate(Block* block) {
  subtract(&PoolStats::allocation, block->small, 1);
  subtract(&PoolStats::allocated_bytes, block->small, block->size);
  subtract(&PoolStats::requested_bytes, block->small, block->requested);
  if (block->size >= config.max_split_size) memory::decrease(stats.oversize_allocation, 1);
  note(MemoryAction::kFree, block->pointer, block->requested, block->heap->stream);
  if (block->users.empty()) return reclaim(block);
  block->state = BlockState::kPending;
  if (routes.empty()) {
    record_events(block);
  } else {
    deferred.push_back(block);  // an event recorded during a capture would become part of it
  }
}

/// Makes a block free that no stream uses any more.
void CachingAllocator::Impl::reclaim(Block* block) {
  subtract(&PoolStats::active, block->small, 1);
  subtract(&PoolStats::active_bytes, block->small, block->size);
  // What a graph uses stays visible between its replays, which have streams of their own.
  if (block->heap->pool == 0 || !routes.empty()) {
    source->hide(block->pointer, block->size, block->heap->stream);
  }
  note(MemoryAction::kFreeCompleted, block->pointer, block->requested, block->heap->stream);
  block->state = BlockState::kFree;
  if (block->size <= config.quick_size) {
    Block*& head = block->heap->quick[block->size / config.granule];
    block->next_quick = head;
    head = block;
    block->quick = true;
    block->heap->any_quick = true;
    count_inactive(block, /*enters=*/true);
  } else {
    used.erase(block->pointer);
    merge(block);
  }
}

/// Puts a free block into its set, joined with its free neighbours. Returns what it became.
memory::Block* CachingAllocator::Impl::merge(Block* block) {
  const auto joins = [](const Block* b) {
    return b != nullptr && b->mapped && b->state == BlockState::kFree && !b->quick;
  };
  FreeSet& set = block->heap->free_set(block->small);
  for (Block* neighbour : {block->previous, block->next}) {
    if (!joins(neighbour)) continue;
    set.erase(neighbour);
    count_inactive(neighbour, /*enters=*/false);
    block = neighbour == block->next ? absorb(block, neighbour) : absorb(neighbour, block);
  }
  block->freed_at = ++clock;
  set.insert(block);
  count_inactive(block, /*enters=*/true);
  return block;
}

memory::Block* CachingAllocator::Impl::absorb(Block* left, Block* right) {
  left->size += right->size;
  left->next = right->next;
  if (left->next != nullptr) left->next->previous = left;
  delete right;
  return left;
}

/// Merges the blocks of the quick lists; whether there were any.
bool CachingAllocator::Impl::flush_quick(Heap& heap) {
  if (!heap.any_quick) return false;
  for (Block*& head : heap.quick) {
    while (head != nullptr) {
      Block* block = head;
      head = block->next_quick;
      count_inactive(block, /*enters=*/false);
      block->quick = false;
      used.erase(block->pointer);
      merge(block);
    }
  }
  heap.any_quick = false;
  return true;
}

void* CachingAllocator::allocate(size_t bytes, Stream stream) {
  if (bytes == 0) return nullptr;
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  return impl_->allocate(bytes, stream)->pointer;
}

void CachingAllocator::deallocate(void* pointer) {
  if (pointer == nullptr) return;
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->deallocate(&impl_->live_block("deallocate", pointer));
}

void CachingAllocator::record_stream(void* pointer, Stream stream) {
  if (pointer == nullptr) return;
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  memory::Block& block = impl_->live_block("record_stream", pointer);
  std::vector<Stream>& users = block.users;
  if (stream == block.heap->stream) return;
  if (std::find(users.begin(), users.end(), stream) == users.end()) users.push_back(stream);
}

}  // namespace wick
