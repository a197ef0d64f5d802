#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "wick/core/base/device.h"
#include "wick/nn/module.h"

namespace wick::nn {

/// What would help a step of `batch` samples for which there was no memory.
struct MemoryAdvice {
  /// The most samples, below `batch`, that a pass was seen to fit with; 0: not even one did;
  /// `batch` if by these measurements all would.
  int64_t samples = 0;
  /// Bytes that the pass would hold less with checkpoint_every_child (nn/activation_plan.h); 0 if
  /// none, or if parts of the model are checkpointed already.
  int64_t saved_by_recomputation = 0;
};

/// Measures what would help after OutOfMemory on `device`, within its allocator's memory limit.
/// `pass(n)` goes forward and backward through `n` samples, of noise, say: it is called for 2 and 6
/// (or batch - 1, if that is less), and for numbers that may fit. None if there is no memory for a
/// copy of the model's buffers. Gradients and the cache are dropped; buffers and random states are
/// as before.
std::optional<MemoryAdvice> advise_on_memory(Module& model, Device device, int64_t batch,
                                             const std::function<void(int64_t samples)>& pass);

}  // namespace wick::nn
