#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "wick/core/base/device.h"
#include "wick/core/memory/stats.h"

namespace wick {

/// Where memory comes from: plain host pages, pinned host memory, a CUDA device, or a test's fake.
/// The allocator calls it under its lock.
class RawSource {
 public:
  using Event = void*;

  virtual ~RawSource() = default;
  /// The device that the memory belongs to; the CPU for pinned host memory.
  virtual Device device() const = 0;
  /// What it is the source of, for errors.
  virtual const char* kind() const { return "memory"; }
  /// What helps where there is no more of it, for errors; empty if nothing is known to.
  virtual std::string_view advice() const {
    return "nn::advise_on_memory tells a program what would fit";
  }
  /// Bytes the device has in all; the allocator holds at most these.
  virtual size_t capacity() const = 0;
  /// Adds to `use` what is in use beside the allocator's `reserved` bytes.
  virtual void add_others(MemoryUse& use, int64_t reserved) const { (void)use, (void)reserved; }
  /// `bytes` (a multiple of 2 MiB) of memory, aligned to 512 bytes or more; null if there are none.
  virtual void* allocate(size_t bytes) = 0;
  /// Gives back what `allocate` returned, after all work on the device that may use it.
  virtual void deallocate(void* pointer, size_t bytes) = 0;

  /// Whether the next five work: addresses are reserved, and get memory page by page.
  virtual bool can_map() const { return false; }
  /// By how much a segment of large requests grows at least: a multiple of 2 MiB.
  virtual size_t large_page() const { return size_t{20} << 20; }
  /// Addresses for `bytes` (a multiple of 2 MiB); null if there are none.
  virtual void* reserve(size_t) { return nullptr; }
  /// Gives back what `reserve` returned, after all its memory.
  virtual void unreserve(void*, size_t) {}
  /// Puts memory behind reserved addresses, in pieces of `page` bytes; false, and nothing has
  /// changed, if there is none.
  virtual bool map(void* /*pointer*/, size_t /*bytes*/, size_t /*page*/) { return false; }
  /// Takes it away again, whole pieces, after all work on the device that may use it.
  virtual void unmap(void* /*pointer*/, size_t /*bytes*/, size_t /*page*/) {}

  /// The bytes may be used, or not, by work queued on `stream` from now on. The defaults tell
  /// AddressSanitizer, at once.
  virtual void show(void* pointer, size_t bytes, Stream stream);
  virtual void hide(void* pointer, size_t bytes, Stream stream);

  /// A mark behind the work queued on `stream` so far. The defaults are those of a device that
  /// finishes work at once.
  virtual Event record_event(Stream) { return nullptr; }
  virtual bool event_done(Event) { return true; }  // whether the work before it is done
  virtual void wait_event(Event) {}                // waits for the work before it
  virtual void destroy_event(Event) {}             // after its last use
};

/// How an allocator rounds, splits and keeps memory. Sizes are in bytes.
struct AllocatorConfig {
  static constexpr size_t kUnlimited = SIZE_MAX;

  /// Every size is rounded up to a multiple of this: 512 on devices, 64 on the host.
  size_t granule = 512;
  /// Blocks of this size or more are never split, nor given to smaller requests.
  size_t max_split_size = kUnlimited;
  /// Sizes are rounded up to a power of two divided by this, if above 1; one entry per power of two
  /// from 1 MiB (which smaller sizes use too) to 32 GiB (larger sizes too).
  std::array<int, 16> roundup_power2_divisions{};
  /// If above 0: once this share of the limit is held, large cached blocks are given back, the
  /// longest unused first, before more memory is asked for.
  double garbage_collection_threshold = 0;
  /// Whether each stream's memory is one segment for small and one for large requests that grow
  /// where they are, as PyTorch's, instead of many that cannot. Where the source can.
  bool expandable_segments = false;
  /// The most to hold, if less than the device has.
  size_t memory_limit = kUnlimited;
  /// Freed blocks up to this size wait in lists by exact size, unmerged, for the next request.
  size_t quick_size = 4096;
  /// Bytes behind every allocation that no code may touch. 64 under AddressSanitizer.
  size_t redzone = kDefaultRedzone;

  /// Reads "max_split_size_mb:128,garbage_collection_threshold:0.8,roundup_power2_divisions:8 (or
  /// [256:1,>:8], from MiB),expandable_segments:true,memory_limit_mb:4096" over `base`, or fails.
  static AllocatorConfig parse(std::string_view text, const AllocatorConfig& base);

#if defined(__SANITIZE_ADDRESS__)
  static constexpr size_t kDefaultRedzone = 64;
#elif defined(__has_feature)
  static constexpr size_t kDefaultRedzone = __has_feature(address_sanitizer) ? 64 : 0;
#else
  static constexpr size_t kDefaultRedzone = 0;
#endif
};

/// Keeps freed memory for reuse, since asking the driver or the operating system for it is slow.
/// Requests are rounded and served by the best-fitting free block of the same stream; blocks are
/// split, and merged again when freed. When the source has no more, cached memory is given back to
/// it before an allocation fails. All functions may be called from any thread.
class CachingAllocator {
 public:
  using Config = AllocatorConfig;
  using PoolId = uint64_t;

  explicit CachingAllocator(std::unique_ptr<RawSource> source, const Config& config = {});
  ~CachingAllocator();  // gives every segment back, live blocks with it
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  /// Memory for work on `stream`, aligned to the granule at least; null only for 0 bytes. Throws
  /// OutOfMemory, with the allocator's figures, when there is none; the allocator stays usable.
  void* allocate(size_t bytes, Stream stream);
  /// Frees what `allocate` returned; null is allowed. Throws Error for any other pointer, and for a
  /// block that was freed before.
  void deallocate(void* pointer);
  /// Tells that work on `stream` uses the block: once freed, it is reused only after that work.
  void record_stream(void* pointer, Stream stream);

  /// Gives every cached segment without a live block back to the source.
  void empty_cache();
  /// The most bytes to hold from now on, at most the device's capacity.
  void set_memory_limit(size_t bytes);
  size_t memory_limit() const;  // in bytes
  /// For tests: lets the `nth` allocation from now (1: the next) find no memory; 0 lets none.
  void fail_allocation(int64_t nth);

  MemoryStats stats() const;  // all figures now
  MemoryUse use() const;      // what the memory in use is for, in bytes
  void reset_peak_stats();    // makes each peak the current figure
  /// Every segment in address order and, in `history`, the events kept up to the same moment.
  std::vector<SegmentInfo> snapshot(std::vector<MemoryEvent>* history = nullptr) const;
  /// Keeps the latest `max_entries` events from now on; see record_memory_history.
  void record_history(size_t max_entries);
  size_t history_limit() const;  // the most events kept; 0: none are
  Device device() const;         // whose memory this is
  size_t capacity() const;       // bytes that the device has

  /// A pool of segments that nothing outside it reuses, as a captured graph needs: for CudaGraph.
  PoolId create_pool();
  /// From here to `end_allocate_to_pool` this thread's allocations come from `pool`, whatever their
  /// stream: others may join the capture of one.
  void begin_allocate_to_pool(PoolId pool);
  void end_allocate_to_pool(PoolId pool);
  /// The pool's graph is gone: memory that is free in it may be given back. Once per pool.
  void release_pool(PoolId pool);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The process's allocator of `device`; an error for a device this build or machine lacks. Reads
/// its configuration from WICK_CPU_ALLOC or WICK_CUDA_ALLOC (see AllocatorConfig::parse) on first
/// use.
CachingAllocator& allocator(Device device);

/// The process's allocator of pinned host memory, which GPUs can copy to and from while the host
/// goes on; error in a build or on a machine without CUDA. Reads its configuration from
/// WICK_PINNED_ALLOC.
CachingAllocator& pinned_allocator();

/// Pages of the operating system, as the CPU's allocator takes them.
std::unique_ptr<RawSource> make_host_source();

/// Makes the source of GPU number `index`; throws if there is no such GPU.
using SourceFactory = std::unique_ptr<RawSource> (*)(int index);
using PinnedFactory = std::unique_ptr<RawSource> (*)();
/// How a build with CUDA announces where its memory comes from.
void register_cuda_sources(SourceFactory device, PinnedFactory pinned);

}  // namespace wick
