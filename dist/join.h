#pragma once

#include <functional>

#include "wick/dist/data_parallel.h"

namespace wick::dist {

/// Options of join, by the names of PyTorch's Join.
struct JoinOptions {
  /// Averages are over all ranks, those that have run out counting as zero; else over the others.
  bool divide_by_initial_world_size = true;
  /// As soon as a rank has run out while others have not, all throw Error.
  bool throw_on_early_termination = false;
};

/// Trains on inputs of which ranks have different numbers, as PyTorch's Join does. All ranks call
/// it.
///
/// `train` goes through this rank's own inputs: forward, backward, `step`. Then, until the last
/// rank is through, this one takes part in the others' passes with gradients of zero, and calls
/// `step` after each. `step` is what follows a backward: the optimizer's step and what goes with
/// it. So all ranks end with the same weights and optimizer states; buffers are those of the first
/// rank that was in the last pass.
///
///   const auto step = [&] { optimizer.step(); optimizer.zero_grad(); };
///   dist::join(model, [&] {
///     for (const auto& [x, y] : my_part) { cross_entropy(model(x), y).backward(); step(); }
///   }, step);
///
/// Error if batch norms of the model are synchronised, unless `throw_on_early_termination` is set:
/// a rank without a batch has no statistics to give. Passes within NoSync are the rank's own; what
/// they gathered before a rank ran out is lost. A GradScaler knows its device from the first
/// scale(): let a rank that may have no input at all scale some tensor before.
void join(DistributedDataParallel& model, const std::function<void()>& train,
          const std::function<void()>& step, const JoinOptions& options = {});

}  // namespace wick::dist
