#include <algorithm>

#include "wick/core/base/check.h"
#include "wick/core/memory/detail/allocator_impl.h"

namespace wick {

/// Marks the ends of the other streams' work with a freed block; it is reclaimed behind them. Runs
/// in destructors, so it tells nobody of a mark that cannot be made (a broken device does so at the
/// next checked call): the block waits for it for ever, since nobody knows when it may be reused.
void CachingAllocator::Impl::record_events(Block* block) noexcept {
  for (const Stream& stream : block->users) {
    ++block->pending_events;
    try {
      auto queue = std::find_if(queues.begin(), queues.end(),
                                [&](const StreamQueue& q) { return q.stream == stream; });
      if (queue == queues.end()) queue = queues.insert(queue, StreamQueue{stream, {}});
      queue->frees.push_back({source->record_event(stream), block});
      ++pending;
    } catch (...) {
    }
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

/// Whether free segments of the heap may go back: not those that a captured graph will use again,
/// and none during a capture, which forbids the driver to free anything.
bool CachingAllocator::Impl::may_release(const Heap& heap) const {
  return routes.empty() && !live_pools.contains(heap.pool);
}

CachingAllocator::PoolId CachingAllocator::create_pool() {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->live_pools.insert(impl_->next_pool);
  return impl_->next_pool++;
}

void CachingAllocator::begin_allocate_to_pool(PoolId pool) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  WICK_CHECK(impl_->live_pools.contains(pool), "begin_allocate_to_pool: no such pool: got ", pool);
  impl_->routes.push_back({pool, std::this_thread::get_id()});
}

void CachingAllocator::end_allocate_to_pool(PoolId pool) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  std::vector<Impl::Route>& routes = impl_->routes;
  const auto found = std::find_if(routes.begin(), routes.end(), [&](const Impl::Route& r) {
    return r.pool == pool && r.thread == std::this_thread::get_id();
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
  WICK_CHECK(impl_->live_pools.erase(pool) == 1,
             "release_pool: no such pool, or released before: got ", pool);
}

}  // namespace wick
