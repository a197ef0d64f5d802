#include "wick/nn/memory_advice.h"

#include <algorithm>

#include "wick/core/memory/allocator.h"
#include "wick/nn/activation_plan.h"
#include "wick/nn/trial_state.h"

namespace wick::nn {

namespace {

constexpr double kUsable = 0.9;  // of the limit; the rest is lost between blocks
constexpr int64_t kFew = 2, kMore = 6;

// Bytes that a pass holds at its peak: some beyond each sample's.
struct PassMemory {
  double fixed = 0;
  double per_sample = 0;
};

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
    return most;
  }

  PassMemory measure() {
    const auto few = static_cast<double>(peak(kFew)), more = static_cast<double>(peak(kMore));
    const double per_sample = std::max((more - few) / (kMore - kFew), 1.0);
    return {std::max(few - kFew * per_sample, 0.0), per_sample};
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
  const TrialState state(model);
  model.zero_grad();
  empty_cache(device);
  const auto limit = static_cast<double>(allocator(device).memory_limit());
  const double free = kUsable * limit - static_cast<double>(memory_allocated(device));
  PassTrials trials(model, device, pass);
  MemoryAdvice advice;
  try {
    const PassMemory plain = trials.measure();
    const auto guess = static_cast<int64_t>((free - plain.fixed) / plain.per_sample);
    advice.samples = trials.that_fit(free, std::min(guess, batch - 1));
    if (advice.samples == batch - 1 && guess >= batch) advice.samples = batch;
    if (!could_recompute(model)) return advice;
    const int64_t samples = std::max(std::min(advice.samples, batch - 1), kMore);
    const int64_t kept = trials.peak(samples);
    const Recomputing scope(model);
    const auto less = static_cast<double>(std::max<int64_t>(kept - trials.peak(samples), 0));
    const double share = static_cast<double>(batch) / static_cast<double>(samples);
    advice.saved_by_recomputation = static_cast<int64_t>(less * share);
    return advice;
  } catch (const OutOfMemory&) {
    return {};
  }
}

}  // namespace wick::nn
