#include "wick/kernels/sim/block.h"

#include <sys/mman.h>

#include <algorithm>
#include <boost/context/detail/fcontext.hpp>
#include <cstring>
#include <memory>
#include <vector>

#include "wick/core/base/check.h"
#include "wick/core/base/philox.h"
#include "wick/kernels/sim/device_code.h"
#include "wick/kernels/sim/sanitizers.h"

// Each thread of a block runs on a fiber until it waits or ends. A fiber whose thread ended goes on
// with the next thread that has not begun, so that a kernel in which nobody waits needs one fiber.
// This file is built without ThreadSanitizer: what it watches are the kernels.
namespace wick::sim {

namespace context = boost::context::detail;

thread_local constinit Here here{};

namespace {

constexpr size_t kStackBytes = size_t{192} << 10;
constexpr size_t kSharedBytes = size_t{227} << 10;  // of one block, static and dynamic
constexpr size_t kStaticSharedBytes = size_t{48} << 10;
constexpr size_t kGap = 64;  // unused bytes behind every variable in shared memory
// ThreadSanitizer tells at most 256 threads apart. Threads of a block share these identities by a
// hash of their number; two sets take turns, so that neighbouring blocks are told apart.
constexpr unsigned kIdentities = 48;

enum class State : uint8_t { kNew, kReady, kAtBarrier, kAtWarp, kDone };

struct Fiber {
  context::fcontext_t context = nullptr;
  char* stack = nullptr;
  int thread = -1;  // that runs or waits on it
};

struct Thread {
  State state = State::kNew;
  Fiber* fiber = nullptr;
  Identity identity = nullptr;
  Site site{};
  // What it gives to and gets from its warp or block:
  unsigned mask = 0;
  uint64_t bits = 0;
  int source = -1;  // a lane, or -1 for a vote
  int count = 0;
};

struct SharedVariable {
  const void* key;
  size_t bytes, offset;
  uint64_t block;  // that it was last made ready for
};

class BlockRunner {
 public:
  BlockRunner(const Kernel& kernel, const Settings& settings)
      : kernel_(kernel), settings_(settings), random_(settings.seed, 0) {
    size_ = int(kernel.block.x * kernel.block.y * kernel.block.z);
    threads_.resize(size_t(size_));
  }

  std::string run(const std::function<bool(uint64_t)>& wanted);

  void wait_at_barrier(Site site, bool value);
  void wait_at_warp(Site site, unsigned mask, uint64_t bits, int source);
  void* shared(const void* key, size_t bytes);
  void* dynamic_shared() { return arena_; }
  [[noreturn]] void stop(const std::string& failure);
  void fail_at(Site site, const std::string& what);
  Thread& current() { return threads_[size_t(running_->thread)]; }
  int lane() const { return running_->thread % 32; }

 private:
  void run_block(uint64_t index);
  void prepare_arena(uint64_t index);
  void start_threads();
  int next_ready();
  void resume(Fiber& fiber);
  void yield();
  void thread_ended();
  void release_barrier_if_complete();
  void release_warp_if_complete(unsigned warp, unsigned mask);
  void make_ready(const std::vector<int>& threads);
  void explain_deadlock();
  Fiber& idle_fiber();
  WICK_SIM_UNWATCHED void fiber_main(Fiber& fiber);
  static void enter(context::transfer_t from);
  void set_here(int thread);
  std::string where(int thread) const;

  const Kernel& kernel_;
  const Settings settings_;
  PhiloxStream random_;
  int size_ = 0;
  uint64_t block_ = 0;
  std::vector<Thread> threads_;
  std::vector<int> ready_;
  size_t next_ = 0;  // into ready_
  int ahead_ = 0;
  int alive_ = 0, at_barrier_ = 0;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  Fiber* running_ = nullptr;
  context::fcontext_t scheduler_ = nullptr;
  [[maybe_unused]] const void* scheduler_stack_ = nullptr;  // for AddressSanitizer
  [[maybe_unused]] size_t scheduler_stack_bytes_ = 0;
  std::string failure_;
  char* arena_ = nullptr;
  size_t used_ = 0;  // of the arena, by the dynamic part and the variables
  std::vector<SharedVariable> variables_;
  char launch_token_ = 0, end_token_ = 0;
  std::unique_ptr<char[]> barrier_tokens_;
};

thread_local BlockRunner* runner = nullptr;

// Stacks are kept for the next kernel.
struct StackPool {
  std::vector<char*> stacks;
  ~StackPool() {
    for (char* s : stacks) ::munmap(s, kStackBytes);
  }
  char* take() {
    if (!stacks.empty()) {
      char* s = stacks.back();
      stacks.pop_back();
      return s;
    }
    void* memory = ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    WICK_CHECK(memory != MAP_FAILED, "simulated GPU: no memory for a thread's stack");
    return static_cast<char*>(memory);
  }
};
thread_local StackPool stack_pool;

/// The identity of thread `thread` in its block's set.
Identity identity_of(unsigned thread, uint64_t block, uint64_t seed) {
  static thread_local Identity identities[2 * kIdentities] = {};
  unsigned x = thread ^ static_cast<unsigned>(seed) * 0x9e3779b9u;
  x *= 0x85ebca6bu;
  x ^= x >> 13;
  x *= 0xc2b2ae35u;
  x ^= x >> 16;
  Identity& identity = identities[x % kIdentities + (block & 1) * kIdentities];
  if (identity == nullptr) identity = make_identity();
  return identity;
}

uint3 unravel(uint64_t index, dim3 size) {
  return {unsigned(index % size.x), unsigned(index / size.x % size.y),
          unsigned(index / (uint64_t{size.x} * size.y))};
}

std::string triple(uint3 i) { return concat("(", i.x, ", ", i.y, ", ", i.z, ")"); }

std::string BlockRunner::run(const std::function<bool(uint64_t)>& wanted) {
  const uint64_t blocks = uint64_t{kernel_.grid.x} * kernel_.grid.y * kernel_.grid.z;
  // Every block has its own stretch of shared memory under ThreadSanitizer, which would take the
  // next block's use of the same bytes for a race.
#ifdef WICK_SIM_TSAN
  const uint64_t arenas = blocks;
#else
  const uint64_t arenas = 1;
#endif
  const size_t bytes = arenas * kSharedBytes;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return "no memory for the blocks' shared memory";
  used_ = (kernel_.shared + kGap + 15) / 16 * 16;
  barrier_tokens_.reset(new char[blocks < 65536 ? blocks : 65536]());
  release(&launch_token_);
  const Identity outside = current_identity();
  runner = this;
  for (uint64_t b = 0; b < blocks && failure_.empty(); ++b) {
    if (wanted && !wanted(b)) continue;
    arena_ = static_cast<char*>(memory) + (arenas == 1 ? 0 : b * kSharedBytes);
    run_block(b);
  }
  runner = nullptr;
  become(outside);
  acquire(&end_token_);
  show(memory, bytes);
  ::munmap(memory, bytes);
  for (const auto& fiber : fibers_) stack_pool.stacks.push_back(fiber->stack);
  return failure_;
}

void BlockRunner::prepare_arena(uint64_t index) {
  block_ = index;
  show(arena_, kSharedBytes);
  std::memset(arena_, 0xff, kernel_.shared);  // NaN
  hide(arena_ + kernel_.shared, kSharedBytes - kernel_.shared);
}

void BlockRunner::run_block(uint64_t index) {
  prepare_arena(index);
  here.grid_size = kernel_.grid;
  here.block_size = kernel_.block;
  here.block = unravel(index, kernel_.grid);
  alive_ = size_;
  at_barrier_ = 0;
  start_threads();
  const Identity outside = current_identity();
  while (alive_ > 0 && failure_.empty()) {
    const int t = next_ready();
    if (t < 0) {
      explain_deadlock();
      break;
    }
    Thread& thread = threads_[size_t(t)];
    if (thread.fiber == nullptr) {
      thread.fiber = &idle_fiber();
      thread.fiber->thread = t;
    }
    resume(*thread.fiber);
    become(outside);
  }
  if (!failure_.empty()) return;
  idle_.clear();
  for (const auto& fiber : fibers_) idle_.push_back(fiber.get());
}

void BlockRunner::start_threads() {
  std::vector<int> all;
  for (int t = 0; t < size_; ++t) {
    threads_[size_t(t)] = Thread{};
    threads_[size_t(t)].identity = identity_of(unsigned(t), block_, settings_.seed);
    all.push_back(t);
  }
  ahead_ = int(random_.below(unsigned(size_)));
  ready_.clear();
  next_ = 0;
  make_ready(all);
}

/// Puts threads that may go on (again) behind those that wait to, in the order that was asked for.
void BlockRunner::make_ready(const std::vector<int>& threads) {
  ready_.erase(ready_.begin(), ready_.begin() + std::ptrdiff_t(next_));
  next_ = 0;
  for (const int t : threads) {
    if (threads_[size_t(t)].state != State::kNew) threads_[size_t(t)].state = State::kReady;
    ready_.push_back(t);
  }
  if (settings_.threads == ThreadOrder::kReverse) std::sort(ready_.rbegin(), ready_.rend());
  if (settings_.threads == ThreadOrder::kRandom) {
    for (size_t i = ready_.size(); i > 1; --i) {
      std::swap(ready_[i - 1], ready_[random_.below(unsigned(i))]);
    }
  }
  if (settings_.threads == ThreadOrder::kAhead) {
    const auto found = std::find(ready_.begin(), ready_.end(), ahead_);
    if (found != ready_.end()) std::rotate(ready_.begin(), found, found + 1);
  }
}

int BlockRunner::next_ready() { return next_ < ready_.size() ? ready_[next_++] : -1; }

Fiber& BlockRunner::idle_fiber() {
  Fiber* fiber;
  if (idle_.empty()) {
    fiber = fibers_.emplace_back(std::make_unique<Fiber>()).get();
    fiber->stack = stack_pool.take();
    show(fiber->stack, kStackBytes);  // a kernel that failed left its frames there
  } else {
    fiber = idle_.back();
    idle_.pop_back();
  }
  fiber->context = context::make_fcontext(fiber->stack + kStackBytes, kStackBytes, &enter);
  return *fiber;
}

void BlockRunner::set_here(int thread) { here.thread = unravel(uint64_t(thread), kernel_.block); }

WICK_SIM_UNWATCHED void BlockRunner::resume(Fiber& fiber) {
  running_ = &fiber;
  set_here(fiber.thread);
#ifdef WICK_SIM_ASAN
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, fiber.stack, kStackBytes);
#endif
  become(threads_[size_t(fiber.thread)].identity);
  const context::transfer_t back = context::jump_fcontext(fiber.context, this);
  fiber.context = back.fctx;
#ifdef WICK_SIM_ASAN
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
  running_ = nullptr;
}

/// Back to the scheduler, until the thread is resumed.
WICK_SIM_UNWATCHED void BlockRunner::yield() {
#ifdef WICK_SIM_ASAN
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, scheduler_stack_, scheduler_stack_bytes_);
#endif
  const context::transfer_t back = context::jump_fcontext(scheduler_, nullptr);
  scheduler_ = back.fctx;
#ifdef WICK_SIM_ASAN
  __sanitizer_finish_switch_fiber(fake, &scheduler_stack_, &scheduler_stack_bytes_);
#endif
}

WICK_SIM_UNWATCHED void BlockRunner::enter(context::transfer_t from) {
  BlockRunner& self = *static_cast<BlockRunner*>(from.data);
  self.scheduler_ = from.fctx;
#ifdef WICK_SIM_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &self.scheduler_stack_, &self.scheduler_stack_bytes_);
#endif
  self.fiber_main(*self.running_);
#ifdef WICK_SIM_ASAN
  __sanitizer_start_switch_fiber(nullptr, self.scheduler_stack_, self.scheduler_stack_bytes_);
#endif
  context::jump_fcontext(self.scheduler_, nullptr);
}

WICK_SIM_UNWATCHED void BlockRunner::fiber_main(Fiber& fiber) {
  for (;;) {
    acquire(&launch_token_);
    kernel_.thread();
    release(&end_token_);
    thread_ended();
    // The next thread that has not begun, if it is its turn, on the same fiber.
    if (next_ == ready_.size() || !failure_.empty()) break;
    const int t = ready_[next_];
    if (threads_[size_t(t)].state != State::kNew) break;
    ++next_;
    fiber.thread = t;
    threads_[size_t(t)].fiber = &fiber;
    set_here(t);
    become(threads_[size_t(t)].identity);
  }
  idle_.push_back(&fiber);
}

void BlockRunner::thread_ended() {
  const int t = running_->thread;
  Thread& thread = threads_[size_t(t)];
  thread.state = State::kDone;
  thread.fiber = nullptr;
  --alive_;
  release_barrier_if_complete();
}

void BlockRunner::wait_at_barrier(Site site, bool value) {
  Thread& thread = current();
  thread.state = State::kAtBarrier;
  thread.site = site;
  thread.bits = value;
  ++at_barrier_;
  char* token = &barrier_tokens_[block_ % 65536];
  release(token);
  release_barrier_if_complete();
  yield();
  acquire(token);
}

void BlockRunner::release_barrier_if_complete() {
  if (at_barrier_ == 0 || at_barrier_ < alive_) return;
  std::vector<int> waiting;
  int count = 0;
  for (int t = 0; t < size_; ++t) {
    if (threads_[size_t(t)].state != State::kAtBarrier) continue;
    waiting.push_back(t);
    count += threads_[size_t(t)].bits != 0;
  }
  const Thread& first = threads_[size_t(waiting[0])];
  for (const int t : waiting) {
    Thread& thread = threads_[size_t(t)];
    thread.count = count;
    if (thread.site.line == first.site.line && !std::strcmp(thread.site.file, first.site.file)) {
      continue;
    }
    failure_ = concat("divergent barrier: ", where(waiting[0]), ", ", where(t));
    return;
  }
  at_barrier_ = 0;
  make_ready(waiting);
}

void BlockRunner::wait_at_warp(Site site, unsigned mask, uint64_t bits, int source) {
  const int t = running_->thread;
  Thread& thread = threads_[size_t(t)];
  if ((mask >> lane() & 1) == 0) return fail_at(site, "the thread is not in its own warp mask");
  thread.state = State::kAtWarp;
  thread.site = site;
  thread.mask = mask;
  thread.bits = bits;
  thread.source = source;
  release_warp_if_complete(unsigned(t) / 32, mask);
  yield();
}

void BlockRunner::release_warp_if_complete(unsigned warp, unsigned mask) {
  std::vector<int> lanes;
  for (int l = 0; l < 32; ++l) {
    if ((mask >> l & 1) == 0) continue;
    const int t = int(warp) * 32 + l;
    if (t >= size_ || threads_[size_t(t)].state == State::kDone) {
      return fail_at(current().site, concat("lane ", l, " of the warp mask is absent"));
    }
    lanes.push_back(t);
  }
  const Thread& me = current();
  for (const int t : lanes) {
    const Thread& thread = threads_[size_t(t)];
    const bool here_too = thread.state == State::kAtWarp && thread.mask == mask &&
                          thread.site.line == me.site.line &&
                          !std::strcmp(thread.site.file, me.site.file);
    if (!here_too) return;  // not yet; a deadlock is found when nobody can go on
  }
  std::vector<uint64_t> results;
  for (const int t : lanes) {
    const Thread& thread = threads_[size_t(t)];
    if (thread.source < 0) {
      uint64_t votes = 0;
      for (const int u : lanes) votes |= uint64_t{threads_[size_t(u)].bits != 0} << (u % 32);
      results.push_back(votes);
    } else if ((mask >> thread.source & 1) == 0) {
      return fail_at(me.site, concat("lane ", thread.source, ", read from, is not in the mask"));
    } else {
      results.push_back(threads_[size_t(warp) * 32 + size_t(thread.source)].bits);
    }
  }
  for (size_t i = 0; i < lanes.size(); ++i) threads_[size_t(lanes[i])].bits = results[i];
  make_ready(lanes);
}

void* BlockRunner::shared(const void* key, size_t bytes) {
  const auto same = [&](const SharedVariable& v) { return v.key == key; };
  auto found = std::find_if(variables_.begin(), variables_.end(), same);
  if (found == variables_.end()) {
    variables_.push_back({key, bytes, used_, ~uint64_t{0}});
    found = variables_.end() - 1;
    used_ += (bytes + kGap + 15) / 16 * 16;
    size_t named = 0;
    for (const SharedVariable& v : variables_) named += v.bytes;
    if (named > kStaticSharedBytes || used_ > kSharedBytes) {
      stop(concat("too much shared memory: got ", named, " bytes, expected at most ",
                  kStaticSharedBytes));
    }
  }
  char* place = arena_ + found->offset;
  if (found->block != block_) {
    found->block = block_;
    show(place, bytes);
    std::memset(place, 0xff, bytes);
  }
  return place;
}

std::string BlockRunner::where(int thread) const {
  const Thread& t = threads_[size_t(thread)];
  std::string text = concat("thread ", triple(unravel(uint64_t(thread), kernel_.block)));
  if (t.state == State::kAtBarrier)
    return concat(text, " waits at ", t.site.file, ":", t.site.line);
  if (t.state == State::kAtWarp) {
    return concat(text, " waits for its warp at ", t.site.file, ":", t.site.line);
  }
  return text;
}

void BlockRunner::explain_deadlock() {
  failure_ = "threads wait for others that never come";
  int named = 0;
  Site last{"", -1};
  for (int t = 0; t < size_ && named < 4; ++t) {
    const Thread& thread = threads_[size_t(t)];
    if (thread.state == State::kDone || thread.site.line == last.line) continue;
    failure_ += concat(named++ == 0 ? ": " : ", ", where(t));
    last = thread.site;
  }
}

void BlockRunner::fail_at(Site site, const std::string& what) {
  stop(concat(what, ": ", where(running_->thread), ", at ", site.file, ":", site.line));
}

/// Ends the kernel. The fibers' stacks are dropped as they are: kernels hold nothing.
void BlockRunner::stop(const std::string& failure) {
  failure_ = failure;
  for (;;) yield();
}

}  // namespace

std::string run_kernel(const Kernel& kernel, const Settings& settings,
                       const std::function<bool(uint64_t)>& wanted) {
  BlockRunner block_runner(kernel, settings);
  std::string failure = block_runner.run(wanted);
  if (failure.empty()) return {};
  return concat(kernel.name, ": ", failure, ", block ", triple(here.block));
}

void sync_threads(Site site) { runner->wait_at_barrier(site, false); }

int sync_threads_count(Site site, bool value) {
  runner->wait_at_barrier(site, value);
  return runner->current().count;
}

void sync_warp(Site site, unsigned mask) {
  static char token;  // orders more than the one warp: fewer races are seen, none invented
  release(&token);
  runner->wait_at_warp(site, mask, 0, -1);
  acquire(&token);
}

uint64_t shuffle(Site site, unsigned mask, uint64_t bits, int source) {
  runner->wait_at_warp(site, mask, bits, source & 31);
  return runner->current().bits;
}

unsigned ballot(Site site, unsigned mask, bool value) {
  runner->wait_at_warp(site, mask, value, -1);
  return static_cast<unsigned>(runner->current().bits);
}

int lane() { return runner->lane(); }

void fence() {
  static char token;
  release(&token);
  acquire(&token);
}

void* shared_variable(const void* key, size_t bytes) { return runner->shared(key, bytes); }
void* dynamic_shared() { return runner->dynamic_shared(); }

void trap(Site site, const char* what) {
  runner->fail_at(site, what);
  __builtin_unreachable();
}

}  // namespace wick::sim
