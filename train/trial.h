#pragma once

#include <cstdint>

#include "wick/core/checkpoint.h"
#include "wick/train/classifier.h"
#include "wick/train/training_snapshot.h"

namespace wick::train {

/// Steps to try things on, as the finders do: the same model, optimizer and batches as a run of the
/// recipe begins with.
class Trial {
 public:
  /// `recipe` is resolved.
  explicit Trial(const Recipe& recipe);
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  /// The next batch of the training data, on the device, epoch after epoch.
  data::Batch next_batch();
  /// One optimizer step on the next batch; returns its loss.
  double step() { return step_on(next_batch()).item(); }
  /// One optimizer step on a batch on the device; returns its mean loss.
  Tensor step_on(const data::Batch& batch);
  /// One optimizer step on `batch` samples of noise that stay on the device.
  void step_on_noise(int64_t batch);
  /// Forward and backward of the next batch. Gradients are not scaled.
  void backward();

  /// Data, model and optimizer, made by the recipe.
  Classifier& classifier() { return classifier_; }
  /// The model that steps train.
  nn::Module& model() { return *classifier_.model(); }
  /// The optimizer that takes the steps.
  optim::Optimizer& optimizer() { return *classifier_.optimizer(); }
  /// The device that steps run on.
  Device device() const { return classifier_.device(); }
  /// Number of samples to train on.
  int64_t train_size() const { return classifier_.data().train->size(); }
  /// All that steps change, as it is after `step` of them.
  Checkpoint state(int64_t step);
  /// Restores `state`, except the optimizer's rates.
  void load(const Checkpoint& state);
  /// What steps change beside model and optimizer.
  TrainingParts parts();

 private:
  data::Batch prepared(const data::Batch& batch);

  Classifier classifier_;
  TrainData data_;
  data::Prefetcher loader_;
  Step step_;
  Tensor noise_, noise_target_;
};

/// The next batch of `loader`, after the last that of the next epoch. Error if that has none.
data::Batch next_batch(data::Prefetcher& loader);

}  // namespace wick::train
