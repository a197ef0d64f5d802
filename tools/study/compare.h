#pragma once

#include <array>
#include <atomic>

#include "wick/core/profile/verdict.h"
#include "wick/tools/common/statistics.h"
#include "wick/tools/study/worker_process.h"

namespace wick::tool {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Interval, middle, low, high, confidence)
}

namespace wick::study {

using tool::Interval;
using tool::median;
using tool::median_interval;
using tool::sequential_median_interval;

/// Of all intervals of a study.
inline constexpr double kConfidence = 0.99;
/// That one needs to be judged: what 8 pairs of turns give, or 6 seeds.
inline constexpr double kLeastConfidence = 0.96;

/// Set by a signal: what is under way ends as soon as it can.
extern std::atomic<bool> interrupted;

/// The study was told to stop.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

/// What each profile::Bound has of a time; their sum is 1.
using Shares = std::array<double, profile::kBounds>;

/// What one side of a comparison took: medians over its slices.
struct SideFigures {
  double step_seconds = 0;
  double images_per_second = 0;
  double wait_share = 0;  // of the time, waiting for data
  double peak_bytes = 0;
};

/// Smaller effects are none: where memory happens to lie makes a process a little faster or slower
/// for as long as it lives.
inline constexpr double kWorthSaying = 0.02;

/// Two ways to do the same, measured in turn.
struct Comparison {
  SideFigures off, on;
  /// Images per second of `on` over those of `off`: the median over pairs of turns, and where the
  /// true one is, whatever made the turns end.
  Interval speed;
  double memory = 1;  // peak bytes of `off` over those of `on`
  int pairs = 0;      // of turns
  int processes = 0;  // pairs of them
  /// Of each side's time, by profile::Bound, in the first of the processes; zeros: not known.
  Shares off_shares = {}, on_shares = {};
};

/// Whether any effect is too small to be worth saying.
bool is_same(const Comparison& comparison);
/// Whether one is worth saying and has shown in two pairs of processes or more.
bool is_shown(const Comparison& comparison);

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SideFigures, step_seconds, images_per_second, wait_share,
                                   peak_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Comparison, off, on, speed, memory, pairs,
                                                processes, off_shares, on_shares)

/// How long to measure. Times and pairs of turns are those of one pair of processes.
struct Effort {
  double seconds = 2;           // once both sides are warm
  double slice_seconds = 0.06;  // of one turn, at least
  int min_pairs = 8;            // for the interval's confidence
  int max_pairs = 30;
  double tight_enough = 0.01;  // ends when the interval is this far from its middle, as a share
  int processes = 2;           // pairs of them, unless the first shows no difference
  int most_processes = 4;      // while what seems worth saying does not show
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
  /// Where the time of steps goes.
  Shares shares();
  SideFigures figures() const;
  const Settings& settings() const { return settings_; }

 private:
  Settings settings_;
  WorkerProcess worker_;
  double step_seconds_ = 1;
  int64_t steps_ = 1;  // of the last turn
  std::vector<double> seconds_, waits_, peaks_;
};

/// Measures two sides against each other, in one pair of processes after another.
class Duel {
 public:
  explicit Duel(const Effort& effort) : effort_(effort) {}
  /// Lets both take turns, off on on off, until the ratio of these processes is known well enough.
  void run(Side& off, Side& on);
  /// Whether more processes may show what too few have, or not clearly.
  bool is_open() const;
  const Comparison& result() const { return result_; }

 private:
  Effort effort_;
  Comparison result_;
  std::vector<double> ratios_;  // of pairs of turns
  std::vector<SideFigures> off_, on_;
};

/// A duel in as many pairs of processes as it takes.
Comparison compare(const Settings& off, const Settings& on, const Effort& effort);

}  // namespace wick::study
