#include "wick/bench/runner/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>

#include "wick/core/stream.h"

namespace wick::bench {

namespace {

constexpr size_t kLeastSamples = 7;
constexpr double kTight = 0.02;  // half the interval over the median

double cpu_now() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

bool is_tight(const std::vector<double>& seconds) {
  if (seconds.size() < kLeastSamples) return false;
  const Interval interval = tool::median_interval(seconds, kConfidence);
  return interval.high - interval.low <= 2 * kTight * median(seconds);
}

}  // namespace

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double time_calls(Device device, int64_t calls, const std::function<void()>& call) {
  if (device.is_cpu()) {
    const double start = now();
    for (int64_t i = 0; i < calls; ++i) call();
    return now() - start;
  }
  synchronize(device);
  Event begin(device, true), end(device, true);
  begin.record();
  for (int64_t i = 0; i < calls; ++i) call();
  end.record();
  end.synchronize();
  return 1e-3 * begin.elapsed_ms(end);
}

double time_once(Device device, double seconds, const std::function<void()>& call) {
  const int64_t calls = calls_for(device, seconds / 8, call);
  double best = HUGE_VAL, spent = 0;
  for (int i = 0; i < 3 || spent < seconds; ++i) {
    const double taken = time_calls(device, calls, call);
    best = std::min(best, taken / static_cast<double>(calls));
    spent += taken;
  }
  return best;
}

int64_t calls_for(Device device, double seconds, const std::function<void()>& call) {
  call();  // the first call allocates, plans and pages in
  int64_t calls = 1;
  for (;;) {
    const double taken = time_calls(device, calls, call);
    if (taken >= seconds / 2) {
      const double each = taken / static_cast<double>(calls);
      return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(seconds / each)));
    }
    calls *= taken < seconds / 20 ? 10 : 2;
  }
}

Timing measure(const std::function<void()>& call, const MeasureOptions& options,
               const std::function<bool()>& stopped) {
  Timing timing;
  timing.calls = calls_for(options.device, options.min_sample, call);
  const auto calls = static_cast<double>(timing.calls);
  double spent = 0;
  while (!stopped()) {
    const double cpu = cpu_now();
    const double seconds = time_calls(options.device, timing.calls, call);
    timing.cpu_seconds.push_back((cpu_now() - cpu) / calls);
    timing.seconds.push_back(seconds / calls);
    spent += seconds;
    if (options.repetitions > 0) {
      if (static_cast<int64_t>(timing.seconds.size()) >= options.repetitions) break;
      continue;
    }
    const bool enough = spent >= options.min_total && is_tight(timing.seconds);
    const bool over = timing.seconds.size() >= kLeastSamples && spent >= options.max_total;
    const bool full = static_cast<int64_t>(timing.seconds.size()) >= options.most_samples;
    if (enough || over || full) break;
  }
  return timing;
}

}  // namespace wick::bench
