#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "wick/core/tensor.h"

namespace wick {

/// The work of a training step, or of any other piece of a program, captured once and then queued
/// again and again by one call each (a CUDA graph). So a GPU need not wait for a host that queues
/// kernel by kernel.
///
///   for (int i = 0; i < 3; ++i) step();                    // kernels, plans and state are made
///   CudaGraph graph(device, [&] { loss = step(); });       // captured: nothing runs
///   while (...) {
///     x.copy_(next_x); y.copy_(next_y);                    // what step() reads
///     graph.replay();                                      // `loss` now holds this step's
///   }
///
/// A replay gives the bits that the same calls would give. Dropout and all else that draws from the
/// device's default generator draws on from where that generator is at the replay.
///
/// A replay reads and writes the memory that the captured calls did. Inputs are copied into the
/// same tensors. Results (gradients too) are in the tensors that the capture made, until the next
/// replay overwrites them. Whatever else it used must stay where it is and alive: parameters,
/// optimizer state, running statistics.
///
/// Numbers of the host stay as captured (of an optimizer's, but for Optimizer::make_capturable),
/// and so do shapes. What the calls count on the host they count once. Autograd does not see that a
/// replay changes tensors: differentiate what was recorded before a replay before that replay.
///
/// The captured work must not wait for the GPU, copy from or to another device, draw from a
/// generator of its own, or exchange tensors between ranks. Nor must it make state that each replay
/// would make once more. These are errors. After one the GPU's memory and its generator are as
/// before. Gradients are not (zero_grad() forgets them), nor what was counted on the host.
///
/// Memory that the work takes is kept for the graph's life; cached memory is freed before.
class CudaGraph {
 public:
  /// Captures what `work` queues from this thread on a stream of its own, `device`'s current one
  /// meanwhile. Error on the CPU, whose work runs as it is called, and within another capture.
  CudaGraph(Device device, const std::function<void()>& work);
  ~CudaGraph();
  CudaGraph(CudaGraph&&) noexcept;
  CudaGraph& operator=(CudaGraph&&) noexcept;

  /// Queues all of it behind the work of the current stream. Replays of one graph must not overlap:
  /// those of different streams are to be ordered by events.
  void replay();
  /// The kernels, copies and fills of one replay.
  int64_t num_nodes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A function of tensors that is captured once it has been called a few times, and replayed from
/// then on: the calls of a training step, without care for where its batches lie.
class CapturedFunction {
 public:
  /// Inputs and results may be undefined.
  using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;
  /// What a call with these inputs would do, for instance graph::CompiledFunction::identity().
  using Identity = std::function<std::vector<uint64_t>(const std::vector<Tensor>& inputs)>;

  /// The first `warm_ups` calls of a kind run as they are. Error on the CPU, or without any.
  /// With `identity`, a call is captured once that is not empty, and replayed while it is the same.
  /// Other calls of the kind run the function on copies of the inputs.
  explicit CapturedFunction(Device device, Function function, int64_t warm_ups = 3,
                            Identity identity = {});

  /// Calls the function, or copies the inputs and replays it. Captured are calls with inputs of one
  /// kind, in shapes and dtypes: the first call's, or those of a later one with more elements; for
  /// others the function is called. The results of replays are the same tensors each time, which
  /// the next one overwrites. Errors: an input that requires a gradient, and those of CudaGraph.
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs);
  bool is_captured() const { return graph_.has_value(); }  // whether calls are replayed

 private:
  Device device_;
  Function function_;
  Identity identity_;
  int64_t warm_ups_, left_;
  std::vector<Tensor> inputs_;      // its own
  std::vector<uint64_t> captured_;  // the identity of what is replayed
  std::vector<Tensor> results_;
  std::optional<CudaGraph> graph_;
};

}  // namespace wick
