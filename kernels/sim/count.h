#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// Counts what would decide a kernel's speed on a real GPU and needs none to be known: how its warps
// use memory. Kernels have to be compiled by clang with WICK_SIM_COUNT (the preset `count`), which
// calls back at every load and store.
namespace wick::sim {

/// What the warps of a kernel did, over all its launches. An access is one load or store
/// instruction run by one warp; what a GPU keeps in registers is not counted.
struct AccessCounts {
  int64_t launches = 0;
  int64_t lanes = 0;            // that took part in accesses: 32 each unless threads diverge
  int64_t global_accesses = 0;  // to device memory
  int64_t global_sectors = 0;   // of 32 bytes that those touched
  int64_t least_sectors = 0;    // that they had touched with their bytes side by side
  int64_t shared_accesses = 0;
  int64_t shared_passes = 0;  // over the 32 banks that those took: more where banks conflict
  int64_t least_passes = 0;   // without conflicts

  int64_t accesses() const { return global_accesses + shared_accesses; }
};

struct CountedKernel {
  std::string name;
  AccessCounts counts;
};

/// Starts counting from zero, or ends it. Kernels run meanwhile are counted where they were
/// compiled for it. Not while work is queued.
void count_accesses(bool on);
/// What was counted since, by name.
std::vector<CountedKernel> counted_kernels();

/// The accesses of one block, noted one by one.
class AccessLog {
 public:
  /// `site`: the instruction.
  void note(int thread, const void* site, const void* address, size_t bytes) {
    accesses_.push_back({site, 0, thread, reinterpret_cast<uintptr_t>(address), bytes});
  }
  /// Adds them to what kernel `name` did, and forgets them. `shared`: the block's shared memory.
  void close(const char* name, bool first_block, const char* shared, size_t shared_bytes);

 private:
  struct Access {
    const void* site;
    int64_t turn;  // of this thread at this site
    int thread;
    uintptr_t address;
    size_t bytes;
  };
  using Span = std::vector<Access>::const_iterator;
  static void add_global(AccessCounts& counts, Span begin, Span end);
  static void add_shared(AccessCounts& counts, Span begin, Span end);
  void number_turns();

  std::vector<Access> accesses_;
};

/// That of this host thread's kernel; null where nothing is counted.
AccessLog* access_log();

}  // namespace wick::sim
