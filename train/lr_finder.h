#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "wick/nn/module.h"
#include "wick/train/training_snapshot.h"

namespace wick::train {

/// One step of a range test. A step whose loss is not finite has none.
struct LrFinderPoint {
  double lr = 0;
  double loss = 0;      // of the step, before its update
  double smoothed = 0;  // what is judged
};

/// Options of find_lr. Rates are those of the first parameter group.
struct LrFinderOptions {
  double start_lr = 1e-7;
  double end_lr = 10;
  int64_t num_iter = 100;
  bool exponential = true;  // rates grow by a factor per step, else by a summand
  double smoothing = 0.05;  // weight of a step's loss in the running one; 0: none
  double divergence = 5;    // stop once the running loss is this many times a best above 0
  int64_t skip_start = 10;  // steps at the start and end that the suggestion leaves out
  int64_t skip_end = 5;
  /// The points of a test that was interrupted. The test goes on behind them: model, optimizer and
  /// what `step` takes are as the last one left them, but for the rates.
  std::vector<LrFinderPoint> done = {};
  /// Called with all points so far, behind each step. Null: not.
  std::function<void(const std::vector<LrFinderPoint>& points)> on_point = {};
};

/// What find_lr found.
struct LrFinderResult {
  std::vector<LrFinderPoint> points;
  bool diverged = false;
  /// The rate at which the smoothed loss falls fastest from step to step; none if too few points
  /// are left or it never falls.
  std::optional<double> suggestion;
};

/// The learning rate range test (Smith 2015, arXiv 1506.01186, section 3.3). It trains with rates
/// from `start_lr` to `end_lr` until the loss diverges or is not finite. `step` takes one whole
/// optimizer step, accumulation and mixed precision included, and returns its loss. Groups keep the
/// ratio of their rates.
///
/// At the end, after an error too, the model, optimizer, random states and what `parts` names are
/// restored. Gradients are forgotten. Error for options out of range.
LrFinderResult find_lr(nn::Module& model, optim::Optimizer& optimizer,
                       const std::function<double()>& step, const LrFinderOptions& options = {},
                       const TrainingParts& parts = {});

}  // namespace wick::train
