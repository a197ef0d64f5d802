#pragma once

#include <map>
#include <string>

#include "wick/bench/runner/result.h"

namespace wick::bench {

/// What a stored run took for each row.
struct BaselineRow {
  double seconds = 0;
  double bound_seconds = 0;  // at least, by the ceilings of that run; 0 if it had none
};
using Baseline = std::map<std::string, BaselineRow>;

/// Reads what --json wrote. Error, naming the file, for any other content, or if its sizes were
/// divided by something else than `shrink`.
Baseline read_baseline(const std::string& path, int64_t shrink);

/// How many times as long `result` takes as `before`, where the hardware is as much slower as its
/// ceilings are.
double slowdown(const Result& result, const BaselineRow& before);

/// Above this a row counts as slower.
inline constexpr double kMuchSlower = 1.3;

}  // namespace wick::bench
