#include "wick/nn/memory_advice.h"

#include <algorithm>

#include "wick/core/memory/allocator.h"
#include "wick/nn/activation_plan.h"
#include "wick/nn/detail/trial_state.h"

namespace wick::nn {

namespace {

constexpr double kUsable = 0.9;         // of the limit; the rest is lost between blocks
constexpr int64_t kFew = 2, kMore = 6;  // samples of passes that are measured, where so many fail

class PassTrials {
 public:
  PassTrials(Module& model, Device device, const std::function<void(int64_t)>& pass)
      : model_(model), device_(device), pass_(pass) {}

  // Bytes that a pass of `samples` takes beyond what is held.
  int64_t peak(int64_t samples) {
    reset_peak_memory_stats(device_);
    const int64_t before = memory_allocated(device_);
    try {
      pass_(samples);
    } catch (const OutOfMemory&) {
      model_.zero_grad();
      throw;
    }
    const int64_t most = max_memory_allocated(device_) - before;
    model_.zero_grad();
    seen_ = std::max(seen_, samples);
    return most;
  }
  // The most samples of a pass that was not without memory.
  int64_t seen() const { return seen_; }

  // How many samples may fit in `free`, from passes of few.
  int64_t guess(double free, int64_t more) {
    try {
      const auto least = static_cast<double>(peak(kFew)), most = static_cast<double>(peak(more));
      const double per_sample = std::max((most - least) / static_cast<double>(more - kFew), 1.0);
      const double fixed = std::max(least - kFew * per_sample, 0.0);
      return static_cast<int64_t>((free - fixed) / per_sample);
    } catch (const OutOfMemory&) {
      empty_cache(device_);
      return more - 1;
    }
  }

  // The most samples, at most `samples`, whose pass was seen to hold no more than `free`; 0 if
  // none. A convolution may take another way, with more memory for itself, for many than for few.
  int64_t that_fit(double free, int64_t samples) {
    while (samples >= 1) {
      double share = 0.75;
      try {
        const auto most = static_cast<double>(peak(samples));
        if (most <= free) return samples;
        share = free / most;
      } catch (const OutOfMemory&) {
      }
      empty_cache(device_);
      samples = std::min(samples - 1, static_cast<int64_t>(static_cast<double>(samples) * share));
    }
    return 0;
  }

 private:
  Module& model_;
  Device device_;
  const std::function<void(int64_t)>& pass_;
  int64_t seen_ = 0;
};

// Looks for Sequentials, and for checkpointed ones.
void look_at(const Module& module, bool& any, bool& checkpointed) {
  if (const auto* sequential = dynamic_cast<const Sequential*>(&module)) {
    any |= sequential->size() > 0;
    checkpointed |= !sequential->checkpointed().empty();
  }
  for (const auto& [name, child] : module.children()) look_at(*child, any, checkpointed);
}

bool could_recompute(const Module& model) {
  bool any = false, checkpointed = false;
  look_at(model, any, checkpointed);
  return any && !checkpointed;
}

class Recomputing {
 public:
  explicit Recomputing(Module& model) : model_(model) { checkpoint_every_child(model); }
  ~Recomputing() { apply_activation_plan(model_, {}); }
  Recomputing(const Recomputing&) = delete;
  Recomputing& operator=(const Recomputing&) = delete;

 private:
  Module& model_;
};

}  // namespace

std::optional<MemoryAdvice> advise_on_memory(Module& model, Device device, int64_t batch,
                                             const std::function<void(int64_t samples)>& pass) {
  model.zero_grad();
  empty_cache(device);
  std::optional<MemoryAdvice> advice;
  try {
    const TrialState state(model);
    const auto limit = static_cast<double>(allocator(device).memory_limit());
    const double free = kUsable * limit - static_cast<double>(memory_allocated(device));
    PassTrials trials(model, device, pass);
    const int64_t below = batch - 1;
    const int64_t guess = below > kFew ? trials.guess(free, std::min(kMore, below)) : below;
    int64_t fit = trials.that_fit(free, std::min(guess, below));
    fit = std::max(fit, std::min(kMore, trials.seen()));  // be it with less to spare
    if (fit == below && guess >= batch) fit = batch;
    advice = MemoryAdvice{.samples = fit};
    const int64_t samples = std::min(fit, below);
    if (samples < 1 || !could_recompute(model)) return advice;
    const int64_t kept = trials.peak(samples);
    const Recomputing scope(model);
    const auto less = static_cast<double>(std::max<int64_t>(kept - trials.peak(samples), 0));
    const double share = static_cast<double>(batch) / static_cast<double>(samples);
    advice->saved_by_recomputation = static_cast<int64_t>(less * share);
  } catch (const OutOfMemory&) {  // what is known by then
  }
  return advice;
}

}  // namespace wick::nn
