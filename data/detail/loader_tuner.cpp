#include "wick/data/detail/loader_tuner.h"

#include <algorithm>
#include <cmath>

namespace wick::data::loading {

int WorkerTuner::note(double read, double wait, double other) {
  constexpr int64_t kFewestBatches = 16;
  constexpr double kLeastSeconds = 0.1;
  read_ += read;
  wait_ += wait;
  other_ += other;
  ++batches_;
  const double seconds = wait_ + other_;
  if (batches_ >= kFewestBatches && seconds >= kLeastSeconds) {
    decide(static_cast<double>(batches_) / seconds);
    batches_ = 0;
    read_ = wait_ = other_ = 0;
  }
  return workers_;
}

void WorkerTuner::keep_to(int workers) {
  workers_ = most_ = workers;
  workers_before_ = 0;
}

void WorkerTuner::decide(double rate) {
  constexpr double kShareOfWaiting = 0.02;  // that is worth a thread
  constexpr double kGain = 1.03;            // that keeps it
  constexpr int kPause = 50;
  if (workers_before_ > 0 && rate < kGain * rate_before_) {
    workers_ = workers_before_;
    pause_ = kPause;
  }
  workers_before_ = 0;
  if (pause_ > 0) {
    --pause_;
    return;
  }
  if (wait_ <= kShareOfWaiting * (wait_ + other_) || workers_ >= most_) return;
  // As many as read a batch in the time of a step; at most twice as many at a time, since threads
  // that share cores seem to need ever more of them.
  const double needed = other_ > 0 ? std::ceil(read_ / other_) : most_;
  workers_before_ = workers_;
  rate_before_ = rate;
  workers_ = static_cast<int>(
      std::clamp(needed, workers_ + 1.0, std::min(2.0 * workers_, double{1} * most_)));
}

}  // namespace wick::data::loading
