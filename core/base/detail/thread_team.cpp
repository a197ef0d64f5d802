#include "wick/core/base/detail/thread_team.h"

#include <algorithm>
#include <chrono>

#include "wick/core/base/check.h"
#include "wick/core/base/detail/start_thread.h"

namespace wick::detail {

namespace {

using std::chrono::nanoseconds;

// How long to spin before sleeping. A member whose next job comes within the most spins so long. A
// member that waits longer is less patient, down to the least.
constexpr nanoseconds kLeastPatience{2'000}, kMostPatience{100'000};
constexpr nanoseconds kOwnerPatience{200'000};

// Whether `ready()` comes true within `patience`.
template <class Ready>
bool spin(nanoseconds patience, const Ready& ready) {
  constexpr int kLooks = 16;  // between looks at the clock
  const auto end = std::chrono::steady_clock::now() + patience;
  do {
    for (int i = 0; i < kLooks; ++i) {
      if (ready()) return true;
      __builtin_ia32_pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

// The tasks [first, last) of a job, in one word that threads exchange as a whole.
struct Tasks {
  uint32_t job;
  uint16_t first, last;

  static Tasks of(uint64_t word) {
    return {static_cast<uint32_t>(word >> 32), static_cast<uint16_t>(word >> 16),
            static_cast<uint16_t>(word)};
  }
  uint64_t word() const {
    return static_cast<uint64_t>(job) << 32 | static_cast<uint64_t>(first) << 16 | last;
  }
};

// Takes a task of `job`, the first or the last that `share` has; -1 if it has none.
int take(std::atomic<uint64_t>& share, uint32_t job, bool first) {
  uint64_t word = share.load(std::memory_order_acquire);
  for (;;) {
    Tasks tasks = Tasks::of(word);
    if (tasks.job != job || tasks.first == tasks.last) return -1;
    const int task = first ? tasks.first++ : --tasks.last;
    if (share.compare_exchange_weak(word, tasks.word(), std::memory_order_acq_rel,
                                    std::memory_order_acquire)) {
      return task;
    }
  }
}

}  // namespace

struct alignas(64) ThreadTeam::Member {
  std::atomic<uint64_t> share{0};               // Tasks that nobody has taken
  alignas(64) std::atomic<uint32_t> called{0};  // the latest job that the thread was called for
  std::atomic<int> job_threads{0};              // and on how many threads that runs
  std::thread thread;                           // none for the owner
};

ThreadTeam::ThreadTeam() = default;

ThreadTeam::~ThreadTeam() { stop(); }

void ThreadTeam::start(int threads) {
  stop();
  members_ = std::make_unique<Member[]>(static_cast<size_t>(threads));
  ends_.store(false, std::memory_order_relaxed);
  for (threads_ = 1; threads_ < threads; ++threads_) {
    const char* op = current_op();
    const int thread = threads_;
    members_[static_cast<size_t>(thread)].thread =
        start_thread(*op != 0 ? op : "threads", [this, thread] { serve(thread); });
  }
}

void ThreadTeam::stop() {
  ends_.store(true, std::memory_order_relaxed);
  ++job_;
  for (size_t i = 1; i < static_cast<size_t>(threads_); ++i) {
    members_[i].called.store(job_, std::memory_order_release);
    members_[i].called.notify_one();
    members_[i].thread.join();
  }
  threads_ = 0;
}

void ThreadTeam::run(int threads, int tasks, Run work, const void* context) {
  threads = std::min(threads, tasks);
  if (threads > threads_) start(threads);
  ++job_;
  run_ = work;
  context_ = context;
  begun_.store(std::chrono::steady_clock::now(), std::memory_order_relaxed);
  left_.store(tasks, std::memory_order_relaxed);
  for (int i = 0; i < threads; ++i) {
    const Tasks share{job_, static_cast<uint16_t>(int64_t{tasks} * i / threads),
                      static_cast<uint16_t>(int64_t{tasks} * (i + 1) / threads)};
    members_[static_cast<size_t>(i)].share.store(share.word(), std::memory_order_release);
  }
  for (int i = 1; i < threads; ++i) {
    Member& member = members_[static_cast<size_t>(i)];
    member.job_threads.store(threads, std::memory_order_relaxed);
    member.called.store(job_, std::memory_order_release);
    member.called.notify_one();
  }
  take_all(job_, threads, 0);
  const auto ended = [&] { return left_.load(std::memory_order_acquire) == 0; };
  if (spin(kOwnerPatience, ended)) return;
  for (int left = 0; (left = left_.load(std::memory_order_acquire)) != 0;) {
    left_.wait(left, std::memory_order_acquire);
  }
}

void ThreadTeam::serve(int thread) {
  Member& self = members_[static_cast<size_t>(thread)];
  nanoseconds patience = kMostPatience;
  for (uint32_t job = 0;;) {
    const auto waits_since = std::chrono::steady_clock::now();
    const auto called = [&] { return self.called.load(std::memory_order_acquire) != job; };
    if (!spin(patience, called)) self.called.wait(job, std::memory_order_acquire);
    job = self.called.load(std::memory_order_acquire);
    if (ends_.load(std::memory_order_relaxed)) return;
    const int threads = self.job_threads.load(std::memory_order_relaxed);
    const nanoseconds waited = begun_.load(std::memory_order_relaxed) - waits_since;
    patience = waited < kMostPatience ? kMostPatience : std::max(patience / 2, kLeastPatience);
    take_all(job, threads, thread);
  }
}

void ThreadTeam::take_all(uint32_t job, int threads, int thread) {
  for (int i = 0; i < threads; ++i) {
    Member& member = members_[static_cast<size_t>((thread + i) % threads)];
    for (int task = 0; (task = take(member.share, job, i == 0)) >= 0;) {
      run_(context_, task, thread);
      if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) left_.notify_one();
    }
  }
}

}  // namespace wick::detail
