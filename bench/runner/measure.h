#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "wick/core/base/device.h"
#include "wick/tools/common/statistics.h"

namespace wick::bench {

using tool::Interval;
using tool::median;

/// Of all intervals that a benchmark gives.
inline constexpr double kConfidence = 0.95;

/// Seconds on the steady clock.
double now();

/// What one row took, per call.
struct Timing {
  int64_t calls = 0;            // in a sample
  std::vector<double> seconds;  // of each sample
  std::vector<double> cpu_seconds;
};

struct MeasureOptions {
  Device device = kCpu;
  double min_sample = 5e-3;  // seconds: shorter ones measure the clock
  double min_total = 0.25;
  double max_total = 1;  // where the interval stays wide
  int64_t most_samples = 31;
  int64_t repetitions = 0;  // exactly so many samples; 0: as many as the times ask for
};

/// Seconds of `calls` calls in a row, by the GPU's own clock where `device` is one.
double time_calls(Device device, int64_t calls, const std::function<void()>& call);

/// The shortest time of `call` in about `seconds`.
double time_once(Device device, double seconds, const std::function<void()>& call);

/// How many calls last about `seconds`.
int64_t calls_for(Device device, double seconds, const std::function<void()>& call);

/// Samples until the median is known to 2 %, or max_total is over, or `stopped`: then with what
/// there is.
Timing measure(const std::function<void()>& call, const MeasureOptions& options,
               const std::function<bool()>& stopped);

}  // namespace wick::bench
