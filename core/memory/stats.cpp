#include "wick/core/memory/stats.h"

#include <cstdio>

#include "wick/core/base/check.h"
#include "wick/core/memory/detail/allocator_impl.h"

namespace wick {

namespace {

struct Kind {
  const char* name;
  MemoryStat PoolStats::*stat;
  bool bytes;
};
constexpr Kind kKinds[] = {
    {"allocated memory", &PoolStats::allocated_bytes, true},
    {"requested memory", &PoolStats::requested_bytes, true},
    {"active memory", &PoolStats::active_bytes, true},
    {"reserved memory", &PoolStats::reserved_bytes, true},
    {"inactive split memory", &PoolStats::inactive_split_bytes, true},
    {"allocations", &PoolStats::allocation, false},
    {"active blocks", &PoolStats::active, false},
    {"segments", &PoolStats::segment, false},
    {"inactive splits", &PoolStats::inactive_split, false},
};

std::string row(const char* name, const MemoryStat& stat, bool bytes) {
  std::string line = name;
  line.resize(30, ' ');
  for (const int64_t value : {stat.current, stat.peak, stat.allocated, stat.freed}) {
    const std::string text = bytes ? format_bytes(value) : concat(value);
    line += std::string(text.size() < 14 ? 14 - text.size() : 1, ' ') + text;
  }
  return line + "\n";
}

void reset_peak(MemoryStat& stat) { stat.peak = stat.current; }

}  // namespace

std::string format_bytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  int unit = 0;
  while ((value >= 1024 || value <= -1024) && unit < 4) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.2f %s", value, kUnits[unit]);
  return text;
}

Device CachingAllocator::device() const { return impl_->device; }
size_t CachingAllocator::capacity() const { return impl_->capacity; }

MemoryStats CachingAllocator::stats() const {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  return impl_->stats;
}

void CachingAllocator::reset_peak_stats() {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  MemoryStats& stats = impl_->stats;
  for (PoolStats* pool : {&stats.all, &stats.small, &stats.large}) {
    for (const Kind& kind : kKinds) reset_peak(pool->*kind.stat);
  }
  reset_peak(stats.oversize_allocation);
  reset_peak(stats.oversize_segment);
}

std::vector<SegmentInfo> CachingAllocator::snapshot(std::vector<MemoryEvent>* history) const {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  if (history != nullptr) *history = impl_->events_in_order();
  std::vector<SegmentInfo> result;
  for (const auto& entry : impl_->segments) {
    bool begins = true;
    for (const memory::Block* block = entry.second; block != nullptr; block = block->next) {
      if (!block->mapped) {  // what has no memory parts what has
        begins = true;
        continue;
      }
      if (begins) {
        const memory::Heap& heap = *block->heap;
        result.push_back({reinterpret_cast<uintptr_t>(block->pointer),
                          0,
                          heap.stream,
                          heap.pool,
                          block->small,
                          block->expandable,
                          {}});
      }
      begins = false;
      SegmentInfo& segment = result.back();
      const size_t requested = block->state == BlockState::kFree ? 0 : block->requested;
      segment.blocks.push_back({reinterpret_cast<uintptr_t>(block->pointer), block->size, requested,
                                block->state, block->op});
      segment.size += block->size;
    }
  }
  return result;
}

int64_t memory_allocated(Device device) { return memory_stats(device).all.allocated_bytes.current; }
int64_t memory_reserved(Device device) { return memory_stats(device).all.reserved_bytes.current; }
int64_t max_memory_allocated(Device device) {
  return memory_stats(device).all.allocated_bytes.peak;
}
int64_t max_memory_reserved(Device device) { return memory_stats(device).all.reserved_bytes.peak; }
void reset_peak_memory_stats(Device device) { allocator(device).reset_peak_stats(); }
MemoryStats memory_stats(Device device) { return allocator(device).stats(); }
std::vector<SegmentInfo> memory_snapshot(Device device) { return allocator(device).snapshot(); }
void empty_cache(Device device) { allocator(device).empty_cache(); }

void set_memory_fraction(Device device, double fraction) {
  WICK_CHECK(fraction >= 0 && fraction <= 1, "set_memory_fraction: bad fraction: got ", fraction,
             ", expected 0 to 1");
  CachingAllocator& of_device = allocator(device);
  of_device.set_memory_limit(
      static_cast<size_t>(fraction * static_cast<double>(of_device.capacity())));
}

std::string memory_summary(Device device) {
  const MemoryStats stats = memory_stats(device);
  std::string text = concat("memory of ", device);
  text.resize(30, ' ');
  text += "       current          peak     allocated         freed\n";
  for (const Kind& kind : kKinds) {
    text += row(kind.name, stats.all.*kind.stat, kind.bytes);
    text += row("  in the small pool", stats.small.*kind.stat, kind.bytes);
    text += row("  in the large pool", stats.large.*kind.stat, kind.bytes);
  }
  text += row("oversize allocations", stats.oversize_allocation, false);
  text += row("oversize segments", stats.oversize_segment, false);
  return text + concat("retries ", stats.num_alloc_retries, ", out of memory ", stats.num_ooms,
                       ", segments had from the source ", stats.num_device_alloc, ", given back ",
                       stats.num_device_free, ", waits for all streams ",
                       stats.num_sync_all_streams, "\n");
}

}  // namespace wick
