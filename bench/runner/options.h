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
  int threads = 0;  // 0: as many as there are
  bool list = false, sim = false, quick = false, serve = false;
  std::string json, baseline, against;
};

using tool::UsageError;

/// What --device and --quick mean.
Setting setting_of(const Options& options);
MeasureOptions measure_options(const Options& options, Device device);

/// The rows that --filter chooses among those of `device`. UsageError if it is no regular
/// expression or chooses none.
std::vector<const Row*> choose_rows(const Options& options, Device device);

/// Whether the user asked to end (SIGINT, SIGTERM).
bool interrupted();
void handle_interrupts();

}  // namespace wick::bench
