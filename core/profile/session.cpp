#include "wick/core/profile/detail/session.h"

#include <algorithm>
#include <chrono>
#include <new>

#include "wick/core/base/detail/launch_scope.h"
#include "wick/core/base/detail/per_thread.h"
#include "wick/core/base/profiling.h"
#include "wick/core/profile/detail/activities.h"
#include "wick/core/profile/detail/kernel_times.h"
#include "wick/core/profile/detail/nvtx_calls.h"
#include "wick/core/profile/span.h"

namespace wick::profile {

namespace {

// The sessions of this process. Never destroyed, as threads may record until the program's end.
struct Sessions {
  std::mutex mutex;
  std::vector<std::shared_ptr<ThreadLog>> logs;  // of the session under way
  Recording begun;
  std::atomic<uint64_t> current{0};  // its number; 0 between sessions
  uint64_t begun_so_far = 0;
  std::atomic<int64_t> chunks_left{0};
};

Sessions& sessions() {
  static auto& all = *new Sessions;
  return all;
}

// The log that this thread wrote to last.
std::shared_ptr<ThreadLog>& own_log() { return per_thread<std::shared_ptr<ThreadLog>>(); }

ThreadLog* join_session() noexcept {
  Sessions& all = sessions();
  try {
    const std::lock_guard lock(all.mutex);
    const uint64_t session = all.current.load(std::memory_order_relaxed);
    if (session == 0) return nullptr;
    const auto thread = static_cast<uint32_t>(all.logs.size());
    auto log = std::make_shared<ThreadLog>(session, thread, all.chunks_left);
    all.logs.push_back(log);
    own_log() = std::move(log);
    return own_log().get();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string name_of_backward(const char* op) {
  std::string text;
  bool begins = true;
  for (const char* c = op; *c != 0; ++c) {
    if (*c != '_') text += begins && *c >= 'a' && *c <= 'z' ? static_cast<char>(*c - 32) : *c;
    begins = *c == '_';
  }
  // The one node that has no forward has PyTorch's name.
  return text == "AccumulateGrad" ? text : text + "Backward";
}

ThreadLog::~ThreadLog() {
  Chunk* chunk = first_.load(std::memory_order_acquire);
  while (chunk != nullptr) {
    Chunk* next = chunk->next.load(std::memory_order_acquire);
    delete chunk;
    chunk = next;
  }
}

void ThreadLog::write(const Event& event) noexcept {
  size_t count = last_ == nullptr ? kChunk : last_->count.load(std::memory_order_relaxed);
  if (count == kChunk) {
    const bool has_room = chunks_left_.fetch_sub(1, std::memory_order_relaxed) > 0;
    auto* chunk = has_room ? new (std::nothrow) Chunk : nullptr;
    if (chunk == nullptr) {
      chunks_left_.fetch_add(1, std::memory_order_relaxed);
      dropped_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    (last_ == nullptr ? first_ : last_->next).store(chunk, std::memory_order_release);
    last_ = chunk;
    count = 0;
  }
  Event& place = last_->events[count];
  place = event;
  place.thread = thread_;
  last_->count.store(count + 1, std::memory_order_release);
}

std::string_view ThreadLog::keep(std::string_view text) noexcept {
  const auto found = known_.find(text);
  if (found != known_.end()) return found->second;
  if (text_bytes_ + text.size() > kMostText) return "(too many names)";
  try {
    const std::string_view kept = texts_->emplace_back(text);
    known_.emplace(kept, kept);
    text_bytes_ += text.size() + 64;
    return kept;
  } catch (const std::bad_alloc&) {
    return "(no memory for the name)";
  }
}

std::string_view ThreadLog::backward_name(const char* op) noexcept {
  try {
    std::string_view& name = backward_names_[op];
    if (name.empty()) name = keep(name_of_backward(op));
    return name;
  } catch (const std::bad_alloc&) {
    return "(no memory for the name)";
  }
}

void ThreadLog::append_to(std::vector<Event>& events) const {
  const Chunk* chunk = first_.load(std::memory_order_acquire);
  while (chunk != nullptr) {
    const size_t count = chunk->count.load(std::memory_order_acquire);
    events.insert(events.end(), chunk->events.begin(),
                  chunk->events.begin() + static_cast<std::ptrdiff_t>(count));
    chunk = chunk->next.load(std::memory_order_acquire);
  }
}

ThreadLog* current_log() noexcept {
  const uint64_t session = sessions().current.load(std::memory_order_acquire);
  if (session == 0) return nullptr;
  ThreadLog* log = own_log().get();
  return log != nullptr && log->session() == session ? log : join_session();
}

void begin_session(uint32_t wanted, int64_t max_events) {
  Sessions& all = sessions();
  if ((wanted & kWantsKernels) != 0 && begin_gpu_activities(max_events)) {
    wanted |= kWantsActivities;
  }
  const std::lock_guard lock(all.mutex);
  all.logs.clear();
  all.begun = Recording();
  all.begun.with_shapes = (wanted & kWantsShapes) != 0;
  all.begun.with_memory = (wanted & kWantsMemory) != 0;
  all.begun.with_flops = (wanted & kWantsFlops) != 0;
  all.begun.with_modules = (wanted & kWantsModules) != 0;
  all.begun.start_system_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                                  std::chrono::system_clock::now().time_since_epoch())
                                  .count();
  all.begun.start_ns = now_ns();
  const auto chunk = static_cast<int64_t>(ThreadLog::kChunk);
  all.chunks_left = (max_events + chunk - 1) / chunk;
  all.current.store(++all.begun_so_far, std::memory_order_release);
  detail::wanted_now.fetch_or(wanted | kRecording, std::memory_order_release);
}

Recording end_session() {
  Sessions& all = sessions();
  const uint32_t wanted = detail::wanted_now.fetch_and(kEmitsNvtx, std::memory_order_release);
  std::unique_lock lock(all.mutex);
  const uint64_t session = all.current;
  all.current.store(0, std::memory_order_release);
  all.begun.end_ns = now_ns();
  for (const auto& log : all.logs) {
    const auto begin = static_cast<std::ptrdiff_t>(all.begun.events.size());
    log->append_to(all.begun.events);
    std::sort(all.begun.events.begin() + begin, all.begun.events.end(),
              [](const Event& a, const Event& b) { return a.begin_order < b.begin_order; });
    all.begun.dropped += log->dropped();
    all.begun.texts.push_back(log->texts());
  }
  all.logs.clear();
  own_log().reset();
  Recording recorded = std::move(all.begun);
  lock.unlock();
  if ((wanted & kWantsActivities) != 0) {
    add_gpu_activities(recorded, session);
  } else {
    fill_kernel_times(recorded);
  }
  return recorded;
}

namespace {

// Returns its place in the log.
uint32_t write_moment(ThreadLog& log, const Event& event) {
  Event moment = event;
  moment.begin_order = log.next_order();
  moment.end_order = log.next_order();
  moment.start_ns = moment.end_ns = now_ns();
  log.write(moment);
  return moment.begin_order;
}

// How many launches this thread has pushed and not popped. CUPTI has the rest.
thread_local int pushed_launches = 0;

}  // namespace

void Span::begin(EventKind kind, std::string_view name) {
  ThreadLog* log = current_log();
  if (log == nullptr && (wanted() & kEmitsNvtx) == 0) return;
  auto* made = new (memory_) Event;
  made->kind = kind;
  made->name = name;
  if (!name.empty()) emit(name);
  is_on_ = true;
  if (log == nullptr) return;
  made->thread = log->thread();
  made->begin_order = log->next_order();
  session_ = log->session();
  made->start_ns = now_ns();
}

void Span::emit(std::string_view name) {
  if (emitted_ || (wanted() & kEmitsNvtx) == 0) return;
  nvtx_push(name);
  emitted_ = true;
}

void Span::end() noexcept {
  if (emitted_) nvtx_pop();
  Event& ended = event();
  ended.end_ns = now_ns();
  ThreadLog* log = current_log();
  if (log == nullptr || log->session() != session_) return;
  if (ended.thread != log->thread()) {  // of no use in the order of this thread's events
    ended.is_async = true;
    ended.begin_order = log->next_order();
  }
  ended.end_order = log->next_order();
  log->write(ended);
}

void Span::rename(std::string_view name) {
  event().name = kept_text(name);
  emit(name);
}

void record_moment(const Event& event) {
  ThreadLog* log = wanted() != 0 ? current_log() : nullptr;
  if (log != nullptr) write_moment(*log, event);
}

std::string_view kept_text(std::string_view text) {
  ThreadLog* log = current_log();
  return log == nullptr ? std::string_view() : log->keep(text);
}

void detail::record_memory(bool is_free, const void* pointer, size_t bytes, int64_t allocated,
                           Stream stream) {
  Event event;
  event.kind = is_free ? EventKind::kFree : EventKind::kAllocation;
  event.name = "[memory]";
  event.device = stream.device;
  event.stream = stream.handle;
  event.bytes = static_cast<int64_t>(bytes);
  event.address = reinterpret_cast<uintptr_t>(pointer);
  event.allocated = allocated;
  record_moment(event);
}

void detail::begin_kernel(const char* name, Device device, void* stream) {
  const bool has_activities = (wanted() & kWantsActivities) != 0;
  Event event;
  if (!has_activities) event.sequence = begin_kernel_time({device, stream});
  event.kind = EventKind::kKernel;
  event.name = name;
  event.device = device;
  event.stream = stream;
  ThreadLog* log = current_log();
  if (log == nullptr) return;
  const uint32_t order = write_moment(*log, event);
  if (!has_activities) return;
  push_launch(*log, order);
  ++pushed_launches;
}

void detail::end_kernel(Device device, void* stream) noexcept {
  if (pushed_launches > 0) return end_launch();
  try {
    end_kernel_time({device, stream});
  } catch (const std::exception&) {  // the kernel's time stays unknown
  }
}

bool detail::begin_launch() noexcept {
  ThreadLog* log = current_log();
  if (log == nullptr) return false;
  push_launch(*log, log->next_order());
  ++pushed_launches;
  return true;
}

void detail::end_launch() noexcept {
  pop_launch();
  --pushed_launches;
}

}  // namespace wick::profile
