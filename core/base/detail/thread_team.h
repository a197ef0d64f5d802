#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>

namespace wick::detail {

/// The threads that compute together with one thread, their owner. Work comes in tasks. A thread
/// first takes the tasks of its own share, then what others have left of theirs. So a thread that
/// the system holds up costs one task, not a share. A thread without work spins for some
/// microseconds, then sleeps.
class ThreadTeam {
 public:
  using Run = void (*)(const void* context, int task, int thread);
  static constexpr int kMostTasks = 1 << 15;

  ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;
  ~ThreadTeam();

  /// Calls `work(context, task, thread)`, which throws nothing, once for each task in [0, tasks):
  /// on the owner, which is thread 0, and on the threads 1 to `threads - 1`. Error where a thread
  /// cannot be started; then nothing has run.
  void run(int threads, int tasks, Run work, const void* context);

 private:
  struct Member;

  void start(int threads);
  void stop();
  void serve(int thread);
  void take_all(uint32_t job, int threads, int thread);

  int threads_ = 0;                    // members, the owner included
  std::unique_ptr<Member[]> members_;  // by thread
  uint32_t job_ = 0;
  // Of the job: whoever has taken one of its tasks may read them.
  Run run_ = nullptr;
  const void* context_ = nullptr;
  std::atomic<std::chrono::steady_clock::time_point> begun_{};  // when the latest job began
  alignas(64) std::atomic<int> left_{0};  // tasks of the job that have not ended
  std::atomic<bool> ends_{false};
};

}  // namespace wick::detail
