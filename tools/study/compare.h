#pragma once

#include <atomic>

#include "wick/tools/study/child.h"
#include "wick/tools/study/statistics.h"

namespace wick::study {

/// Set by a signal: what is under way ends as soon as it can.
extern std::atomic<bool> interrupted;

/// The study was told to stop.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

/// What one side of a comparison took: medians over its slices.
struct SideFigures {
  double step_seconds = 0;
  double images_per_second = 0;
  double wait_share = 0;  // of the time, waiting for data
  double peak_bytes = 0;
};

/// Two ways to do the same, measured in turn.
struct Comparison {
  SideFigures off, on;
  Interval speed;     // images per second of `on` over those of `off`
  double memory = 1;  // peak bytes of `off` over those of `on`
  int pairs = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Interval, middle, low, high, confidence)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SideFigures, step_seconds, images_per_second, wait_share,
                                   peak_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Comparison, off, on, speed, memory, pairs)

/// How long to measure.
struct Effort {
  double seconds = 5;           // of a comparison, once both sides are warm
  double slice_seconds = 0.06;  // of one turn, at least
  int min_pairs = 8;            // for the interval's confidence
  int max_pairs = 60;
  double tight_enough = 0.01;  // ends when the interval is this far from its middle, as a share
};

/// One side, set up and warm.
class Side {
 public:
  explicit Side(const Settings& settings);
  /// Runs `steps` and keeps the figures.
  double run(int64_t steps);
  /// Steps that take about `seconds`, but at most four times as many as the last ones: those may
  /// have been quick for once.
  int64_t steps_for(double seconds) const;
  /// Runs until two turns in a row take about the same time.
  void warm_up(double most_seconds);
  void forget();
  SideFigures figures() const;
  Child& child() { return child_; }
  const Settings& settings() const { return settings_; }

 private:
  Settings settings_;
  Child child_;
  double step_seconds_ = 1;
  int64_t steps_ = 1;  // of the last turn
  std::vector<double> seconds_, waits_, peaks_;
};

/// Lets both take turns, off on on off, until the ratio is known well enough.
Comparison compare(Side& off, Side& on, const Effort& effort);

}  // namespace wick::study
