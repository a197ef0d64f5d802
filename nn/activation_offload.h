#pragma once

#include <memory>

#include "wick/core/saved_tensor_hooks.h"

namespace wick::nn {

/// Options of OffloadActivations, whose constructor throws if one is negative.
struct OffloadOptions {
  /// Smaller tensors stay on the GPU, in bytes: a copy of them costs more than their room is worth.
  int64_t min_bytes = int64_t{1} << 20;
  /// How many tensors backward has brought back ahead of the one it is at.
  int64_t prefetch = 2;
};

/// While it lives, what ops of this thread keep for backward on a GPU moves to pinned host memory,
/// on a stream of its own while forward goes on. It comes back while backward goes on: memory of
/// the GPU for traffic on the bus (Rhu et al. 2016, vDNN, arXiv 1602.08124). PyTorch's
/// `saved_tensors_hooks` with `save_on_cpu(pin_memory=True)` does neither ahead nor aside.
///
/// Gradients have the same bits. Parameters, tensors on the CPU and tensors that overlap themselves
/// or have gaps stay where they are. Around checkpoint() it moves the inputs of what is recomputed.
/// Backward may come when it is gone.
///
/// An op that changes a kept tensor in place waits for its copy, and backward sees what was kept.
/// Forward and backward are of one thread and one stream of each GPU.
class OffloadActivations {
 public:
  explicit OffloadActivations(const OffloadOptions& options = {});
  ~OffloadActivations();
  OffloadActivations(const OffloadActivations&) = delete;
  OffloadActivations& operator=(const OffloadActivations&) = delete;

  /// Bytes moved to the host so far.
  int64_t offloaded_bytes() const;

 private:
  class Hooks;
  std::shared_ptr<Hooks> hooks_;
  SavedTensorScope scope_;
};

}  // namespace wick::nn
