#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "wick/tools/study/images.h"
#include "wick/tools/study/plain_adamw.h"
#include "wick/tools/study/settings.h"
#include "wick/train/train.h"

namespace wick::study {

/// The model that `settings` name, for images of `shape` (channels, height, width).
std::shared_ptr<nn::Module> make_model(const Settings& settings, const Shape& shape,
                                       int64_t classes);

/// How `settings` say that batches are loaded.
data::DataLoaderOptions loader_options(const Settings& settings, Device device);

/// Batches that each worker of a loader holds ready.
inline constexpr int kLoadedAhead = 2;

/// A training loop with the habits that `settings` name.
class Training {
 public:
  /// `total_steps`: for the schedule, if there is one. With a group this is one of its ranks, which
  /// trains on its part of each batch.
  Training(const Settings& settings, int64_t total_steps,
           std::shared_ptr<dist::ProcessGroup> group = nullptr);
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  void step();
  /// Drops what the loader has ready.
  void drop_loaded();
  /// The loss of the last step. Waits for the device.
  double loss() const { return loss_.item(); }
  /// Seconds that steps waited for data so far.
  double wait_seconds() const { return loader_ ? loader_->wait_seconds() : 0; }
  /// Share of right answers over the first `count` test images.
  double accuracy(int64_t count);

 private:
  data::Batch next();
  train::BatchLoss loss_of(const data::Batch& batch);
  /// A step with a habit that train::Step does not have.
  train::Step::Result take_unusual_step(const data::Batch& batch);
  Tensor normalized(const Tensor& bytes) const;

  Settings settings_;
  Device device_;
  Images images_;
  std::shared_ptr<nn::Module> model_;
  std::unique_ptr<dist::DistributedDataParallel> parallel_;  // around it, with a group
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<PlainAdamW> plain_;  // in place of the optimizer
  std::unique_ptr<train::Step> step_;
  std::unique_ptr<train::RunSchedule> schedule_;
  std::optional<data::Prefetcher> loader_;
  data::Batch resident_;  // with source memory
  Tensor mean_, std_, loss_;
};

}  // namespace wick::study
