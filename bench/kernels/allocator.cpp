// The caching allocator: a request that the cache serves, beside malloc, and what fresh memory
// costs who writes to it.
#include "wick/core/memory/allocator.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "wick/bench/kernels/row.h"

namespace wick::bench::allocator_rows {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

bool add_memory(const std::string& name, std::function<void()> call, size_t written = 0) {
  return add_row({.name = "allocator/" + name, .cpu_only = true, .prepare = [=](const Setting&) {
                    return Work{.call = call, .bytes = static_cast<double>(written)};
                  }});
}

/// Live blocks around a free one, as in a program.
class Neighbours {
 public:
  Neighbours(Device device, size_t bytes) : memory_(allocator(device)) {
    for (void*& block : blocks_) block = memory_.allocate(bytes, current_stream(device));
    memory_.deallocate(blocks_[3]);
    blocks_[3] = nullptr;
  }
  ~Neighbours() {
    for (void* block : blocks_) memory_.deallocate(block);
  }
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

 private:
  CachingAllocator& memory_;
  void* blocks_[8];
};

bool add_cached_pair(size_t bytes) {
  return add_row(
      {.name = concat("allocator/cached_pair/", bytes), .prepare = [=](const Setting& s) {
         const auto around = std::make_shared<Neighbours>(s.device, bytes);
         return Work{.call = [around, bytes, device = s.device] {
           CachingAllocator& memory = allocator(device);
           memory.deallocate(memory.allocate(bytes, current_stream(device)));
         }};
       }});
}

void malloc_pair(size_t bytes) {
  void* volatile block = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  std::free(block);
}

void write_block(size_t bytes, bool fresh) {
  CachingAllocator& cpu = allocator(kCpu);
  void* block = cpu.allocate(bytes, current_stream(kCpu));
  std::memset(block, 1, bytes);
  cpu.deallocate(block);
  if (fresh) cpu.empty_cache();
}

// What malloc does with a large tensor in every step.
void write_4k_pages(size_t bytes) {
  void* block = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  WICK_CHECK(block != MAP_FAILED, "allocator: mmap failed: of ", bytes, " bytes");
  std::memset(block, 1, bytes);
  munmap(block, bytes);
}

[[maybe_unused]] const bool kAll = [] {
  for (const size_t bytes : {size_t{4}, size_t{4096}, 64 * kMiB / 1024, 4 * kMiB, 33 * kMiB}) {
    add_cached_pair(bytes);
    add_memory(concat("malloc_pair/", bytes), [=] { malloc_pair(bytes); });
  }
  for (const size_t bytes : {2 * kMiB, 32 * kMiB}) {
    add_memory(
        concat("write_cached/", bytes), [=] { write_block(bytes, false); }, bytes);
    add_memory(
        concat("write_fresh/", bytes), [=] { write_block(bytes, true); }, bytes);
    add_memory(
        concat("write_fresh_4k_pages/", bytes), [=] { write_4k_pages(bytes); }, bytes);
  }
  return true;
}();

}  // namespace
}  // namespace wick::bench::allocator_rows
