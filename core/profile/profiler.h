#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "wick/core/profile/averages.h"
#include "wick/core/profile/event.h"
#include "wick/core/profile/span.h"
#include "wick/core/profile/trace.h"

namespace wick::profile {

/// Which steps are recorded: of each cycle `wait` are not, `warmup` are and forgotten, `active` are
/// kept. `skip_first` steps come before the first cycle. PyTorch's torch.profiler.schedule.
struct Schedule {
  int64_t wait = 0;
  int64_t warmup = 0;
  int64_t active = 1;
  int64_t repeat = 0;  // cycles; 0: as long as there are steps
  int64_t skip_first = 0;
};

class Profiler;

/// What a Profiler records. Its constructor throws Error without `cpu` and `cuda`, and for
/// `max_events` below 1.
struct ProfilerOptions {
  bool cpu = true;   // operations, and all else that the host does
  bool cuda = true;  // kernels too
  bool record_shapes = false;
  bool profile_memory = false;
  bool with_flops = false;
  bool with_modules = false;
  /// None: everything from start() to stop() is one recording.
  std::optional<Schedule> schedule = {};
  /// Called by step() or stop() whenever a recording has ended.
  std::function<void(Profiler&)> on_trace_ready = {};
  /// Events that a recording keeps, of all threads; others are counted. An event is 184 bytes.
  int64_t max_events = int64_t{1} << 20;
};

/// Records what the process does from start() to stop(), or in the steps of a schedule: operations
/// forward and backward, the memory they take, waits, kernels. PyTorch's torch.profiler.profile.
///
///   profile::Profiler prof({.record_shapes = true});
///   prof.start();
///   { profile::RecordFunction scope("model_inference"); output = model(x); }
///   prof.stop();
///   std::cout << prof.key_averages().table({.sort_by = "cpu_time_total"});
///
/// All threads are recorded, whichever calls start() and stop(). One profiler at a time: the start
/// of a second is an error.
class Profiler {
 public:
  /// Error for a schedule that keeps no step.
  explicit Profiler(ProfilerOptions options = {});
  /// Stops, without calling on_trace_ready.
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// Begins to record, at step 0 of the schedule. Error if this or another profiler is running.
  void start();
  /// Ends recording. What is recorded then is kept, unless it was to warm up. Error if not running.
  void stop();
  /// Ends a step of the program: the schedule goes on.
  void step();
  int64_t step_num() const { return step_; }  // steps ended since start()

  /// What the latest recording that has ended holds. Error before there is one.
  const Recording& recording() const;
  /// Its events by name, with their times summed.
  KeyAverages key_averages(const GroupBy& group = {}) const {
    return KeyAverages(recording(), group);
  }
  /// Writes it in Chrome's format, which ui.perfetto.dev shows.
  void export_chrome_trace(const std::string& path, const TraceOptions& options = {}) const {
    write_chrome_trace(recording(), path, options);
  }
  /// Tells traces that are merged which process this is.
  void set_rank(int rank) { rank_ = rank; }

 private:
  enum class Action { kNone, kWarmUp, kRecord, kRecordAndSave };
  Action action_at(int64_t step) const;
  bool is_recording() const { return action_ != Action::kNone; }
  void begin(Action action);
  void end_recording(bool tell);

  const ProfilerOptions options_;
  bool started_ = false;
  Action action_ = Action::kNone;
  int64_t step_ = 0, first_step_ = 0;
  int rank_ = 0;
  std::optional<Span> step_span_;
  std::optional<Recording> last_;
};

}  // namespace wick::profile
