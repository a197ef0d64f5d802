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
    {"Allocated memory", &PoolStats::allocated_bytes, true},
    {"Active memory", &PoolStats::active_bytes, true},
    {"Requested memory", &PoolStats::requested_bytes, true},
    {"Reserved memory", &PoolStats::reserved_bytes, true},
    {"Non-releasable memory", &PoolStats::inactive_split_bytes, true},
    {"Allocations", &PoolStats::allocation, false},
    {"Active allocs", &PoolStats::active, false},
    {"Reserved segments", &PoolStats::segment, false},
    {"Non-releasable allocs", &PoolStats::inactive_split, false},
};

constexpr size_t kLine = 79;  // between the bars at its ends

std::string centred(const std::string& text, size_t width) {
  const size_t left = text.size() < width ? (width - text.size()) / 2 : 0;
  std::string padded = std::string(left, ' ') + text;
  if (padded.size() < width) padded.resize(width, ' ');
  return padded;
}
std::string rule(char of) { return "|" + std::string(kLine, of) + "|\n"; }
std::string cells(const std::vector<std::string>& texts) {
  const size_t width = (kLine + 1) / texts.size() - 1;
  std::string line = "|";
  for (const std::string& text : texts) line += centred(text, width) + "|";
  return line + "\n";
}

std::string row(const char* name, const MemoryStat& stat, bool bytes) {
  std::string line = concat("| ", name);
  line.resize(24, ' ');
  for (const int64_t value : {stat.current, stat.peak, stat.allocated, stat.freed}) {
    const std::string text = bytes ? format_bytes(value) : concat(value);
    line += "| " + std::string(text.size() < 11 ? 11 - text.size() : 0, ' ') + text + " ";
  }
  return line + "|\n";
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

MemoryUse CachingAllocator::use() const {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  const PoolStats& all = impl_->stats.all;
  MemoryUse use;
  use.tensors = all.allocated_bytes.current;
  use.cache = all.reserved_bytes.current - use.tensors;
  use.capacity = static_cast<int64_t>(impl_->capacity);
  impl_->source->add_others(use, all.reserved_bytes.current);
  return use;
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

MemoryUse memory_use(Device device) { return allocator(device).use(); }

std::string memory_summary(Device device, bool abbreviated) {
  const MemoryStats stats = memory_stats(device);
  const MemoryUse use = memory_use(device);
  std::string text = rule('=');
  text +=
      cells({concat("memory summary of ", device, ", ", format_bytes(use.capacity))}) + rule('-');
  text += cells({"tensors", "cache", "libraries", "context"});
  text += cells({format_bytes(use.tensors), format_bytes(use.cache), format_bytes(use.libraries),
                 format_bytes(use.context)});
  text += rule('-');
  text += cells(
      {concat("out of memory: ", stats.num_ooms), concat("retries: ", stats.num_alloc_retries)});
  text += cells({concat("segments had: ", stats.num_device_alloc),
                 concat("segments given back: ", stats.num_device_free)});
  text += rule('=');
  text += "|        Metric         |  Cur Usage  | Peak Usage  |  Tot Alloc  |  Tot Freed  |\n";
  for (const Kind& kind : kKinds) {
    text += rule('-') + row(kind.name, stats.all.*kind.stat, kind.bytes);
    if (abbreviated) continue;
    text += row("      from large pool", stats.large.*kind.stat, kind.bytes);
    text += row("      from small pool", stats.small.*kind.stat, kind.bytes);
  }
  text += rule('-') + row("Oversize allocations", stats.oversize_allocation, false);
  text += rule('-') + row("Oversize segments", stats.oversize_segment, false);
  return text + rule('=');
}

}  // namespace wick
