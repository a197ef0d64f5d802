#pragma once

#include <string>
#include <vector>

#include "wick/bench/kernels/row.h"
#include "wick/bench/runner/measure.h"
#include "wick/tools/common/exit_codes.h"
#include "wick/tools/common/usage_error.h"

namespace wick::bench {

/// The words after `wick bench`.
struct Options {
  std::string filter;
  std::string device = "auto";
  int threads = 0;          // 0: as many as there are
  int64_t repetitions = 0;  // samples of a row; 0: until its median is known
  bool list = false, sim = false, quick = false, serve = false;
  std::string format = "console", json, baseline, against;
};

using tool::UsageError;

/// What --device and --quick mean.
Setting setting_of(const Options& options);
MeasureOptions measure_options(const Options& options, Device device);

/// The rows that --filter chooses among those of `device`: whose names the regular expression
/// finds, or with a - before it those whose names it does not find. UsageError if it is no regular
/// expression or chooses none.
std::vector<const Row*> choose_rows(const Options& options, Device device);

/// Whether the user asked to end (SIGINT, SIGTERM).
bool interrupted();
void handle_interrupts();

}  // namespace wick::bench
