#pragma once

#include <map>
#include <string>
#include <vector>

#include "wick/tools/study/settings.h"

namespace wick::study {

/// What a training came to.
struct Learned {
  std::vector<double> losses;  // of each step; NaN where it was not finite
  double accuracy = 0;         // on test images
};

/// Trains with settings and several seeds. Nothing is timed, so seeds are trained side by side.
class Learner {
 public:
  Learner(int64_t steps, int seeds) : steps_(steps), seeds_(seeds) {}
  /// By seed. What was trained before is not trained again.
  const std::vector<Learned>& learn(const Settings& settings);
  /// How many each training takes: fewer where batches are large.
  int64_t steps(const Settings& settings) const;
  int seeds() const { return seeds_; }

 private:
  std::vector<Learned> train(const Settings& settings) const;

  int64_t steps_;
  int seeds_;
  std::map<std::string, std::vector<Learned>> known_;
};

}  // namespace wick::study
