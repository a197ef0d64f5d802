#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "wick/core/base/device.h"
#include "wick/nn/module.h"

// Chooses which parts of a network to checkpoint (nn/activation_checkpoint.h) so that a training
// step fits into a given memory, at the least cost in time.
namespace wick::nn {

/// What one child of a Sequential did in a trial step. Sizes are in bytes.
struct ActivationUnit {
  Sequential* parent = nullptr;
  int64_t child = 0;
  int64_t between = 0;     // kept by layers between the unit before and this one
  int64_t kept = 0;        // from forward until backward if it is not recomputed, output included
  int64_t output = 0;      // of the output alone: all that is kept if it is
  int64_t recomputed = 0;  // held in its backward after it was recomputed
  int64_t working = 0;     // held by its backward beside that, at most
  double seconds = 0;      // of its forward
};

/// What a trial step found. Sizes are in bytes, beyond what is held when a step begins.
struct ActivationProfile {
  std::vector<ActivationUnit> units;  // in the order of their calls
  int64_t working = 0;                // held beside what units keep until backward reaches them
  int64_t peak = 0;                   // the most the whole step held
  double seconds = 0;                 // of the whole step
};

/// Children of a Sequential to run as one checkpoint.
struct CheckpointedRange {
  Sequential* parent = nullptr;
  ChildRange range;
};

/// Which children to checkpoint, in the order of their calls, and what a step should then take.
struct ActivationPlan {
  std::vector<CheckpointedRange> ranges;
  int64_t peak = 0;    // bytes that a step should hold at most, beyond what it begins with
  double seconds = 0;  // of forward to run again
};

/// Runs `step` (forward, loss and backward of `model` on `device`, the parameters' gradients kept)
/// a few times and measures each child of the model's outermost Sequentials. Nothing is
/// checkpointed meanwhile. Resets the device's peak memory statistics. Error if there are no such
/// children, one is called twice in a step, or another number of them in another step.
ActivationProfile profile_activations(Module& model, Device device,
                                      const std::function<void()>& step);

/// The plan with the least forward to run again whose peak is within `budget` bytes; none if there
/// is none. Exact but for rounding sizes up by a part in 4096 of the budget: a shortest path over
/// units and bytes kept.
std::optional<ActivationPlan> plan_activations(const ActivationProfile& profile, int64_t budget);

/// The least budget, in bytes, that has a plan.
int64_t smallest_activation_budget(const ActivationProfile& profile);

/// Checkpoints what the plan says and nothing else.
void apply_activation_plan(Module& model, const ActivationPlan& plan);

/// Checkpoints every child of the model's outermost Sequentials. Error if there are none.
void checkpoint_every_child(Module& model);

/// What fit_activations chose, and what a step held and took with it and without.
struct ActivationFit {
  ActivationPlan plan;
  int64_t units = 0;       // children that could be recomputed
  int64_t recomputed = 0;  // children that are
  int64_t peak = 0, plain_peak = 0;
  double seconds = 0, plain_seconds = 0;
};

/// Profiles, plans, applies and measures the plan until a step holds at most `budget` bytes beyond
/// what it begins with. `step` is run some ten times. Buffers and random states are restored after
/// it, gradients cleared. Error that names the smallest budget if this one is too small; after any
/// error the model is checkpointed as before.
ActivationFit fit_activations(Module& model, Device device, int64_t budget,
                              const std::function<void()>& step);

}  // namespace wick::nn
