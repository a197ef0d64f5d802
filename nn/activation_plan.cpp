#include "wick/nn/activation_plan.h"

#include <algorithm>
#include <limits>

namespace wick::nn {

namespace {

constexpr int64_t kSteps = 4096;  // sizes that a plan tells apart
constexpr double kNever = std::numeric_limits<double>::infinity();

bool follows(const ActivationUnit& a, const ActivationUnit& b) {
  return a.parent == b.parent && a.child + 1 == b.child && b.between == 0;
}

// The cheapest ways to have come through the first units with so many steps of bytes kept.
class Search {
 public:
  Search(const ActivationProfile& profile, int64_t budget)
      : units_(profile.units), budget_(budget), step_(std::max<int64_t>(1, budget / kSteps)) {
    partials_.assign(units_.size() + 1, std::vector<Partial>(kSteps + 2));
    partials_[0][0].seconds = 0;
    for (size_t i = 0; i < units_.size(); ++i) extend(i);
    finish(profile.working);
  }

  std::optional<ActivationPlan> plan() const {
    if (last_ < 0) return {};
    ActivationPlan plan;
    plan.seconds = partials_.back()[static_cast<size_t>(last_)].seconds;
    plan.peak = peak_;
    size_t i = units_.size();
    int64_t bytes = last_;
    while (i > 0) {
      const Partial& partial = partials_[i][static_cast<size_t>(bytes)];
      if (partial.checkpointed) {
        const ActivationUnit& first = units_[partial.from];
        plan.ranges.push_back(
            {first.parent, {first.child, first.child + static_cast<int64_t>(i - partial.from)}});
      }
      i = partial.from;
      bytes = partial.from_bytes;
    }
    std::reverse(plan.ranges.begin(), plan.ranges.end());
    return plan;
  }

 private:
  struct Partial {
    double seconds = kNever;
    int64_t peak = 0;
    size_t from = 0;         // the unit at which the last part began
    int64_t from_bytes = 0;  // what was kept there
    bool checkpointed = false;
  };

  int64_t steps(int64_t bytes) const { return (bytes + step_ - 1) / step_; }

  // Goes from unit `from` on to unit `to`, by a part that holds `held` bytes in its backward and
  // keeps `kept`.
  void go(size_t from, int64_t from_bytes, size_t to, int64_t held, int64_t kept, double seconds,
          bool checkpointed) {
    const Partial& before = partials_[from][static_cast<size_t>(from_bytes)];
    const int64_t between = units_[from].between;
    const int64_t peak = from_bytes * step_ + between + held;
    const int64_t bytes = std::max<int64_t>(0, from_bytes + steps(between + kept));
    if (peak > budget_ || bytes > kSteps) return;
    Partial& partial = partials_[to][static_cast<size_t>(bytes)];
    if (before.seconds + seconds >= partial.seconds) return;
    partial = {before.seconds + seconds, std::max(before.peak, peak), from, from_bytes,
               checkpointed};
  }

  void extend(size_t i) {
    for (int64_t bytes = 0; bytes <= kSteps; ++bytes) {
      if (partials_[i][static_cast<size_t>(bytes)].seconds == kNever) continue;
      const ActivationUnit& unit = units_[i];
      go(i, bytes, i + 1, unit.kept + unit.working, unit.kept, 0, false);
      int64_t recomputed = 0, working = 0;
      double seconds = 0;
      for (size_t j = i; j < units_.size() && (j == i || follows(units_[j - 1], units_[j])); ++j) {
        recomputed += units_[j].recomputed;
        working = std::max(working, units_[j].working);
        seconds += units_[j].seconds;
        go(i, bytes, j + 1, recomputed + working, units_[j].output, seconds, true);
      }
    }
  }

  void finish(int64_t working) {
    double best = kNever;
    for (int64_t bytes = 0; bytes <= kSteps; ++bytes) {
      const Partial& partial = partials_.back()[static_cast<size_t>(bytes)];
      const int64_t end = bytes * step_ + working;
      if (partial.seconds >= best || end > budget_) continue;
      best = partial.seconds;
      last_ = bytes;
      peak_ = std::max(partial.peak, end);
    }
  }

  const std::vector<ActivationUnit>& units_;
  int64_t budget_, step_;
  std::vector<std::vector<Partial>> partials_;
  int64_t last_ = -1;
  int64_t peak_ = 0;
};

}  // namespace

std::optional<ActivationPlan> plan_activations(const ActivationProfile& profile, int64_t budget) {
  WICK_CHECK(budget > 0, "plan_activations: wrong budget: got ", budget, " bytes, expected some");
  return Search(profile, budget).plan();
}

int64_t smallest_activation_budget(const ActivationProfile& profile) {
  int64_t high = 1;
  while (!plan_activations(profile, high)) high *= 2;
  int64_t low = high / 2;
  while (high - low > std::max<int64_t>(1, high / kSteps)) {
    const int64_t middle = low + (high - low) / 2;
    (plan_activations(profile, middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace wick::nn
