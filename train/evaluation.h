#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "wick/core/graph/compile.h"
#include "wick/data/prefetcher.h"
#include "wick/train/ranks.h"
#include "wick/train/step.h"

namespace wick::train {

/// Figures by name, each the mean over samples.
using Means = std::vector<std::pair<std::string, double>>;

/// The value called `name`; none if there is none.
std::optional<double> find(const Means& means, const std::string& name);

/// What evaluating a model over a data set found.
struct Evaluation {
  double loss = 0;                // the mean over all samples
  Means means;                    // of the sums that the loss function gives
  int64_t samples = 0;            // that were read
  int64_t skipped = 0;            // that could not be, and were left out (OnError::kSkip)
  std::string last_skipped = {};  // what was wrong with the last of them
  std::string why_eager = {};     // why some batches ran eagerly in spite of `compile`
};

/// Options of evaluate.
struct EvaluationOptions {
  std::optional<Dtype> autocast = {};  // as StepOptions'
  Ranks ranks = {};                    // the loader gives each rank its share
  /// The loss function is traced for each shape of a batch, and runs as a graph. With kFull and
  /// `freeze` the graph has frozen parameters, and batch norms folded into convolutions: figures
  /// differ from eager ones by rounding. Else they have the same bits.
  std::optional<graph::CompileMode> compile = {};
  bool freeze = true;
  /// Called after each batch with the number of samples seen so far, by all ranks together.
  std::function<void(int64_t samples)> on_batch = {};
};

/// Runs `model` in evaluation mode over one epoch of `loader`, without gradients. `loss` is called
/// with each batch. All ranks get the same result. Error if there is no sample.
Evaluation evaluate(nn::Module& model, data::Prefetcher& loader, const LossFunction& loss,
                    const EvaluationOptions& options = {});

/// How many of the targets are the likeliest class, as a tensor of one int64. logits: [N, classes].
/// target: class indices [N], or probabilities [N, classes], of which the largest counts.
Tensor count_correct(const Tensor& logits, const Tensor& target);

/// Why an epoch of `loader` had no sample.
std::string no_samples(const data::Prefetcher& loader);

}  // namespace wick::train
