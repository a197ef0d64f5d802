#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "wick/nn/activation_plan.h"
#include "wick/nn/memory_advice.h"
#include "wick/train/evaluation.h"
#include "wick/train/recipe.h"
#include "wick/train/trainer.h"

namespace wick::train {

/// The parts that a recipe names, made: data, a model with its first weights, an optimizer. What
/// `wick train`, `wick eval` and `wick tune` run on.
class Classifier {
 public:
  /// `recipe` is resolved. Sets the threads and the arithmetic of the process. All random numbers
  /// follow from the recipe's seed from here on. InvalidOption for an option that the model or the
  /// data has no use of, unless the run is resumed.
  explicit Classifier(const Recipe& recipe, const Ranks& ranks = {});

  /// The recipe, with the number of ranks and the fingerprint of the data in its `record`.
  const Recipe& recipe() const { return recipe_; }
  /// The ranks of the run; by default one alone.
  const Ranks& ranks() const { return ranks_; }
  /// The device that this rank trains on.
  Device device() const { return device_; }
  /// The data to train on and to test with.
  const data::TrainTest& data() const { return data_; }
  /// The model, on device().
  const std::shared_ptr<nn::Module>& model() const { return model_; }
  /// The optimizer of all parameters of the model.
  const std::shared_ptr<optim::Optimizer>& optimizer() const { return optimizer_; }

  /// Cross-entropy and "accuracy" of a batch of samples and labels.
  LossFunction loss() const;
  /// The same without label smoothing.
  LossFunction evaluation_loss() const;
  /// How training data is loaded: shuffled; an incomplete batch only if there is no other.
  data::DataLoaderOptions loading() const;
  data::DataLoaderOptions test_loading() const;  // in order, all of it
  /// What a Trainer trains on: loaded, and mixed.
  TrainData train_data() const;
  StepOptions step_options() const;  // how a step is taken
  /// A run in `folder`, whose config.json is the recipe.
  TrainerOptions trainer_options(const std::string& folder) const;

  /// The most samples of a step that a rank takes at a time.
  int64_t largest_piece() const;
  /// `count` samples like the data's: of normal noise, or of zeros where numbers are whole.
  Tensor noise(int64_t count) const;
  /// Forward and backward of `count` samples of noise, as of a piece of a batch: to see what that
  /// needs.
  void pass_noise(int64_t count);

  /// Does what the recipe says of activations; returns what was found for a budget. Error if no
  /// choice keeps to it.
  std::optional<nn::ActivationFit> checkpoint_activations();
  /// What would help after OutOfMemory; none if that cannot be measured.
  std::optional<nn::MemoryAdvice> advise_on_memory();

 private:
  Recipe recipe_;
  Ranks ranks_;
  Device device_;
  data::TrainTest data_;
  std::shared_ptr<nn::Module> model_;
  std::shared_ptr<optim::Optimizer> optimizer_;
};

/// Cross-entropy and "accuracy" of a batch: field 0 is what `model` takes, field 1 the class
/// indices or probabilities.
LossFunction classification_loss(std::shared_ptr<nn::Module> model, double label_smoothing = 0);

/// InvalidOption if `ranks` ranks cannot share the batches that `recipe` (resolved) asks for.
void check_shares(const Recipe& recipe, int64_t ranks);

}  // namespace wick::train
