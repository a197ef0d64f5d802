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
constexpr double kProfiledSeconds = 0.1;
constexpr int64_t kMostProfiledSteps = 20;
constexpr int kFewestPairs = 4;  // of one pair of processes: two make 8, or 96 %

// The medians over processes, and the most memory.
SideFigures joined(const std::vector<SideFigures>& sides) {
  const auto middle = [&](double SideFigures::*member) {
    std::vector<double> values;
    for (const SideFigures& side : sides) values.push_back(side.*member);
    return median(values);
  };
  SideFigures all = {.step_seconds = middle(&SideFigures::step_seconds),
                     .images_per_second = middle(&SideFigures::images_per_second),
                     .wait_share = middle(&SideFigures::wait_share)};
  for (const SideFigures& side : sides) all.peak_bytes = std::max(all.peak_bytes, side.peak_bytes);
  return all;
}

}  // namespace

Side::Side(const Settings& settings) : settings_(settings), worker_(settings) {}

double Side::run(int64_t steps) {
  if (interrupted) throw Interrupted();
  const nlohmann::json answer = worker_.ask("run " + std::to_string(steps));
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

Shares Side::shares() {
  const int64_t steps = std::min(steps_for(kProfiledSeconds), kMostProfiledSteps);
  return worker_.ask("bounds " + std::to_string(steps)).at("shares").get<Shares>();
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

bool is_same(const Comparison& comparison) {
  const Interval& speed = comparison.speed;
  return speed.confidence >= kLeastConfidence && std::fabs(speed.middle - 1) <= kWorthSaying &&
         speed.low > 1 - 2 * kWorthSaying && speed.high < 1 + 2 * kWorthSaying;
}

bool is_shown(const Comparison& comparison) {
  const Interval& speed = comparison.speed;
  return comparison.processes >= 2 && speed.confidence >= kLeastConfidence &&
         std::fabs(speed.middle - 1) > kWorthSaying && (speed.low > 1 || speed.high < 1);
}

void Duel::run(Side& off, Side& on) {
  off.warm_up(effort_.seconds);
  on.warm_up(effort_.seconds);
  const int64_t off_steps = off.steps_for(effort_.slice_seconds);
  const int64_t on_steps = on.steps_for(effort_.slice_seconds);
  off.forget();
  on.forget();
  // Batches of both sides may differ in size: what counts is images per second.
  const double images =
      static_cast<double>(on.settings().batch) / static_cast<double>(off.settings().batch);
  std::vector<double> ratios;
  const auto begin = Clock::now();
  for (int pairs = 1; pairs <= effort_.max_pairs; ++pairs) {
    double a = 0, b = 0;
    if (pairs % 2 == 1) {  // so that a drift of the machine favours neither
      a = off.run(off_steps);
      b = on.run(on_steps);
    } else {
      b = on.run(on_steps);
      a = off.run(off_steps);
    }
    ratios.push_back(images * a / b);
    const Interval speed = sequential_median_interval(ratios, kConfidence);
    const bool tight = speed.high - speed.middle < effort_.tight_enough * speed.middle &&
                       speed.middle - speed.low < effort_.tight_enough * speed.middle;
    if (pairs >= effort_.min_pairs && (tight || since(begin) > effort_.seconds)) break;
    if (pairs >= kFewestPairs && since(begin) > 3 * effort_.seconds) break;
  }
  off_.push_back(off.figures());
  on_.push_back(on.figures());
  ratios_.insert(ratios_.end(), ratios.begin(), ratios.end());
  result_ = {.off = joined(off_),
             .on = joined(on_),
             .speed = sequential_median_interval(ratios_, kConfidence),
             .pairs = static_cast<int>(ratios_.size()),
             .processes = static_cast<int>(on_.size()),
             .off_shares = result_.off_shares,
             .on_shares = result_.on_shares};
  if (on_.size() == 1) {
    result_.off_shares = off.shares();
    result_.on_shares = on.shares();
  }
  if (result_.on.peak_bytes > 0) result_.memory = result_.off.peak_bytes / result_.on.peak_bytes;
}

bool Duel::is_open() const {
  if (result_.processes < effort_.processes) return !is_same(result_);
  const bool seems = std::fabs(result_.speed.middle - 1) > kWorthSaying;
  return result_.processes < effort_.most_processes && seems && !is_shown(result_);
}

Comparison compare(const Settings& off, const Settings& on, const Effort& effort) {
  Duel duel(effort);
  while (duel.is_open()) {
    Side off_side(off), on_side(on);
    duel.run(off_side, on_side);
  }
  return duel.result();
}

}  // namespace wick::study
