#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <memory>
#include <string>
#include <vector>

#include "wick/core/base/philox.h"
#include "wick/kernels/sim/block.h"
#include "wick/kernels/sim/count.h"
#include "wick/kernels/sim/device_code.h"
#include "wick/kernels/sim/sanitizers.h"

// Each thread of a block runs on a fiber until it waits or ends. A fiber whose thread ended goes on
// with the next thread that has not begun, so that a kernel in which nobody waits needs one fiber.
// What includes this file is built without ThreadSanitizer: what that watches are the kernels. Even
// so a template of the standard library may be linked in the form that another file has built with
// it; hence a simulated thread only notes what it wants, in plain arrays, and the scheduler acts.
namespace wick::sim {

namespace context = boost::context::detail;

constexpr size_t kStackBytes = size_t{192} << 10;
constexpr size_t kSharedBytes = size_t{227} << 10;  // of one block, static and dynamic
constexpr size_t kStaticSharedBytes = size_t{48} << 10;
constexpr size_t kGap = 64;  // unused bytes behind every variable in shared memory
// ThreadSanitizer tells at most 256 threads apart. All blocks' threads share these identities by a
// hash of their number; two sets take turns, so that neighbouring blocks are told apart. A stack
// serves one identity only: reusing it under another would look like a race.
constexpr unsigned kIdentities = WICK_SIM_TSAN ? 48 : 1;
constexpr unsigned kIdentitySets = WICK_SIM_TSAN ? 2 : 1;

enum class State : uint8_t { kNew, kReady, kAtBarrier, kAtWarp, kStopped, kDone };

struct Fiber {
  context::fcontext_t context = nullptr;
  char* stack = nullptr;
  int thread = -1;  // that runs or waits on it
  unsigned identity = 0;
};

struct Thread {
  State state = State::kNew;
  Fiber* fiber = nullptr;
  unsigned identity = 0;
  Site site{};
  // What it gives to and gets from its warp or block:
  const char* failure = nullptr;  // why it stopped
  unsigned mask = 0;
  uint64_t bits = 0;
  int source = -1;  // a lane, or -1 for a vote
  int count = 0;
  unsigned barriers = 0, warp_syncs = 0;  // passed so far
};

/// Which lanes of a warp wait for others of it, and which have ended or never were.
struct Warp {
  unsigned waiting = 0, absent = 0;
};

struct SharedVariable {
  const void* key = nullptr;
  size_t bytes = 0, offset = 0;
  uint64_t block = 0;  // that it was last made ready for
};

class BlockRunner {
 public:
  BlockRunner(const Kernel& kernel, const Settings& settings)
      : kernel_(kernel), settings_(settings), random_(settings.seed, 0) {
    static uint64_t kernels = 0;
    number_ = settings.seed + ++kernels;
    size_ = int(kernel.block.x * kernel.block.y * kernel.block.z);
    threads_storage_ = std::make_unique<Thread[]>(size_t(size_));
    threads_ = threads_storage_.get();
    warps_storage_ = std::make_unique<Warp[]>(size_t(size_ + 31) / 32);
    warps_ = warps_storage_.get();
  }

  std::string run(const std::vector<uint64_t>& wanted);

  void wait_at_barrier(Site site, bool value);
  void sync_warp(Site site, unsigned mask);
  void wait_at_warp(Site site, unsigned mask, uint64_t bits, int source);
  void* shared(const void* key, size_t bytes);
  void* dynamic_shared() { return arena_; }
  /// Ends the thread, and with it the kernel. Its stack is dropped as it is: nothing on it may own
  /// anything.
  [[noreturn]] void stop(Site site, const char* what);
  Thread& current() { return threads_[running_->thread]; }
  int lane() const { return running_->thread % 32; }
  /// Notes what the running thread does with memory other than its own stack.
  void note_access(AccessLog& log, const void* site, const void* address, size_t bytes) const {
    if (running_ == nullptr) return;
    const auto on_stack = static_cast<size_t>(static_cast<const char*>(address) - running_->stack);
    if (on_stack >= kStackBytes) log.note(running_->thread, site, address, bytes);
  }

 private:
  /// Orders what the threads of one barrier (group 0) or warp (group 1 + warp) did before it.
  char* token(unsigned group, unsigned turn) {
    return tokens_ + (block_ % kTokenBlocks) * kTokens + group * 2 + turn % 2;
  }
  void run_block(uint64_t index, bool is_first);
  void take_arena();
  void drop_arena();
  void prepare_arena(uint64_t index);
  void start_threads();
  int next_ready();
  void resume(Fiber& fiber);
  void yield();
  void attend_to(int thread);
  void release_barrier_if_complete();
  void release_warp_if_complete(int thread);
  void set_failure(const Thread& thread, const std::string& what);
  void make_ready(const int* threads, int count);
  Warp& warp_of(int thread) { return warps_[thread / 32]; }
  void explain_deadlock();
  Fiber& idle_fiber(unsigned identity);
  WICK_SIM_UNWATCHED void fiber_main(Fiber& fiber);
  static void enter(context::transfer_t from);
  void set_here(int thread);
  std::string where(int thread) const;

  const Kernel& kernel_;
  const Settings settings_;
  PhiloxStream random_;
  uint64_t number_ = 0;  // of this kernel among all
  int size_ = 0;
  uint64_t block_ = 0;
  std::unique_ptr<Thread[]> threads_storage_;
  Thread* threads_ = nullptr;
  std::unique_ptr<Warp[]> warps_storage_;
  Warp* warps_ = nullptr;
  std::vector<int> ready_, together_;  // together_: threads that begin, or leave a barrier
  const int *next_ = nullptr, *ready_end_ = nullptr;  // into ready_
  int ahead_ = 0;
  int alive_ = 0, at_barrier_ = 0;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_[kIdentitySets * kIdentities];
  Fiber* running_ = nullptr;
  context::fcontext_t scheduler_ = nullptr;
  [[maybe_unused]] const void* scheduler_stack_ = nullptr;  // for AddressSanitizer
  [[maybe_unused]] size_t scheduler_stack_bytes_ = 0;
  std::string failure_;
  char* arena_ = nullptr;  // this block's shared memory
  size_t used_ = 0;        // of the arena, by the dynamic part and the variables
  size_t named_ = 0;       // bytes of the variables
  static constexpr int kMostVariables = 64;
  SharedVariable variables_[kMostVariables];  // in shared memory
  int variable_count_ = 0;
  char launch_token_ = 0, end_token_ = 0;
  // For barriers and warps of kTokenBlocks neighbouring blocks. Two each, which take turns: who has
  // reached the next barrier already is not ordered before who has yet to leave this one.
  static constexpr unsigned kTokenBlocks = 64, kTokens = 2 * (1 + 32);
  char tokens_[kTokenBlocks * kTokens] = {};
};

/// That of the kernel which this host thread runs now.
extern BlockRunner* runner;

uint3 unravel(uint64_t index, dim3 size);
std::string to_string(uint3 index);

}  // namespace wick::sim
