#include "wick/core/profile/profiler.h"

#include <atomic>

#include "wick/core/base/check.h"
#include "wick/core/profile/detail/session.h"

namespace wick::profile {

namespace {
std::atomic<const Profiler*> running = nullptr;

void check(const Schedule& schedule) {
  const auto not_negative = [](const char* name, int64_t value) {
    WICK_CHECK(value >= 0, "profiler: schedule: ", name, ": got ", value, ", expected 0 or more");
  };
  not_negative("wait", schedule.wait);
  not_negative("warmup", schedule.warmup);
  not_negative("repeat", schedule.repeat);
  not_negative("skip_first", schedule.skip_first);
  WICK_CHECK(schedule.active > 0, "profiler: schedule: active: got ", schedule.active,
             ", expected 1 or more");
}
}  // namespace

Profiler::Profiler(ProfilerOptions options) : options_(std::move(options)) {
  if (options_.schedule) check(*options_.schedule);
  WICK_CHECK(options_.cpu || options_.cuda, "profiler: activities: got none, expected cpu or cuda");
  WICK_CHECK(options_.max_events > 0, "profiler: max_events: got ", options_.max_events,
             ", expected 1 or more");
}

Profiler::~Profiler() {
  if (!started_) return;
  step_span_.reset();
  if (is_recording()) end_session();
  running = nullptr;
}

Profiler::Action Profiler::action_at(int64_t step) const {
  if (!options_.schedule) return Action::kRecord;
  const Schedule& s = *options_.schedule;
  if (step < s.skip_first) return Action::kNone;
  const int64_t length = s.wait + s.warmup + s.active, since = step - s.skip_first;
  if (s.repeat > 0 && since / length >= s.repeat) return Action::kNone;
  const int64_t place = since % length;
  if (place < s.wait) return Action::kNone;
  if (place < s.wait + s.warmup) return Action::kWarmUp;
  return place + 1 < length ? Action::kRecord : Action::kRecordAndSave;
}

void Profiler::begin(Action action) {
  if (action != Action::kNone && !is_recording()) {
    uint32_t wants = 0;
    if (options_.record_shapes) wants |= kWantsShapes;
    if (options_.profile_memory) wants |= kWantsMemory;
    if (options_.with_flops) wants |= kWantsFlops;
    if (options_.with_modules) wants |= kWantsModules;
    if (options_.cuda) wants |= kWantsKernels;
    first_step_ = step_;
    begin_session(wants, options_.max_events);
  }
  action_ = action;
  if (options_.schedule && is_recording()) {
    step_span_.emplace(EventKind::kStep, "");
    if (*step_span_) step_span_->rename(concat("ProfilerStep#", step_));
  }
}

void Profiler::end_recording(bool tell) {
  const bool keeps = action_ == Action::kRecord || action_ == Action::kRecordAndSave;
  if (!is_recording()) return;
  Recording recorded = end_session();
  action_ = Action::kNone;
  if (!keeps) return;
  recorded.first_step = first_step_;
  recorded.rank = rank_;
  if (!options_.cpu) {
    std::erase_if(recorded.events, [](const Event& event) {
      return event.kind != EventKind::kKernel && event.kind != EventKind::kCopy &&
             event.kind != EventKind::kDeviceCopy && event.kind != EventKind::kDeviceWait;
    });
  }
  last_ = std::move(recorded);
  if (tell && options_.on_trace_ready) options_.on_trace_ready(*this);
}

void Profiler::start() {
  WICK_CHECK(!started_, "profiler: start: it has been started already");
  const Profiler* none = nullptr;
  WICK_CHECK(running.compare_exchange_strong(none, this),
             "profiler: start: another profiler of this process is running: stop it first");
  started_ = true;
  step_ = 0;
  begin(action_at(0));
}

void Profiler::stop() {
  WICK_CHECK(started_, "profiler: stop: it is not running: got stop() before start()");
  step_span_.reset();
  started_ = false;
  running = nullptr;
  end_recording(true);
}

void Profiler::step() {
  WICK_CHECK(started_, "profiler: step: it is not running: got step() before start()");
  step_span_.reset();
  const Action next = action_at(++step_);
  const bool is_complete = action_ == Action::kRecordAndSave;
  const bool is_warm = action_ == Action::kWarmUp && next != Action::kWarmUp;
  if (is_complete || is_warm) end_recording(true);
  begin(next);
}

const Recording& Profiler::recording() const {
  WICK_CHECK(last_.has_value(),
             "profiler: nothing is recorded yet: expected stop(), or the end of "
             "a schedule's active steps");
  return *last_;
}

}  // namespace wick::profile
