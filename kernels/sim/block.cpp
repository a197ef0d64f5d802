#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "wick/core/base/check.h"
#include "wick/kernels/sim/block_runner.h"

// Running the blocks of a kernel: which thread is next, and how it gets the processor.
namespace wick::sim {

constinit Here here{};
BlockRunner* runner = nullptr;

namespace {

// Stacks are kept for the next kernel.
struct StackPool {
  std::vector<char*> stacks;
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

// Memory for the shared memory of blocks, hidden but for what a block is given of it. Kept for the
// next kernel, but under ThreadSanitizer, to which new memory says that the next kernel's use of it
// is another.
struct Arenas {
  static constexpr size_t kCount = WICK_SIM_TSAN ? 1024 : 1;
  char* memory = nullptr;
  size_t taken = 0;
  char* next() {
    if (taken == kCount) unmap();
    if (memory == nullptr) {
      void* mapped = ::mmap(nullptr, kCount * kSharedBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      WICK_CHECK(mapped != MAP_FAILED, "simulated GPU: no memory for a block's shared memory");
      memory = static_cast<char*>(mapped);
      hide(memory, kCount * kSharedBytes);
    }
    return memory + taken++ * kSharedBytes;
  }
  void drop() {
    taken = 0;
    if (WICK_SIM_TSAN) unmap();
  }
  void unmap() {
    if (memory == nullptr) return;
    show(memory, kCount * kSharedBytes);
    ::munmap(memory, kCount * kSharedBytes);
    memory = nullptr;
    taken = 0;
  }
};
// All threads of the host have the same, under the machine's lock. They live on: work may run while
// static objects end.
Arenas& arenas = *new Arenas;
StackPool* const stack_pools = new StackPool[kIdentitySets * kIdentities];
Identity identities[kIdentitySets * kIdentities] = {};

/// The identity of thread `thread` in its block's set: another one in each kernel, so that two
/// kernels' threads of one number are told apart.
unsigned identity_of(unsigned thread, uint64_t block, uint64_t kernel) {
  unsigned x = thread ^ static_cast<unsigned>(kernel) * 0x9e3779b9u;
  x *= 0x85ebca6bu;
  x ^= x >> 13;
  x *= 0xc2b2ae35u;
  x ^= x >> 16;
  const unsigned number = x % kIdentities + unsigned(block % kIdentitySets) * kIdentities;
  if (identities[number] == nullptr) identities[number] = make_identity();
  return number;
}

}  // namespace

uint3 unravel(uint64_t index, dim3 size) {
  return {unsigned(index % size.x), unsigned(index / size.x % size.y),
          unsigned(index / (uint64_t{size.x} * size.y))};
}

std::string to_string(uint3 i) { return concat("(", i.x, ", ", i.y, ", ", i.z, ")"); }

std::string BlockRunner::run(const std::vector<uint64_t>& wanted) {
  const uint64_t blocks = uint64_t{kernel_.grid.x} * kernel_.grid.y * kernel_.grid.z;
  used_ = (kernel_.shared + kGap + 15) / 16 * 16;
  release(&launch_token_);
  const Identity outside = current_identity();
  runner = this;
  const uint64_t count = wanted.empty() ? blocks : wanted.size();
  for (uint64_t i = 0; i < count && failure_.empty(); ++i) {
    const uint64_t b = wanted.empty() ? i : wanted[i];
    if (b >= blocks) continue;
    take_arena();
    run_block(b, /*is_first=*/i == 0);
  }
  runner = nullptr;
  if (!failure_.empty()) {
    // What ended in the middle comes before what is done after the kernel, too.
    for (const Identity identity : identities) {
      if (identity == nullptr) continue;
      become(identity);
      release(&end_token_);
    }
  }
  become(outside);
  acquire(&end_token_);
  if (arena_ != nullptr) drop_arena();
  for (const auto& fiber : fibers_) {
    if (!failure_.empty()) show(fiber->stack, kStackBytes);  // threads left their frames there
    stack_pools[fiber->identity].stacks.push_back(fiber->stack);
  }
  return failure_;
}

/// Shared memory for the next block. Under ThreadSanitizer each block has its own stretch, since it
/// would take the next block's use of the same bytes for a race.
void BlockRunner::take_arena() {
  if (arena_ == nullptr || WICK_SIM_TSAN) arena_ = arenas.next();
}

void BlockRunner::drop_arena() {
  hide(arena_, used_);
  arenas.drop();
}

void BlockRunner::prepare_arena(uint64_t index) {
  block_ = index;
  show(arena_, kernel_.shared);
  std::memset(arena_, 0xff, kernel_.shared);  // NaN
  hide(arena_ + kernel_.shared, used_ - kernel_.shared);
}

void BlockRunner::run_block(uint64_t index, bool is_first) {
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
    Fiber*& fiber = threads_[t].fiber;
    if (fiber == nullptr) {
      fiber = &idle_fiber(threads_[t].identity);
      fiber->thread = t;
    }
    Fiber& ran = *fiber;
    resume(ran);
    become(outside);
    attend_to(ran.thread);  // which may be another thread than it began with
  }
  if (AccessLog* log = access_log()) {
    log->close(kernel_.name, is_first, arena_, kSharedBytes);
  }
}

void BlockRunner::start_threads() {
  together_.clear();
  for (int t = 0; t < size_; ++t) {
    threads_[t] = Thread{};
    threads_[t].identity = identity_of(unsigned(t), block_, number_);
    together_.push_back(t);
  }
  for (int t = 0; t < size_; t += 32) {
    warp_of(t) = {0, size_ - t < 32 ? ~0u << (size_ - t) : 0};
  }
  ahead_ = int(random_.below(unsigned(size_)));
  ready_.clear();
  next_ = ready_.data();
  make_ready(together_.data(), size_);
}

/// What the thread, which no longer runs, wants.
void BlockRunner::attend_to(int t) {
  const Thread& thread = threads_[t];
  switch (thread.state) {
    case State::kAtBarrier: ++at_barrier_; break;
    case State::kAtWarp: warp_of(t).waiting |= 1u << t % 32; return release_warp_if_complete(t);
    case State::kStopped: return set_failure(thread, thread.failure);
    default: idle_[thread.identity].push_back(thread.fiber);
  }
  release_barrier_if_complete();
}

/// Puts threads that may go on (again) behind those that wait to, in the order that was asked for.
void BlockRunner::make_ready(const int* threads, int count) {
  ready_.erase(ready_.begin(), ready_.begin() + (next_ - ready_.data()));
  for (int i = 0; i < count; ++i) {
    Thread& thread = threads_[threads[i]];
    if (thread.state != State::kNew) thread.state = State::kReady;
    ready_.push_back(threads[i]);
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
  next_ = ready_.data();
  ready_end_ = next_ + ready_.size();
}

int BlockRunner::next_ready() { return next_ != ready_end_ ? *next_++ : -1; }

Fiber& BlockRunner::idle_fiber(unsigned identity) {
  std::vector<Fiber*>& idle = idle_[identity];
  Fiber* fiber;
  if (idle.empty()) {
    fiber = fibers_.emplace_back(std::make_unique<Fiber>()).get();
    fiber->identity = identity;
    fiber->stack = stack_pools[identity].take();
  } else {
    fiber = idle.back();
    idle.pop_back();
  }
  fiber->context = context::make_fcontext(fiber->stack + kStackBytes, kStackBytes, &enter);
  return *fiber;
}

void BlockRunner::set_here(int thread) { here.thread = unravel(uint64_t(thread), kernel_.block); }

WICK_SIM_UNWATCHED void BlockRunner::resume(Fiber& fiber) {
  running_ = &fiber;
  set_here(fiber.thread);
#if WICK_SIM_ASAN
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, fiber.stack, kStackBytes);
#endif
  become(identities[fiber.identity]);
  const context::transfer_t back = context::jump_fcontext(fiber.context, this);
  fiber.context = back.fctx;
#if WICK_SIM_ASAN
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
  running_ = nullptr;
}

/// Back to the scheduler, until the thread is resumed.
WICK_SIM_UNWATCHED void BlockRunner::yield() {
#if WICK_SIM_ASAN
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, scheduler_stack_, scheduler_stack_bytes_);
#endif
  const context::transfer_t back = context::jump_fcontext(scheduler_, nullptr);
  scheduler_ = back.fctx;
#if WICK_SIM_ASAN
  __sanitizer_finish_switch_fiber(fake, &scheduler_stack_, &scheduler_stack_bytes_);
#endif
}

WICK_SIM_UNWATCHED void BlockRunner::enter(context::transfer_t from) {
  BlockRunner& self = *static_cast<BlockRunner*>(from.data);
  self.scheduler_ = from.fctx;
#if WICK_SIM_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &self.scheduler_stack_, &self.scheduler_stack_bytes_);
#endif
  self.fiber_main(*self.running_);
#if WICK_SIM_ASAN
  __sanitizer_start_switch_fiber(nullptr, self.scheduler_stack_, self.scheduler_stack_bytes_);
#endif
  context::jump_fcontext(self.scheduler_, nullptr);
}

WICK_SIM_UNWATCHED void BlockRunner::fiber_main(Fiber& fiber) {
  for (;;) {
    acquire(&launch_token_);
    kernel_.thread();
    release(&end_token_);
    threads_[fiber.thread].state = State::kDone;
    warp_of(fiber.thread).absent |= 1u << fiber.thread % 32;
    --alive_;
    // The next thread that has not begun, if it is its turn, on the same fiber.
    if (at_barrier_ > 0 || next_ == ready_end_) return;
    const Thread& next = threads_[*next_];
    if (next.state != State::kNew || next.identity != fiber.identity) return;
    threads_[fiber.thread].fiber = nullptr;
    fiber.thread = *next_++;
    threads_[fiber.thread].fiber = &fiber;
    set_here(fiber.thread);
  }
}

std::string run_kernel(const Kernel& kernel, const Settings& settings,
                       const std::vector<uint64_t>& wanted) {
  // On the heap, whose new memory ThreadSanitizer takes for new: a kernel is not ordered behind the
  // one before by sharing its tokens.
  const auto block_runner = std::make_unique<BlockRunner>(kernel, settings);
  std::string failure = block_runner->run(wanted);
  if (failure.empty()) return {};
  return concat(kernel.name, ": ", failure, ", block ", to_string(here.block));
}

}  // namespace wick::sim
