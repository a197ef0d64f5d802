#pragma once

#include <cstddef>
#include <new>
#include <string_view>

#include "wick/core/base/profiling.h"
#include "wick/core/profile/event.h"

namespace wick::profile {

/// An event from its making to its end, where a profiler records, and an NVTX range, where those
/// are emitted; elsewhere one load.
class Span {
 public:
  /// `name` must live as long as the program.
  Span(EventKind kind, std::string_view name) {
    if (wanted() != 0) [[unlikely]]
      begin(kind, name);
  }
  ~Span() {
    if (is_on_) [[unlikely]]
      end();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

  explicit operator bool() const { return is_on_; }
  /// What is recorded, where the span is on.
  Event& event() { return *std::launder(reinterpret_cast<Event*>(memory_)); }
  /// Keeps a copy of `name`. A span that began without a name is an NVTX range from here on.
  void rename(std::string_view name);
  /// Begins the NVTX range, unless it has begun.
  void emit(std::string_view name);

 private:
  void begin(EventKind kind, std::string_view name);
  void end() noexcept;

  bool is_on_ = false;
  bool emitted_ = false;
  uint64_t session_ = 0;  // 0: of none
  alignas(Event) std::byte memory_[sizeof(Event)];
};

/// Names a part of a program in what a profiler records, while it lives. They nest, on any thread.
///
///   { profile::RecordFunction scope("model_inference"); output = model(x); }
class RecordFunction {
 public:
  explicit RecordFunction(std::string_view name) : span_(EventKind::kFunction, "") {
    if (span_) [[unlikely]]
      span_.rename(name);
  }

 private:
  Span span_;
};

/// Records a moment, where a profiler records.
void record_moment(const Event& event);
/// A text of this recording with the same characters, for the fields of events.
std::string_view kept_text(std::string_view text);

}  // namespace wick::profile
