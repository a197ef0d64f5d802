#include "wick/kernels/sim/count.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <unordered_map>

#include "wick/kernels/sim/block_runner.h"

namespace wick::sim {

namespace {

constexpr uintptr_t kSector = 32, kBankBytes = 4, kBanks = 32;

std::atomic<bool> counting{false};
std::mutex mutex;
std::map<std::string, AccessCounts> counted;

}  // namespace

void count_accesses(bool on) {
  const std::lock_guard lock(mutex);
  if (on) counted.clear();
  counting = on;
}

std::vector<CountedKernel> counted_kernels() {
  const std::lock_guard lock(mutex);
  std::vector<CountedKernel> all;
  for (const auto& [name, counts] : counted) all.push_back({name, counts});
  return all;
}

AccessLog* access_log() {
  static thread_local AccessLog log;
  return counting.load(std::memory_order_relaxed) ? &log : nullptr;
}

/// Numbers each thread's accesses at each site: those of a warp with one number are one access.
void AccessLog::number_turns() {
  std::stable_sort(accesses_.begin(), accesses_.end(),
                   [](const Access& a, const Access& b) { return a.thread < b.thread; });
  std::unordered_map<const void*, int64_t> turns;
  int thread = -1;
  for (Access& access : accesses_) {
    if (access.thread != thread) turns.clear();
    thread = access.thread;
    access.turn = turns[access.site]++;
  }
}

void AccessLog::add_global(AccessCounts& counts, Span begin, Span end) {
  std::set<uintptr_t> sectors;
  uintptr_t bytes = 0;
  for (Span a = begin; a != end; ++a) {
    for (uintptr_t s = a->address / kSector; s <= (a->address + a->bytes - 1) / kSector; ++s) {
      sectors.insert(s);
    }
    bytes += a->bytes;
  }
  ++counts.global_accesses;
  counts.global_sectors += static_cast<int64_t>(sectors.size());
  // Lanes that read the same bytes need them only once.
  counts.least_sectors += std::min(static_cast<int64_t>((bytes + kSector - 1) / kSector),
                                   static_cast<int64_t>(sectors.size()));
}

/// Lanes that use 8 or 16 bytes each take turns: half a warp or a quarter at a time.
void AccessLog::add_shared(AccessCounts& counts, Span begin, Span end) {
  const auto at_a_time = static_cast<int>(kBanks * kBankBytes / std::max(begin->bytes, kBankBytes));
  ++counts.shared_accesses;
  for (Span part = begin; part != end;) {
    const int turn = part->thread % 32 / at_a_time;
    std::set<uintptr_t> words[kBanks];
    for (; part != end && part->thread % 32 / at_a_time == turn; ++part) {
      const uintptr_t last = (part->address + part->bytes - 1) / kBankBytes;
      for (uintptr_t w = part->address / kBankBytes; w <= last; ++w) words[w % kBanks].insert(w);
    }
    size_t passes = 0;
    for (const auto& of_bank : words) passes = std::max(passes, of_bank.size());
    counts.shared_passes += static_cast<int64_t>(passes);
    ++counts.least_passes;
  }
}

void AccessLog::close(const char* name, bool first_block, const char* shared, size_t shared_bytes) {
  number_turns();
  const auto key = [](const Access& a) { return std::tuple(a.site, a.turn, a.thread / 32); };
  std::stable_sort(accesses_.begin(), accesses_.end(),
                   [&](const Access& a, const Access& b) { return key(a) < key(b); });
  AccessCounts counts;
  counts.launches = first_block;
  const auto arena = reinterpret_cast<uintptr_t>(shared);
  for (Span begin = accesses_.begin(); begin != accesses_.end();) {
    Span end = begin;
    while (end != accesses_.end() && key(*end) == key(*begin)) ++end;
    if (begin->address - arena < shared_bytes) {
      add_shared(counts, begin, end);
      counts.lanes += end - begin;
    } else if (is_device_memory(reinterpret_cast<const void*>(begin->address), begin->bytes)) {
      add_global(counts, begin, end);
      counts.lanes += end - begin;
    }
    begin = end;
  }
  accesses_.clear();
  const std::lock_guard lock(mutex);
  AccessCounts& sum = counted[name];
  for (const auto member :
       {&AccessCounts::launches, &AccessCounts::lanes, &AccessCounts::global_accesses,
        &AccessCounts::global_sectors, &AccessCounts::least_sectors, &AccessCounts::shared_accesses,
        &AccessCounts::shared_passes, &AccessCounts::least_passes}) {
    sum.*member += counts.*member;
  }
}

}  // namespace wick::sim

// What clang calls before every load and store of what was compiled for it.
#define WICK_SIM_COUNTED(bytes, type)                                    \
  extern "C" void __sanitizer_cov_load##bytes(type* address);            \
  extern "C" void __sanitizer_cov_store##bytes(type* address);           \
  extern "C" void __sanitizer_cov_load##bytes(type* address) {           \
    wick::sim::note_access(__builtin_return_address(0), address, bytes); \
  }                                                                      \
  extern "C" void __sanitizer_cov_store##bytes(type* address) {          \
    wick::sim::note_access(__builtin_return_address(0), address, bytes); \
  }

namespace wick::sim {
namespace {

void note_access(const void* site, const void* address, size_t bytes) {
  AccessLog* log = access_log();
  if (log != nullptr && runner != nullptr) runner->note_access(*log, site, address, bytes);
}

}  // namespace
}  // namespace wick::sim

WICK_SIM_COUNTED(1, uint8_t)
WICK_SIM_COUNTED(2, uint16_t)
WICK_SIM_COUNTED(4, uint32_t)
WICK_SIM_COUNTED(8, uint64_t)
WICK_SIM_COUNTED(16, void)
