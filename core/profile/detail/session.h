#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "wick/core/profile/event.h"

namespace wick::profile {

/// Nanoseconds of the clock that events have.
int64_t now_ns();

/// "LinearBackward" for "linear".
std::string name_of_backward(const char* op);

/// What one thread records in one session. The thread alone writes, without locks; others read what
/// it has published.
class ThreadLog {
 public:
  static constexpr size_t kChunk = 512;

  ThreadLog(uint64_t session, uint32_t thread, std::atomic<int64_t>& chunks_left)
      : session_(session), thread_(thread), chunks_left_(chunks_left) {}
  ~ThreadLog();
  ThreadLog(const ThreadLog&) = delete;
  ThreadLog& operator=(const ThreadLog&) = delete;

  uint64_t session() const { return session_; }
  uint32_t thread() const { return thread_; }
  uint32_t next_order() { return order_++; }
  void write(const Event& event) noexcept;
  /// A copy of `text` that lives as long as the session's texts.
  std::string_view keep(std::string_view text) noexcept;
  /// The same, kept.
  std::string_view backward_name(const char* op) noexcept;

  void append_to(std::vector<Event>& events) const;
  int64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }
  std::shared_ptr<const void> texts() const { return texts_; }

 private:
  struct Chunk {
    std::array<Event, kChunk> events;
    std::atomic<size_t> count = 0;  // published
    std::atomic<Chunk*> next = nullptr;
  };
  static constexpr size_t kMostText = size_t{16} << 20;  // bytes

  const uint64_t session_;
  const uint32_t thread_;
  std::atomic<int64_t>& chunks_left_;  // of all threads; it outlives the process's sessions
  std::atomic<Chunk*> first_ = nullptr;
  Chunk* last_ = nullptr;
  std::atomic<int64_t> dropped_ = 0;
  uint32_t order_ = 0;
  std::shared_ptr<std::deque<std::string>> texts_ = std::make_shared<std::deque<std::string>>();
  std::unordered_map<std::string_view, std::string_view> known_;
  std::unordered_map<const char*, std::string_view> backward_names_;
  size_t text_bytes_ = 0;
};

/// This thread's log in the session under way; null if there is none.
ThreadLog* current_log() noexcept;

/// Begins a session that keeps about `max_events` events and records what `wanted` says.
void begin_session(uint32_t wanted, int64_t max_events);
/// Ends it, and gives what was recorded.
Recording end_session();

}  // namespace wick::profile
