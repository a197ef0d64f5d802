#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "wick/core/cuda_graph.h"
#include "wick/data/batch_mix.h"
#include "wick/dist/data_parallel.h"
#include "wick/nn/activation_plan.h"
#include "wick/tools/wick/setup.h"

namespace wick::tool {

/// What a run does with each batch, as its flags say: forward and backward, in pieces, under
/// autocast, of mixed images, with a scaled loss; then the optimizer's step and what follows it.
/// Or all of that by one call, replayed.
class TrainStep {
 public:
  /// `config` is resolved; `optimizer` must outlive it.
  TrainStep(const TrainConfig& config, const data::TrainTest& data, Device device,
            std::shared_ptr<nn::Module> model, optim::Optimizer& optimizer);
  TrainStep(const TrainStep&) = delete;
  TrainStep& operator=(const TrainStep&) = delete;

  struct Inputs {
    Tensor images, target;
  };
  /// Of a batch, on the device: its mean loss, and how many answers were right.
  struct Result {
    Tensor loss, correct;
    Tensor skipped = {};  // of a step: not 0 if it was skipped; undefined if none ever is
  };

  /// The `number`-th batch of `epoch`, mixed if it is to be.
  Inputs mixed(const data::Batch& batch, int64_t epoch, int64_t number);
  /// Forward and backward. `parallel`: the model as ranks share it, if they do.
  Result backpropagate(const Inputs& inputs, dist::DistributedDataParallel* parallel = nullptr);
  /// All of a step, which updates weights, averages and scale.
  Result take(const Inputs& inputs, dist::DistributedDataParallel* parallel = nullptr);
  /// The same, replayed where --cuda-graph asks for that and the batch is like the first.
  Result take_or_replay(const Inputs& inputs, dist::DistributedDataParallel* parallel = nullptr);

  amp::GradScaler& scaler() { return scaler_; }
  /// Null without --ema.
  optim::Ema* ema() { return ema_.get(); }

 private:
  TrainConfig config_;
  Device device_;
  std::shared_ptr<nn::Module> model_;
  optim::Optimizer& optimizer_;
  data::BatchMix mix_;
  amp::GradScaler scaler_;
  optim::Rollback rollback_;  // running statistics, where steps may be skipped
  std::unique_ptr<optim::Ema> ema_;
  std::optional<CapturedFunction> captured_;  // take()
};

/// How often the likeliest class is the target, of targets that are probabilities the likeliest.
Tensor count_correct(const Tensor& logits, const Tensor& target);

/// The buffers that the model has.
std::vector<Tensor> buffers_of(const nn::Module& model);

/// Of a batch that is shared by `ranks`, the most images that a rank takes at a time.
int64_t largest_piece(const TrainConfig& config, int64_t ranks = 1);

/// Forward and backward of `count` images of noise, each of the shape `image`, as a run goes
/// through a piece of a batch: to see what that needs.
void pass_noise(const TrainConfig& config, nn::Module& model, const Shape& image, Device device,
                int64_t count);

/// Does what --checkpoint-activations asks for, where the batch is shared by `ranks`; returns what
/// was found if that is a budget. Error if no choice keeps to it.
std::optional<nn::ActivationFit> checkpoint_activations(const TrainConfig& config,
                                                        nn::Module& model, const Shape& image,
                                                        Device device, int64_t ranks = 1);

}  // namespace wick::tool
