#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "wick/core/amp.h"
#include "wick/core/cuda_graph.h"
#include "wick/core/graph/compile.h"
#include "wick/core/options.h"
#include "wick/data/loader.h"
#include "wick/dist/data_parallel.h"
#include "wick/optim/optim.h"

namespace wick::train {

/// Figures beside the loss, by name: the sum over a batch's samples of each, a tensor of rank 0 and
/// of any dtype ("accuracy": how many answers are right). Wick divides by the number of samples.
using Sums = std::vector<std::pair<std::string, Tensor>>;

/// What a forward pass makes of a batch.
struct BatchLoss {
  Tensor loss;  // the mean over the batch's samples, of rank 0
  Sums sums = {};
};

/// The forward pass of a model that the function knows, and the loss: called under autocast, with
/// a batch or a piece of it, on the model's device.
using LossFunction = std::function<BatchLoss(const data::Batch& batch)>;

/// How a step computes, and what follows its update.
struct StepOptions {
  /// kBFloat16 or kFloat16: forward passes run under autocast. With kFloat16 the loss is scaled,
  /// and steps whose gradients are not finite are skipped (Micikevicius et al. 2018,
  /// arXiv 1710.03740).
  std::optional<Dtype> autocast = {};
  /// The norm that gradients are clipped to (Pascanu et al. 2013, arXiv 1211.5063).
  std::optional<double> clip_norm = {};
  /// The most that an element of a gradient is, in either direction, before the norm is clipped.
  std::optional<double> clip_value = {};
  /// With kFloat16, more steps skipped in a row than these end the run; 0: any number.
  int64_t max_skips = 40;
  /// A run goes on with weights that are infinite or NaN. If not, each update looks for them.
  bool allow_non_finite = false;
  /// Pieces that a batch is cut into. The gradients are those of the whole batch, and the
  /// activations of one piece need memory at a time.
  int64_t accumulate = 1;
  /// Decay of averages of parameters and floating buffers. Evaluations and saved weights use them.
  std::optional<double> ema = {};
  /// Activations wait for backward in pinned host memory. Error on the CPU.
  bool offload_activations = false;
  /// The step is captured once and replayed; with `compile`, what is captured is a run of the
  /// graph. Error on the CPU, and with several ranks.
  bool cuda_graph = false;
  /// "fuse" or "full": from the second step on a step is traced and runs as a graph
  /// (graph::CompileMode, docs/graphs.md), and a Trainer's evaluations run as graphs too; "off": it
  /// runs as it is. Error with offload_activations.
  std::string compile = "off";
};

/// What a word of `compile` asks for; none for "off". InvalidOption for a word that is none.
std::optional<graph::CompileMode> compile_mode(const std::string& word);

/// All but `autocast`, which is a part of ArithmeticOptions.
OptionFields fields(StepOptions& options);
/// InvalidOption unless each value is in its range.
void check(const StepOptions& options);

/// One training step: forward and backward in pieces, under autocast, of a scaled loss; then the
/// optimizer's update, the averages and the scale.
class Step {
 public:
  /// All tensors of `model` are on one device. `optimizer` must outlive the step.
  Step(std::shared_ptr<nn::Module> model, optim::Optimizer& optimizer, LossFunction loss,
       const StepOptions& options = {});
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  /// Of a batch, on the device and detached.
  struct Result {
    Tensor loss;
    Sums sums;
    // Of a whole step:
    Tensor skipped = {};     // not 0 if it was skipped; undefined if none ever is
    Tensor grad_norm = {};   // before gradients were clipped to it; undefined without clip_norm
    Tensor non_finite = {};  // 1 if a weight is not finite; undefined with allow_non_finite
  };

  /// Forward and backward. `parallel` wraps the model where ranks share it.
  Result backpropagate(const data::Batch& batch, dist::DistributedDataParallel* parallel = nullptr);
  /// A whole step.
  Result take(const data::Batch& batch, dist::DistributedDataParallel* parallel = nullptr);
  /// The same, as a graph where `compile` asks for it, and replayed where `cuda_graph` does and the
  /// batch has the first one's shapes.
  Result take_or_replay(const data::Batch& batch,
                        dist::DistributedDataParallel* parallel = nullptr);
  /// Why some steps run eagerly in spite of `compile`; empty otherwise.
  std::string why_eager() const { return compiled_ ? compiled_->why_eager() : std::string(); }

  /// The device of the model.
  Device device() const { return device_; }
  /// What it was made with.
  const StepOptions& options() const { return options_; }
  /// The scaler of losses; disabled unless `autocast` is kFloat16.
  amp::GradScaler& scaler() { return scaler_; }
  /// Null without `ema`.
  optim::Ema* ema() { return ema_.get(); }

 private:
  BatchLoss forward(const data::Batch& batch, dist::DistributedDataParallel* parallel);

  StepOptions options_;
  std::shared_ptr<nn::Module> model_;
  optim::Optimizer& optimizer_;
  LossFunction loss_;
  Device device_;
  amp::GradScaler scaler_;
  optim::Rollback rollback_;  // of buffers, where steps may be skipped
  std::unique_ptr<optim::Ema> ema_;
  std::vector<Tensor> values_of(const Result& result);
  Result result_of(const std::vector<Tensor>& values) const;

  std::optional<CapturedFunction> captured_;                // take()
  std::optional<graph::CompiledFunction> compiled_;         // take()
  std::optional<dist::DistributedDataParallel*> parallel_;  // of compiled steps
  std::vector<std::string> sum_names_;                      // of what these return
};

/// The device of the model's tensors; the CPU for a model without any. Error if there are several.
Device device_of(const nn::Module& model);

/// The defined buffers of `model`.
std::vector<Tensor> buffers_of(const nn::Module& model);

/// The autocast that `dtype` asks for; with none, autocast is off.
amp::Autocast make_autocast(std::optional<Dtype> dtype, Device device);

}  // namespace wick::train
