#pragma once

#include "wick/tools/common/progress.h"
#include "wick/train/recipe.h"
#include "wick/train/trainer.h"

namespace wick::tool {

/// Tells a terminal, or by --json another program, how far a run is.
class Console {
 public:
  /// Silent but on the first rank. `recipe` is resolved.
  Console(const train::Recipe& recipe, bool json, const train::Ranks& ranks, Device device);
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// Whether text is for people to read; neither on other ranks nor with --json.
  bool is_text() const { return text_; }
  /// Makes a run tell this object of its steps, of which it has `steps_per_epoch`. `options` and
  /// the run must not outlive it.
  void follow(train::TrainerOptions& options, int64_t test_images);
  void set_length(int64_t steps_per_epoch, int64_t total_steps);
  /// The last lines about a run that has ended; a line of JSON.
  void finish(const train::Trainer& trainer, const optim::Optimizer& optimizer,
              const std::string& run_dir);
  void finish_line() { progress_.finish_line(); }

 private:
  void show(const train::StepEvent& event);
  void show(const train::EpochEvent& event);
  void show(const train::JumpEvent& event);
  void print_json(const std::string& line) const;

  const train::Recipe& recipe_;
  bool json_, text_;
  Device device_;
  Progress progress_;
  int64_t steps_per_epoch_ = 1, total_steps_ = 1;
  // Of the epoch under way:
  int64_t epoch_ = 0, images_ = 0;
  double correct_ = 0;
};

}  // namespace wick::tool
