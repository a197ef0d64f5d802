#pragma once

#include "wick/bench/runner/options.h"

namespace wick::bench {

/// What `--serve` says first.
inline constexpr const char* kGreeting = "wick-bench 1";

/// Runs rows as a program on standard input asks, one line each, and answers with one line:
///   list               names of rows, with blanks between
///   prepare NAME       "ok", or "error TEXT"; replaces the row before
///   check              "ok", or "error TEXT": whether its result is right
///   calls SECONDS      how many calls last about as long
///   run CALLS          seconds that they took
/// Ends with its input. WICK_BENCH_SLOWER="REGEX FACTOR" in the environment lets every run of rows
/// that match take FACTOR times as long, for bench/against_check.py.
int serve(const Setting& setting);

}  // namespace wick::bench
