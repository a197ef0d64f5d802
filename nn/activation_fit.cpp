// The part of activation plans that measures.
#include <algorithm>
#include <chrono>
#include <set>
#include <utility>
#include <vector>

#include "wick/core/apply.h"
#include "wick/core/autograd.h"
#include "wick/core/memory/stats.h"
#include "wick/core/stream.h"
#include "wick/nn/activation_plan.h"
#include "wick/nn/detail/child_observer.h"
#include "wick/nn/detail/trial_state.h"

namespace wick::nn {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Sequentials that are within no other.
std::vector<Sequential*> outermost_sequentials(Module& module) {
  if (auto* sequential = dynamic_cast<Sequential*>(&module)) return {sequential};
  std::vector<Sequential*> found;
  for (const auto& [name, child] : module.children()) {
    for (Sequential* sequential : outermost_sequentials(*child)) {
      if (sequential->size() > 0) found.push_back(sequential);
    }
  }
  return found;
}

std::vector<Sequential*> checkpointable(Module& model) {
  std::vector<Sequential*> all = outermost_sequentials(model);
  WICK_CHECK(!all.empty(), "checkpoint: nothing to make again in backward: got ",
             model.description(), ", expected a model with a Sequential");
  return all;
}

// Without recomputing single outputs of ops, as within a checkpointed region.
class KeepOutputs {
 public:
  KeepOutputs() : before_(recompute_enabled()) { set_recompute(false); }
  ~KeepOutputs() { set_recompute(before_); }
  KeepOutputs(const KeepOutputs&) = delete;
  KeepOutputs& operator=(const KeepOutputs&) = delete;

 private:
  bool before_;
};

// Follows memory and time through the units of one step.
class StepObserver final : public ChildObserver {
 public:
  explicit StepObserver(Device device) : device_(device) {
    child_observer() = this;
    synchronize(device_);
    start_ = memory_allocated(device_);
    reset_peak_memory_stats(device_);
    step_began_ = Clock::now();
  }
  ~StepObserver() override { child_observer() = nullptr; }

  ActivationProfile finish() {
    synchronize(device_);
    profile_.seconds = seconds_since(step_began_);
    phase_ended();
    return complete();
  }

  void before(Sequential& parent, int64_t child, const Tensor&) override {
    if (depth_++ > 0) return;
    synchronize(device_);
    WICK_CHECK(seen_.emplace(&parent, child).second, "checkpoint: child ", child, " of ",
               parent.description(), " is called twice in one step: no plan can be made");
    ActivationUnit unit;
    unit.parent = &parent;
    unit.child = child;
    unit.between = held() - after_;
    profile_.units.push_back(unit);
    before_ = held();
    began_ = Clock::now();
  }

  void after(Sequential&, int64_t, const Tensor& y) override {
    if (--depth_ > 0) return;
    synchronize(device_);
    ActivationUnit& unit = profile_.units.back();
    unit.seconds = seconds_since(began_);
    after_ = held();
    unit.kept = after_ - before_;
    unit.output = y.numel() * size_of(y.dtype());
    if (!y.requires_grad()) return;
    const size_t i = profile_.units.size() - 1;
    y.register_hook([this, i](const Tensor&) {
      backward_reached(i);
      return Tensor();
    });
  }

 private:
  int64_t held() const { return memory_allocated(device_) - start_; }

  void phase_ended() {
    phase_peak_ = max_memory_allocated(device_) - start_;
    profile_.peak = std::max(profile_.peak, phase_peak_);
    reset_peak_memory_stats(device_);
  }

  // Backward is about to go through unit `i`; what ended is that of the unit behind it.
  void backward_reached(size_t i) {
    synchronize(device_);
    phase_ended();
    peaks_.resize(profile_.units.size(), 0);
    if (i + 1 < peaks_.size()) {
      peaks_[i + 1] = phase_peak_;
    } else {
      head_peak_ = phase_peak_;
    }
    reached_ = i;
  }

  ActivationProfile complete() {
    WICK_CHECK(reached_ == 0 && !peaks_.empty(),
               "checkpoint: the trial step did not go backward through ",
               profile_.units.empty() ? "any Sequential" : "the first child of each Sequential");
    peaks_[0] = phase_peak_;
    int64_t kept = 0;
    for (size_t i = 0; i < peaks_.size(); ++i) {
      ActivationUnit& unit = profile_.units[i];
      kept += unit.between + unit.kept;
      unit.recomputed = unit.kept;
      unit.working = std::max<int64_t>(0, peaks_[i] - kept);
    }
    profile_.working = std::max<int64_t>(0, head_peak_ - kept);
    return profile_;
  }

  Device device_;
  ActivationProfile profile_;
  std::set<std::pair<Sequential*, int64_t>> seen_;
  int depth_ = 0;
  int64_t start_ = 0, before_ = 0, after_ = 0;
  int64_t phase_peak_ = 0, head_peak_ = 0;
  std::vector<int64_t> peaks_;
  size_t reached_ = SIZE_MAX;
  Clock::time_point step_began_, began_;
};

ActivationProfile observe(Device device, const std::function<void()>& step) {
  StepObserver observer(device);
  step();
  return observer.finish();
}

struct Measured {
  int64_t peak;
  double seconds;
};
Measured measure(Device device, const std::function<void()>& step) {
  synchronize(device);
  const int64_t start = memory_allocated(device);
  reset_peak_memory_stats(device);
  const auto began = Clock::now();
  step();
  synchronize(device);
  return {max_memory_allocated(device) - start, seconds_since(began)};
}

// Puts back which children of the model are checkpointed, unless they shall stay as they are.
class CheckpointsBefore {
 public:
  explicit CheckpointsBefore(Module& model) {
    for (Sequential* sequential : checkpointable(model)) {
      before_.emplace_back(sequential, sequential->checkpointed());
    }
  }
  ~CheckpointsBefore() {
    for (auto& [sequential, ranges] : before_) sequential->set_checkpointed(std::move(ranges));
  }
  CheckpointsBefore(const CheckpointsBefore&) = delete;
  CheckpointsBefore& operator=(const CheckpointsBefore&) = delete;

  void forget() { before_.clear(); }

 private:
  std::vector<std::pair<Sequential*, std::vector<ChildRange>>> before_;
};

int64_t count_recomputed(const ActivationPlan& plan) {
  int64_t count = 0;
  for (const CheckpointedRange& part : plan.ranges) count += part.range.last - part.range.first;
  return count;
}

}  // namespace

ActivationProfile profile_activations(Module& model, Device device,
                                      const std::function<void()>& step) {
  const CheckpointsBefore before(model);
  apply_activation_plan(model, {});
  step();  // makes gradients, and fills caches
  ActivationProfile profile = observe(device, step);
  const KeepOutputs keep;
  const ActivationProfile all_kept = observe(device, step);
  WICK_CHECK(all_kept.units.size() == profile.units.size(),
             "checkpoint: trial steps differ: the first calls ", profile.units.size(),
             " children of Sequentials, the second ", all_kept.units.size(), ", expected the same");
  for (size_t i = 0; i < profile.units.size(); ++i) {
    ActivationUnit& unit = profile.units[i];
    unit.recomputed = std::max(unit.kept, all_kept.units[i].kept);
    unit.seconds = std::min(unit.seconds, all_kept.units[i].seconds);
  }
  return profile;
}

void apply_activation_plan(Module& model, const ActivationPlan& plan) {
  for (Sequential* sequential : outermost_sequentials(model)) {
    std::vector<ChildRange> ranges;
    for (const CheckpointedRange& part : plan.ranges) {
      if (part.parent == sequential) ranges.push_back(part.range);
    }
    sequential->set_checkpointed(std::move(ranges));
  }
}

void checkpoint_every_child(Module& model) {
  for (Sequential* sequential : checkpointable(model)) {
    std::vector<ChildRange> ranges;
    for (int64_t i = 0; i < sequential->size(); ++i) ranges.push_back({i, i + 1});
    sequential->set_checkpointed(std::move(ranges));
  }
}

namespace {

// Plans for less than the budget where plans hold more than they promise, and for more where they
// hold less. What `fit` says of the step is that of the best plan so far.
void search(Module& model, Device device, int64_t budget, const ActivationProfile& profile,
            const std::function<void()>& step, ActivationFit& fit) {
  int64_t asked = budget, too_much = INT64_MAX, fits = 0;
  for (int trial = 0; trial < 6 && asked > 0; ++trial) {
    const std::optional<ActivationPlan> plan = plan_activations(profile, asked);
    if (!plan) return;
    apply_activation_plan(model, *plan);
    step();
    const Measured found = measure(device, step);
    if (found.peak <= budget) {
      fits = asked;
      if (fit.peak == 0 || plan->seconds < fit.plan.seconds) {
        fit.plan = *plan;
        fit.recomputed = count_recomputed(*plan);
        fit.peak = found.peak;
        fit.seconds = found.seconds;
      }
      if (plan->ranges.empty() || 10 * found.peak >= 9 * budget) return;
      asked += budget - found.peak;
    } else {
      too_much = asked;
      asked -= std::max(found.peak - budget, budget / 100);
    }
    if (asked <= fits || asked >= too_much) asked = fits + (too_much - fits) / 2;
    if (asked == fits) return;
  }
}

}  // namespace

ActivationFit fit_activations(Module& model, Device device, int64_t budget,
                              const std::function<void()>& step) {
  WICK_CHECK(budget > 0, "fit_activations: wrong budget: got ", budget, " bytes, expected some");
  const TrialState state(model);
  CheckpointsBefore before(model);
  const ActivationProfile profile = profile_activations(model, device, step);
  apply_activation_plan(model, {});
  ActivationFit fit;
  fit.units = static_cast<int64_t>(profile.units.size());
  const Measured plain = measure(device, step);
  fit.plain_peak = plain.peak;
  fit.plain_seconds = plain.seconds;
  search(model, device, budget, profile, step, fit);
  if (fit.peak == 0) {
    const ActivationPlan least =
        plan_activations(profile, smallest_activation_budget(profile)).value();
    apply_activation_plan(model, least);
    step();
    fit.peak = measure(device, step).peak;
    fit.plan = least;
    fit.recomputed = count_recomputed(least);
    WICK_CHECK(fit.peak <= budget,
               "checkpoint: the budget is too small for this model and batch: got ",
               format_bytes(budget), ", expected ", format_bytes(fit.peak), " or more");
  }
  apply_activation_plan(model, fit.plan);
  empty_cache(device);
  reset_peak_memory_stats(device);
  before.forget();
  return fit;
}

}  // namespace wick::nn
