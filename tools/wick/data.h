#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "wick/data/image_io.h"
#include "wick/tools/wick/commands.h"

namespace wick::tool {

// Each adds a subcommand of `wick data`, as those of commands.h do.

void add_data_pack(CLI::App& data, Command& command);
void add_data_check(CLI::App& data, Command& command);
void add_data_fetch(CLI::App& data, Command& command);

/// Gives `app` flags for `limits`.
void add_image_limits(CLI::App& app, data::ImageLimits& limits);

/// A line on the terminal that says how far something is, redrawn at most ten times a second and
/// wiped at the end. Shows nothing elsewhere.
class CountLine {
 public:
  explicit CountLine(bool quiet);
  ~CountLine();
  CountLine(const CountLine&) = delete;
  CountLine& operator=(const CountLine&) = delete;
  void show(const std::string& what, int64_t done, int64_t all);

 private:
  bool shown_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace wick::tool
