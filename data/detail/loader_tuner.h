#pragma once

#include <cstdint>

namespace wick::data::loading {

/// Decides how many workers a loader needs, from what it measures while it works: one more, or as
/// many more as reading takes longer than a step, while batches are waited for and it helps.
class WorkerTuner {
 public:
  /// Begins with 1, and goes up to `most`.
  explicit WorkerTuner(int most) : most_(most) {}

  /// To be told of each batch: the seconds that reading it took in its thread, that it was waited
  /// for, and that the caller then spent on something else. Returns the workers to go on with.
  int note(double read, double wait, double other);
  int workers() const { return workers_; }
  /// To be told that there are only `workers` and cannot be more.
  void keep_to(int workers);

 private:
  void decide(double rate);

  int most_;
  int workers_ = 1;
  // Since the last decision:
  int64_t batches_ = 0;
  double read_ = 0, wait_ = 0, other_ = 0;
  // What is on trial: the number before, and the batches per second that it gave.
  int workers_before_ = 0;
  double rate_before_ = 0;
  int pause_ = 0;  // decisions to leave out, since more did not help
};

}  // namespace wick::data::loading
