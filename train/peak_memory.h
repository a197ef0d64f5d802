#pragma once

#include <cstdint>
#include <functional>

#include "wick/core/base/device.h"
#include "wick/nn/module.h"
#include "wick/train/training_snapshot.h"

namespace wick::train {

/// What two smaller steps say of the peak of a larger one.
struct PeakPrediction {
  int64_t bytes = 0;          // that tensors hold at most
  int64_t few = 0, more = 0;  // samples of the steps that were measured
  /// Whether both sizes asked for the same blocks in the same order. Then each block is
  /// extrapolated; otherwise the two peaks are.
  bool by_block = false;
};

/// Predicts the most memory that steps of `batch` samples hold on `device`, before the first of
/// them. `step(n)` takes one whole optimizer step on n samples. Two smaller sizes, a half and
/// three quarters of `batch`, take two steps each. The second one counts, since the optimizer makes
/// its state in the first. Each block that a step asks for grows linearly with the samples, so the
/// steps' allocations and frees, extrapolated and replayed, have the peak.
///
/// At the end, after an error too, the model, optimizer, random states and what `parts` names are
/// restored. Gradients and the memory history of the device are forgotten. Error for a batch below
/// 1; OutOfMemory where even the smaller steps do not fit.
PeakPrediction predict_peak_memory(nn::Module& model, optim::Optimizer& optimizer, Device device,
                                   int64_t batch, const std::function<void(int64_t batch)>& step,
                                   const TrainingParts& parts = {});

}  // namespace wick::train
