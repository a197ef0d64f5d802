#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "wick/core/base/device.h"

namespace wick {

/// One figure followed over time. `allocated - freed == current`.
struct MemoryStat {
  int64_t current = 0;
  int64_t peak = 0;
  int64_t allocated = 0;
  int64_t freed = 0;
};

/// The figures of one pool. Counts, and bytes where the name says so. "Active" memory is live, or
/// freed while another stream may still use it; "inactive split" memory is the free part of a
/// segment of which another part is in use.
struct PoolStats {
  MemoryStat allocation;
  MemoryStat segment;
  MemoryStat active;
  MemoryStat inactive_split;
  MemoryStat allocated_bytes;
  MemoryStat reserved_bytes;
  MemoryStat active_bytes;
  MemoryStat inactive_split_bytes;
  MemoryStat requested_bytes;  // as asked for, before rounding
};

/// All figures of one device's allocator.
struct MemoryStats {
  PoolStats all;
  PoolStats small;  // requests of at most 1 MiB
  PoolStats large;
  MemoryStat oversize_allocation;  // of max_split_size or more
  MemoryStat oversize_segment;
  int64_t num_alloc_retries = 0;  // times the source had no more, so cached memory was freed
  int64_t num_ooms = 0;
  int64_t num_device_alloc = 0;  // calls to the driver or the operating system
  int64_t num_device_free = 0;
  int64_t num_sync_all_streams = 0;
};

enum class BlockState : uint8_t {
  kFree,     // cached, ready for reuse
  kLive,     // held by a caller
  kPending,  // freed; another stream has not finished with it
};

/// A part of a segment.
struct BlockInfo {
  uintptr_t address = 0;
  size_t size = 0;
  size_t requested = 0;  // bytes asked for, if not free
  BlockState state = BlockState::kFree;
  const char* op = "";  // operation that asked for it; none outside operations
};

/// A piece of memory had from the device or the operating system, and how it is cut up.
struct SegmentInfo {
  uintptr_t address = 0;
  size_t size = 0;
  Stream stream;
  uint64_t pool = 0;  // 0, or the private pool it belongs to
  bool small = false;
  bool expandable = false;        // part of a segment that grows
  std::vector<BlockInfo> blocks;  // in address order, without gaps
};

enum class MemoryAction : uint8_t {
  kAllocate,
  kFree,           // by its holder; another stream may still use it
  kFreeCompleted,  // ready for reuse
  kSegmentAllocate,
  kSegmentFree,
  kSegmentMap,    // memory for a part of a segment that grows,
  kSegmentUnmap,  // and given back
  kOutOfMemory,   // the size is what could not be had
};

/// Something that an allocator did.
struct MemoryEvent {
  MemoryAction action = MemoryAction::kAllocate;
  uintptr_t address = 0;
  size_t size = 0;  // of a block, as asked for
  Stream stream;
  int64_t time_us = 0;  // since 1970
  const char* op = "";
};

/// "1.50 GiB", "512 B"
std::string format_bytes(int64_t bytes);

/// Bytes in live tensors of `device`, rounded as they are allocated.
int64_t memory_allocated(Device device);
/// Bytes held from the device or the operating system: live and cached.
int64_t memory_reserved(Device device);
/// The largest `memory_allocated` since the start or `reset_peak_memory_stats`.
int64_t max_memory_allocated(Device device);
/// The largest `memory_reserved` since the start or `reset_peak_memory_stats`.
int64_t max_memory_reserved(Device device);
/// Makes each peak the current figure.
void reset_peak_memory_stats(Device device);
/// Every figure of the allocator of `device`.
MemoryStats memory_stats(Device device);
/// Whose the memory is that is in use, in bytes.
struct MemoryUse {
  int64_t tensors = 0;    // live blocks of the allocator
  int64_t cache = 0;      // what it holds beside them
  int64_t libraries = 0;  // GPU: taken since the first use, for kernels and by vendors' libraries;
                          // CPU: mapped files, as the code of the program and of libraries
  int64_t context = 0;    // GPU: the driver's, and of other processes, at the first use; CPU: the
                          // rest of the process, as its heap and stacks
  int64_t capacity = 0;   // of the device
};
MemoryUse memory_use(Device device);

/// The figures as a table of text, in PyTorch's form, after who uses the memory; `abbreviated`
/// leaves out those of the small and the large pool.
std::string memory_summary(Device device, bool abbreviated = false);
/// Every segment of `device`, in address order.
std::vector<SegmentInfo> memory_snapshot(Device device);
/// From now on keeps the latest `max_entries` events of `device`; 0 (the state at the start) keeps
/// none, and drops those there are. Costs a clock's reading per event and 48 bytes per entry.
void record_memory_history(Device device, size_t max_entries = size_t{1} << 16);
/// The most events that are kept; 0: none are.
size_t memory_history_limit(Device device);
/// The events kept, the oldest first.
std::vector<MemoryEvent> memory_history(Device device);
/// Writes the snapshot and the history of `device` as the pickle that PyTorch's viewer of memory
/// (pytorch.org/memory_viz) and `python -m torch.cuda._memory_viz` read. Where they show a call
/// stack, the operation stands. Error if the file cannot be written.
void save_memory_snapshot(Device device, const std::string& path);
/// Gives unused cached memory of `device` back, for other programs; live tensors keep theirs.
void empty_cache(Device device);
/// Lets this process hold at most `fraction` (0 to 1) of the memory of `device`.
void set_memory_fraction(Device device, double fraction);

}  // namespace wick
