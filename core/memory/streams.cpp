#include <algorithm>

#include "wick/core/base/check.h"
#include "wick/core/memory/allocator_impl.h"

namespace wick {

/// Marks the ends of the other streams' work with a freed block; it is reclaimed behind them.
void CachingAllocator::Impl::record_events(Block* block) {
  for (const Stream& stream : block->users) {
    auto queue = std::find_if(queues.begin(), queues.end(),
                              [&](const StreamQueue& q) { return q.stream == stream; });
    if (queue == queues.end()) queue = queues.insert(queue, StreamQueue{stream, {}});
    queue->frees.push_back({source->record_event(stream), block});
    ++block->pending_events;
    ++pending;
  }
  block->users.clear();
}

/// Reclaims the blocks whose events are done, or waits for all.
void CachingAllocator::Impl::process_events(bool wait) {
  if (pending == 0 || !routes.empty()) return;  // no queries while a stream is captured
  if (wait) ++stats.num_sync_all_streams;
  for (StreamQueue& queue : queues) {
    while (!queue.frees.empty()) {
      const PendingFree front = queue.frees.front();
      if (wait) {
        source->wait_event(front.event);
      } else if (!source->event_done(front.event)) {
        break;
      }
      source->destroy_event(front.event);
      queue.frees.pop_front();
      --pending;
      if (--front.block->pending_events == 0) reclaim(front.block);
    }
  }
}

/// Whether free segments of the heap may go back: not those that a captured graph will use again.
bool CachingAllocator::Impl::may_release(const Heap& heap) const {
  return heap.pool == 0 ||
         std::find(released_pools.begin(), released_pools.end(), heap.pool) != released_pools.end();
}

CachingAllocator::PoolId CachingAllocator::create_pool() {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  return impl_->next_pool++;
}

void CachingAllocator::begin_allocate_to_pool(PoolId pool, Stream stream) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  const std::vector<PoolId>& released = impl_->released_pools;
  WICK_CHECK(pool > 0 && pool < impl_->next_pool &&
                 std::find(released.begin(), released.end(), pool) == released.end(),
             "begin_allocate_to_pool: no such pool: got ", pool);
  impl_->routes.push_back({pool, stream, std::this_thread::get_id()});
}

void CachingAllocator::end_allocate_to_pool(PoolId pool, Stream stream) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  std::vector<Impl::Route>& routes = impl_->routes;
  const auto found = std::find_if(routes.begin(), routes.end(), [&](const Impl::Route& r) {
    return r.pool == pool && r.stream == stream && r.thread == std::this_thread::get_id();
  });
  WICK_CHECK(found != routes.end(), "end_allocate_to_pool: was not begun: got pool ", pool);
  routes.erase(found);
  if (!routes.empty()) return;
  for (memory::Block* block : impl_->deferred) impl_->record_events(block);
  impl_->deferred.clear();
}

void CachingAllocator::release_pool(PoolId pool) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  for (const Impl::Route& route : impl_->routes) {
    WICK_CHECK(route.pool != pool, "release_pool: still allocated to: got pool ", pool);
  }
  impl_->released_pools.push_back(pool);
}

}  // namespace wick
