// The caching allocator: what a request costs that the cache serves, and what fresh memory costs.

#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "wick/core/memory/allocator.h"

namespace wick {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// --- served by the cache: one allocation and its freeing -----------------------------------------

void cached_pair(benchmark::State& state) {
  CachingAllocator& cpu = allocator(kCpu);
  const Stream stream = current_stream(kCpu);
  const auto bytes = static_cast<size_t>(state.range(0));
  void* neighbours[8];  // so that the block has some, as in a program
  for (void*& block : neighbours) block = cpu.allocate(bytes, stream);
  cpu.deallocate(neighbours[3]);
  neighbours[3] = nullptr;
  for (auto _ : state) {
    void* block = cpu.allocate(bytes, stream);
    benchmark::DoNotOptimize(block);
    cpu.deallocate(block);
  }
  for (void* block : neighbours) cpu.deallocate(block);
}
BENCHMARK(cached_pair)->Arg(4)->Arg(4096)->Arg(64 << 10)->Arg(4 << 20)->Arg(33 << 20);
BENCHMARK(cached_pair)->Arg(4)->Threads(2);

void malloc_pair(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  for (auto _ : state) {
    void* block = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    benchmark::DoNotOptimize(block);
    std::free(block);
  }
}
BENCHMARK(malloc_pair)->Arg(4)->Arg(4096)->Arg(64 << 10)->Arg(4 << 20)->Arg(33 << 20);
BENCHMARK(malloc_pair)->Arg(4)->Threads(2);

/// 1,000 live blocks of mixed sizes, of which a random one is replaced.
void cached_mixed(benchmark::State& state) {
  CachingAllocator& cpu = allocator(kCpu);
  const Stream stream = current_stream(kCpu);
  std::mt19937 random(1);
  std::vector<size_t> sizes(4096);
  for (size_t& size : sizes) size = (size_t{1} << random() % 20) + random() % 100;
  std::vector<void*> blocks(1000, nullptr);
  size_t i = 0;
  for (auto _ : state) {
    void*& block = blocks[random() % blocks.size()];
    cpu.deallocate(block);
    block = cpu.allocate(sizes[i++ % sizes.size()], stream);
  }
  for (void* block : blocks) cpu.deallocate(block);
}
BENCHMARK(cached_mixed);

// --- writing a tensor: into memory that was used before, and into fresh pages --------------------

void write_cached(benchmark::State& state) {
  CachingAllocator& cpu = allocator(kCpu);
  const auto bytes = static_cast<size_t>(state.range(0));
  for (auto _ : state) {
    void* block = cpu.allocate(bytes, current_stream(kCpu));
    std::memset(block, 1, bytes);
    cpu.deallocate(block);
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(write_cached)->Arg(2 * kMiB)->Arg(32 * kMiB)->Unit(benchmark::kMicrosecond);

void write_fresh(benchmark::State& state) {
  CachingAllocator& cpu = allocator(kCpu);
  const auto bytes = static_cast<size_t>(state.range(0));
  for (auto _ : state) {
    void* block = cpu.allocate(bytes, current_stream(kCpu));
    std::memset(block, 1, bytes);
    cpu.deallocate(block);
    cpu.empty_cache();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(write_fresh)->Arg(2 * kMiB)->Arg(32 * kMiB)->Unit(benchmark::kMicrosecond);

/// What malloc does with a large tensor in every step.
void write_fresh_4k_pages(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  for (auto _ : state) {
    void* block = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return state.SkipWithError("mmap failed");
    std::memset(block, 1, bytes);
    munmap(block, bytes);
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(write_fresh_4k_pages)->Arg(2 * kMiB)->Arg(32 * kMiB)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace wick
