#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "wick/dist/detail/coordinator.h"
#include "wick/dist/process_group.h"

namespace wick::dist {

/// A peer was waited for until the deadline.
struct Late {
  int rank;
};

/// One rank's connection to the coordinator, which rank 0 has too, and what is known by it of the
/// others. First one thread joins and exchanges; after start() any may call.
class Control {
 public:
  /// Joins: returns when all ranks have come. ProcessGroupError says why not.
  Control(const LaunchEnv& env, std::chrono::milliseconds timeout);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  /// What each rank gave. Every rank must call it. Before start().
  std::vector<std::string> exchange(const std::string& mine);
  /// What each rank gave for this one; mine[r] is for rank r.
  std::vector<std::string> exchange_parts(const std::vector<std::string>& mine);
  /// Listens from now on, in a thread of its own, which calls `on_failure` once if the group fails,
  /// with the reason, and `on_left` when a rank has left.
  void start(std::function<void(const std::string& reason)> on_failure,
             std::function<void()> on_left);
  /// Tells the others that this rank leaves, waits at most `linger` for them to do so, and ends
  /// start()'s thread.
  void leave(std::chrono::milliseconds linger = {});

  /// The IP address by which this rank reaches rank 0.
  std::string address() const { return channel_->socket().address(); }

  /// From here on check() throws Late after `deadline`.
  void set_deadline(Clock::time_point deadline) { deadline_ = deadline; }
  Clock::time_point deadline() const { return deadline_; }
  /// Throws if the group has failed or `peer`, which is waited for, left; or Late.
  void check(int peer) const;
  bool has_left(int rank) const {
    return has_left_[static_cast<size_t>(rank)].load(std::memory_order_acquire);
  }
  bool has_failed() const { return has_failed_.load(std::memory_order_acquire); }
  /// Waits at most `most` for the group to fail.
  void wait_for_failure(std::chrono::milliseconds most);
  [[noreturn]] void throw_failure() const;
  /// Makes the group fail, here and on the other ranks.
  void fail(const std::string& reason);
  /// The group fails since `ranks`, or all together if there are none, were waited for in vain in
  /// `what`: asks rank 0 who is to blame.
  [[noreturn]] void blame(const std::string& what, const std::vector<int>& ranks);

 private:
  void join(const LaunchEnv& env);
  bool try_to_join(const LaunchEnv& env);
  /// Error if this is rank 0 and its coordinator accepts nobody any more.
  void check_listening() const;
  /// Calls `look_again`, which may throw, now and then.
  ControlMessage wait_for(ControlKind kind, const std::function<void()>& look_again = {});
  void send(ControlKind kind, std::string_view text);
  std::vector<std::string> await_blobs();
  void listen();
  void note_failure(const std::string& reason);
  void note_left(const std::string& rank);

  const int rank_;
  const size_t world_size_;
  const std::chrono::milliseconds timeout_;
  Clock::time_point deadline_;
  std::unique_ptr<Coordinator> coordinator_;  // of rank 0
  std::unique_ptr<ControlChannel> channel_;
  std::mutex sending_;
  std::unique_ptr<std::atomic<bool>[]> has_left_;
  std::atomic<bool> has_failed_ = false, is_leaving_ = false;
  mutable std::mutex mutex_;
  std::condition_variable changed_;  // somebody left, or the group failed
  std::string failure_;
  size_t count_left_ = 0;
  std::function<void(const std::string&)> on_failure_;
  std::function<void()> on_left_;
  std::thread listener_;
};

}  // namespace wick::dist
