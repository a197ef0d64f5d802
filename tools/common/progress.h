#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace wick::tool {

/// What the progress line shows after a step.
struct StepReport {
  int64_t epoch = 0, epochs = 0;
  int64_t step = 0, steps = 0;  // of this epoch
  bool last = false;            // of this epoch, or of a run that ends within it
  double loss = 0;
  double accuracy = 0;  // running, of this epoch, 0 to 1
  double images_per_second = 0;
  double data_wait = 0;      // share of the time spent waiting for data, 0 to 1
  double seconds_left = 0;   // of the whole run
  int64_t memory_bytes = 0;  // held by tensors at most
};

/// Shows how far a run is: on a terminal one line, redrawn at most ten times a second; elsewhere a
/// plain line every thirty seconds and at the end of each epoch. Colour only on a terminal and
/// without NO_COLOR.
class Progress {
 public:
  /// `quiet` shows nothing.
  explicit Progress(bool quiet);
  void show(const StepReport& report);
  /// How many of a data set's images have been evaluated.
  void show_evaluation(int64_t done, int64_t images);
  /// Leaves the line as it stands and starts a new one.
  void finish_line();

 private:
  using Clock = std::chrono::steady_clock;
  bool due(bool at_once);
  void print(const std::string& head, double share, const std::string& rest);
  std::string bar(double share, int width) const;

  bool quiet_;
  bool terminal_;
  bool color_;
  bool line_open_ = false;
  Clock::time_point last_;
};

/// "1:05:09", "2:07"
std::string clock_text(double seconds);
/// "412 MB"
std::string bytes_text(int64_t bytes);

}  // namespace wick::tool
