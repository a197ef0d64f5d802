#include "wick/tools/study/compare.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace wick::study {

std::atomic<bool> interrupted{false};

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

constexpr int64_t kMostSteps = 100000;
constexpr int kFewestPairs = 6;  // whose interval has a confidence of 97 %

}  // namespace

Side::Side(const Settings& settings) : settings_(settings), child_(settings) {}

double Side::run(int64_t steps) {
  if (interrupted) throw Interrupted();
  const nlohmann::json answer = child_.ask("run " + std::to_string(steps));
  const double seconds = answer.at("seconds").get<double>();
  steps_ = steps;
  step_seconds_ = std::max(1e-9, seconds / static_cast<double>(steps));
  seconds_.push_back(step_seconds_);
  waits_.push_back(answer.at("wait_seconds").get<double>() / std::max(1e-9, seconds));
  peaks_.push_back(answer.at("peak_bytes").get<double>());
  return step_seconds_;
}

int64_t Side::steps_for(double seconds) const {
  const double steps = std::ceil(seconds / step_seconds_);
  return std::clamp<int64_t>(static_cast<int64_t>(steps), 1, std::min(4 * steps_, kMostSteps));
}

void Side::warm_up(double most_seconds) {
  const auto begin = Clock::now();
  double before = run(1);
  for (int i = 0; i < 10; ++i) {
    const double now = run(steps_for(0.02));
    if (i > 0 && std::fabs(now / before - 1) < 0.1) break;
    if (since(begin) > most_seconds) break;
    before = now;
  }
}

void Side::forget() {
  seconds_.clear();
  waits_.clear();
  peaks_.clear();
}

SideFigures Side::figures() const {
  SideFigures figures;
  figures.step_seconds = median(seconds_);
  figures.images_per_second =
      figures.step_seconds > 0 ? static_cast<double>(settings_.batch) / figures.step_seconds : 0;
  figures.wait_share = median(waits_);
  figures.peak_bytes = peaks_.empty() ? 0 : *std::max_element(peaks_.begin(), peaks_.end());
  return figures;
}

Comparison compare(Side& off, Side& on, const Effort& effort) {
  off.warm_up(effort.seconds);
  on.warm_up(effort.seconds);
  const int64_t off_steps = off.steps_for(effort.slice_seconds);
  const int64_t on_steps = on.steps_for(effort.slice_seconds);
  off.forget();
  on.forget();
  // Batches of both sides may differ in size: what counts is images per second.
  const double images =
      static_cast<double>(on.settings().batch) / static_cast<double>(off.settings().batch);
  Comparison result;
  std::vector<double> ratios;
  const auto begin = Clock::now();
  while (result.pairs < effort.max_pairs) {
    double a = 0, b = 0;
    if (result.pairs % 2 == 0) {  // so that a drift of the machine favours neither
      a = off.run(off_steps);
      b = on.run(on_steps);
    } else {
      b = on.run(on_steps);
      a = off.run(off_steps);
    }
    ratios.push_back(images * a / b);
    ++result.pairs;
    result.speed = median_interval(ratios);
    const Interval& speed = result.speed;
    const bool tight = speed.high - speed.middle < effort.tight_enough * speed.middle &&
                       speed.middle - speed.low < effort.tight_enough * speed.middle;
    if (result.pairs >= effort.min_pairs && (tight || since(begin) > effort.seconds)) break;
    if (result.pairs >= kFewestPairs && since(begin) > 3 * effort.seconds) break;
  }
  result.off = off.figures();
  result.on = on.figures();
  if (result.on.peak_bytes > 0) result.memory = result.off.peak_bytes / result.on.peak_bytes;
  return result;
}

}  // namespace wick::study
