#pragma once

#include <string>
#include <vector>

#include "wick/bench/runner/ceilings.h"
#include "wick/bench/runner/measure.h"

namespace wick::bench {

/// What became of one row.
struct Result {
  std::string name;
  std::string error;  // its result was wrong, or it failed; then there is no time
  Timing timing;
  double bytes = 0, flops = 0;
  Ceilings::Bound bound;

  double seconds() const { return median(timing.seconds); }
  Interval interval() const { return tool::median_interval(timing.seconds, kConfidence); }
  /// How near it comes to the bound: 1 is there; 0 where there is none.
  double fraction() const { return bound.seconds / seconds(); }
};

/// All that a run found.
struct Report {
  std::string device;  // "cpu", or the GPU's name
  int64_t shrink = 1;  // what sizes were divided by
  Ceilings ceilings;
  std::vector<std::string> ceiling_lines;
  std::vector<Result> results;
};

/// The heading of the table, and one row of it, within 100 columns.
std::string table_heading();
std::string table_row(const Result& result);

/// "1.23 ms"
std::string duration(double seconds);

/// Writes the report as Google Benchmark 1.7 writes JSON, in one step: every sample is a
/// repetition, and then come median, mean, stddev and cv. Beside its keys `context` has ours under
/// `wick`, and entries have bytes, flops, their rates, bound_seconds and fraction_of_bound.
void write_json(const Report& report, const std::string& path);
/// The same text.
std::string to_json(const Report& report);
/// The entries as Google Benchmark writes CSV: its columns, and ours behind them.
std::string to_csv(const Report& report);

}  // namespace wick::bench
