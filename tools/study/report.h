#pragma once

#include <string>
#include <vector>

namespace wick::study {

/// What `wick report` is told.
struct ReportOptions {
  std::vector<std::string> runs;
  std::string out;
  std::string data_dir;
  bool no_evaluation = false;
};

/// `wick report`. Returns the exit code.
int run_report(const ReportOptions& options);

}  // namespace wick::study
