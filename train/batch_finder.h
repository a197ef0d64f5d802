#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "wick/core/base/device.h"
#include "wick/nn/module.h"
#include "wick/train/training_snapshot.h"

namespace wick::train {

/// What training with one size of batch showed.
struct BatchTrial {
  int64_t batch = 0;
  bool fits = false;
  double samples_per_second = 0;  // of the last step; 0 if it does not fit
  int64_t peak_bytes = 0;         // held by tensors at most
};

/// Options of find_batch_size.
struct BatchFinderOptions {
  int64_t start = 2;       // the first batch tried; then it is doubled
  int64_t most = 1 << 20;  // the largest batch tried
  int steps = 2;           // whole optimizer steps of a trial, 2 or more
  int64_t trials = 25;     // at most
  double seconds = 0;      // begin no trial after so many; 0: no such limit
  int64_t memory = 0;      // bytes that tensors of the device may take; 0: all it has
  /// Trials of an interrupted search. They are not repeated.
  std::vector<BatchTrial> done = {};
  /// Called after each trial that runs. Null: not called.
  std::function<void(const BatchTrial& trial)> on_trial = {};
};

/// What find_batch_size found. Batches are in samples.
struct BatchFinderResult {
  std::vector<BatchTrial> trials;  // in the order of their batches
  int64_t largest = 0;             // that fits; 0 if none does
  int64_t fastest = 0;             // of those that fit, the one with most samples per second
  /// Whether `largest` + 1 does not fit (or `largest` is `most`): not so if trials or seconds ran
  /// out.
  bool exact = false;
};

/// Finds the largest batch that trains for `steps` whole optimizer steps, by doubling and
/// bisection, and how fast each one tried is. `step(batch)` takes one step on so many samples. What
/// it throws as OutOfMemory (or std::bad_alloc) is caught and the cache freed. The second step
/// counts: the optimizer's state and the convolutions' workspaces are only made in the first.
///
/// At the end, after an error too, the model, optimizer, random states, what `parts` names and the
/// device's memory limit are restored. Gradients are forgotten. Error for options out of range.
BatchFinderResult find_batch_size(nn::Module& model, optim::Optimizer& optimizer, Device device,
                                  const std::function<void(int64_t batch)>& step,
                                  const BatchFinderOptions& options = {},
                                  const TrainingParts& parts = {});

/// How noisy gradients are.
struct NoiseScale {
  double noise = 0;   // the trace of the covariance of one sample's gradient
  double signal = 0;  // the squared norm of the true gradient; can come out at 0 or below
  /// Batches much smaller than this waste steps, much larger ones samples; none if the signal is
  /// lost in noise: take more batches.
  std::optional<double> batch;
};

/// The simple noise scale of McCandlish et al. 2018 (arXiv 1812.06162, appendix A.1), from the
/// gradients of `batches` (2 or more) batches of `batch_size` samples. `backward` goes forward and
/// backward through the next one, its loss being a mean over samples. The parameters stay as they
/// are; buffers and random states that `backward` changes are the caller's. Gradients are
/// forgotten.
NoiseScale gradient_noise_scale(nn::Module& model, int64_t batch_size, int64_t batches,
                                const std::function<void()>& backward);

/// The rate for another batch that keeps the mean step of SGD: lr * to / from (Goyal et al. 2017,
/// arXiv 1706.02677).
double scale_lr_linear(double lr, int64_t from_batch, int64_t to_batch);
/// The rate that keeps the variance of steps, and suits Adam: lr * sqrt(to / from) (Krizhevsky
/// 2014, arXiv 1404.5997).
double scale_lr_sqrt(double lr, int64_t from_batch, int64_t to_batch);

}  // namespace wick::train
