#pragma once

#include <functional>
#include <span>
#include <vector>

#include "wick/core/random.h"
#include "wick/core/ref.h"
#include "wick/core/saved_tensor_hooks.h"

// What activation checkpointing (nn/activation_checkpoint.h) is made of.
namespace wick {

/// How a RecomputeScope runs its function the second time.
struct RecomputeOptions {
  /// Draw the same random numbers again, whichever generators they came from. Without it draws need
  /// not be kept, and dropout drops other elements than in forward.
  bool preserve_rng_state = true;
  /// Check that the recomputed tensors have the shape, dtype and device of the first ones.
  bool determinism_check = true;
  /// End the second run as soon as all that backward needs is there.
  bool early_stop = true;
};

/// Whether this thread runs a region again for backward: what was counted once (a batch norm's
/// running statistics, say) must not be counted twice.
bool is_recomputing();

class RecomputeRegion;

/// While it lives, ops of this thread keep nothing for backward but parameters. When backward first
/// needs one of the other tensors, `function` runs again with `inputs`, with the random numbers
/// drawn while this lived and under the autocast that is on now. `function` must do what is done
/// while this lives. What it makes is freed as backward goes on.
///
/// Regions may be nested; the region around one then recomputes its inputs. Backward within the
/// region is an error.
class RecomputeScope {
 public:
  using Function = std::function<void(std::span<const Tensor> inputs)>;
  /// `function` must hold nothing of what the region makes, nor its inputs.
  RecomputeScope(Function function, std::span<const Tensor> inputs,
                 const RecomputeOptions& options = {});
  ~RecomputeScope();
  RecomputeScope(const RecomputeScope&) = delete;
  RecomputeScope& operator=(const RecomputeScope&) = delete;

 private:
  Ref<RecomputeRegion> region_;
  SavedTensorScope scope_;
  DrawLog::Recording draws_;
};

}  // namespace wick
