// Times of kernels by marks on their streams before and behind them.
#include "wick/core/profile/detail/kernel_times.h"

#include <deque>
#include <mutex>
#include <unordered_map>

#include "wick/core/base/check.h"
#include "wick/core/detail/capture.h"
#include "wick/core/profile/detail/session.h"
#include "wick/core/stream.h"

namespace wick::profile {

namespace {

constexpr size_t kMostKernels = size_t{1} << 16;

struct Timed {
  Stream stream;
  wick::Event begin, end;
  bool is_complete = false;
};

// Of the session under way. Never destroyed: kernels may run until the program's end.
struct TimedKernels {
  std::mutex mutex;
  std::deque<Timed> all;  // the n-th is number n + 1
};

TimedKernels& timed_kernels() {
  static auto& kernels = *new TimedKernels;
  return kernels;
}

thread_local uint64_t begun_last = 0;

// Of each device the mark that others are measured from, and when it was.
struct Base {
  wick::Event mark;
  int64_t time = 0;
};

}  // namespace

uint64_t begin_kernel_time(Stream stream) {
  begun_last = 0;
  if (is_capturing()) return 0;
  TimedKernels& kernels = timed_kernels();
  const std::lock_guard lock(kernels.mutex);
  if (kernels.all.size() >= kMostKernels) return 0;
  Timed& timed = kernels.all.emplace_back(
      Timed{stream, wick::Event(stream.device, true), wick::Event(stream.device, true), false});
  timed.begin.record(stream);
  begun_last = kernels.all.size();
  return begun_last;
}

void end_kernel_time(Stream stream) {
  if (begun_last == 0) return;
  TimedKernels& kernels = timed_kernels();
  const std::lock_guard lock(kernels.mutex);
  if (begun_last > kernels.all.size()) return;  // of a session that has ended
  Timed& timed = kernels.all[begun_last - 1];
  begun_last = 0;
  if (!(timed.stream == stream)) return;
  timed.end.record(stream);
  timed.is_complete = true;
}

namespace {

// The marks that the kernels of `all` are measured from.
std::unordered_map<int, Base> bases_of(const std::deque<Timed>& all) {
  std::unordered_map<int, Base> bases;
  for (const Timed& timed : all) {
    const Device device = timed.stream.device;
    if (!timed.is_complete || bases.contains(device.index)) continue;
    Base base{wick::Event(device, true)};
    base.mark.record(timed.stream);
    synchronize(device);
    base.time = now_ns();
    bases.emplace(device.index, std::move(base));
  }
  return bases;
}

}  // namespace

void fill_kernel_times(Recording& recording) {
  std::deque<Timed> all;
  {
    TimedKernels& kernels = timed_kernels();
    const std::lock_guard lock(kernels.mutex);
    all.swap(kernels.all);
  }
  bool knows_times = true;
  try {
    const std::unordered_map<int, Base> bases = bases_of(all);
    for (Event& event : recording.events) {
      if (event.kind != EventKind::kKernel || event.sequence == 0) continue;
      const Timed* timed = event.sequence <= all.size() ? &all[event.sequence - 1] : nullptr;
      if (timed == nullptr || !timed->is_complete) continue;
      const auto ns = [](double ms) { return static_cast<int64_t>(1e6 * ms); };
      const Base& base = bases.at(timed->stream.device.index);
      event.device_ns = ns(timed->begin.elapsed_ms(timed->end));
      event.device_start = base.time - ns(timed->begin.elapsed_ms(base.mark));
    }
  } catch (const Error&) {  // a simulated GPU has no speed; a broken one tells no more
    knows_times = false;
  }
  for (Event& event : recording.events) {
    if (event.kind != EventKind::kKernel) continue;
    event.sequence = 0;
    if (!knows_times) event.device_ns = event.device_start = 0;
  }
}

}  // namespace wick::profile
