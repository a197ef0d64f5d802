#include "wick/train/lr_finder.h"

#include <algorithm>
#include <cmath>

namespace wick::train {

namespace {

void check(const LrFinderOptions& o) {
  WICK_CHECK(std::isfinite(o.end_lr) && o.start_lr > 0 && o.start_lr < o.end_lr,
             "find_lr: wrong range of rates: got ", o.start_lr, " to ", o.end_lr,
             ", expected 0 < start_lr < end_lr");
  WICK_CHECK(o.num_iter >= 2, "find_lr: too few steps: got ", o.num_iter, ", expected 2 or more");
  WICK_CHECK(o.smoothing >= 0 && o.smoothing < 1, "find_lr: smoothing out of range: got ",
             o.smoothing, ", expected 0 to less than 1");
  WICK_CHECK(o.divergence > 1, "find_lr: divergence out of range: got ", o.divergence,
             ", expected more than 1");
  WICK_CHECK(static_cast<int64_t>(o.done.size()) <= o.num_iter, "find_lr: got ", o.done.size(),
             " points of before, expected at most the ", o.num_iter, " of num_iter");
  WICK_CHECK(o.skip_start >= 0 && o.skip_end >= 0, "find_lr: skips must not be negative: got ",
             o.skip_start, " and ", o.skip_end);
}

double rate(const LrFinderOptions& o, int64_t step) {
  const double share = static_cast<double>(step) / static_cast<double>(o.num_iter - 1);
  if (o.exponential) return o.start_lr * std::pow(o.end_lr / o.start_lr, share);
  return o.start_lr + share * (o.end_lr - o.start_lr);
}

std::optional<double> steepest_descent(const std::vector<LrFinderPoint>& points,
                                       const LrFinderOptions& o) {
  const auto end = static_cast<int64_t>(points.size()) - o.skip_end;
  if (end - o.skip_start < 2) return {};
  const auto loss = [&](int64_t i) { return points[static_cast<size_t>(i)].smoothed; };
  std::optional<double> best_rate;
  double best_slope = 0;
  for (int64_t i = o.skip_start; i < end; ++i) {
    const int64_t before = std::max(i - 1, o.skip_start), after = std::min(i + 1, end - 1);
    const double slope = (loss(after) - loss(before)) / static_cast<double>(after - before);
    if (!(slope < best_slope)) continue;
    best_slope = slope;
    best_rate = points[static_cast<size_t>(i)].lr;
  }
  return best_rate;
}

LrFinderResult run_test(optim::Optimizer& optimizer, const std::function<double()>& step,
                        const LrFinderOptions& options) {
  std::vector<double> ratios;
  for (int g = 0; g < optimizer.num_groups(); ++g) {
    ratios.push_back(optimizer.lr(0) > 0 ? optimizer.lr(g) / optimizer.lr(0) : 1);
  }
  LrFinderResult result;
  result.points = options.done;
  double best = result.points.empty() ? 0 : result.points[0].smoothed;
  for (const LrFinderPoint& point : result.points) best = std::min(best, point.smoothed);
  const auto has_diverged = [&] {
    return best > 0 && result.points.back().smoothed > options.divergence * best;
  };
  result.diverged = !result.points.empty() && has_diverged();
  const auto begin = static_cast<int64_t>(result.points.size());
  for (int64_t i = begin; i < options.num_iter && !result.diverged; ++i) {
    LrFinderPoint point;
    point.lr = rate(options, i);
    for (int g = 0; g < optimizer.num_groups(); ++g) {
      optimizer.set_hyperparameter(g, "lr", point.lr * ratios[static_cast<size_t>(g)]);
    }
    point.loss = point.smoothed = step();
    result.diverged = !std::isfinite(point.loss);
    if (result.diverged) break;
    if (i > 0 && options.smoothing > 0) {
      point.smoothed =
          options.smoothing * point.loss + (1 - options.smoothing) * result.points.back().smoothed;
    }
    best = i == 0 ? point.smoothed : std::min(best, point.smoothed);
    result.points.push_back(point);
    result.diverged = has_diverged();
    if (options.on_point) options.on_point(result.points);
  }
  result.suggestion = steepest_descent(result.points, options);
  return result;
}

}  // namespace

LrFinderResult find_lr(nn::Module& model, optim::Optimizer& optimizer,
                       const std::function<double()>& step, const LrFinderOptions& options,
                       const TrainingParts& parts) {
  check(options);
  const TrainingSnapshot snapshot(model, optimizer, parts);
  return snapshot.around([&] { return run_test(optimizer, step, options); });
}

}  // namespace wick::train
