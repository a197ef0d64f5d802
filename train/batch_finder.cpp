#include "wick/train/batch_finder.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <new>

#include "wick/core/autograd.h"
#include "wick/core/memory/allocator.h"
#include "wick/core/stream.h"
#include "wick/train/detail/clock.h"

namespace wick::train {

namespace {

void check(const BatchFinderOptions& o) {
  WICK_CHECK(o.start >= 1 && o.most >= o.start, "find_batch_size: wrong batches: got ", o.start,
             " to ", o.most, ", expected 1 <= start <= most");
  WICK_CHECK(o.steps >= 2, "find_batch_size: too few steps: got ", o.steps,
             ", expected 2 or more: the optimizer's state is made in the first");
  WICK_CHECK(o.trials >= 1, "find_batch_size: too few trials: got ", o.trials);
  WICK_CHECK(o.seconds >= 0 && o.memory >= 0, "find_batch_size: negative limit: got ", o.seconds,
             " seconds and ", o.memory, " bytes");
}

class BatchFinder {
 public:
  BatchFinder(nn::Module& model, Device device, const std::function<void(int64_t)>& step,
              const BatchFinderOptions& options)
      : model_(model),
        device_(device),
        step_(step),
        options_(options),
        limit_before_(allocator(device).memory_limit()),
        start_(Clock::now()) {
    if (options.memory > 0) {
      empty_cache(device);
      allocator(device).set_memory_limit(
          std::min(limit_before_, static_cast<size_t>(options.memory)));
    }
  }
  ~BatchFinder() {
    allocator(device_).set_memory_limit(limit_before_);
    model_.zero_grad();
    empty_cache(device_);
  }
  BatchFinder(const BatchFinder&) = delete;
  BatchFinder& operator=(const BatchFinder&) = delete;

  BatchFinderResult run() {
    int64_t fits = 0, too_large = 0;
    for (int64_t batch = options_.start; may_try(); batch = std::min(2 * batch, options_.most)) {
      if (!try_batch(batch)) {
        too_large = batch;
        break;
      }
      fits = batch;
      if (batch == options_.most) too_large = batch + 1;
      if (batch == options_.most) break;
    }
    while (too_large > fits + 1 && may_try()) {
      const int64_t middle = fits + (too_large - fits) / 2;
      (try_batch(middle) ? fits : too_large) = middle;
    }
    return result(fits, too_large == fits + 1);
  }

 private:
  bool may_try() const {
    return static_cast<int64_t>(trials_.size()) < options_.trials &&
           (options_.seconds == 0 || seconds_since(start_) < options_.seconds);
  }

  bool try_batch(int64_t batch) {
    for (const BatchTrial& known : options_.done) {
      if (known.batch == batch) return (trials_[batch] = known).fits;
    }
    BatchTrial& trial = trials_[batch];
    trial.batch = batch;
    reset_peak_memory_stats(device_);
    try {
      double seconds = 0;
      for (int i = 0; i < options_.steps; ++i) {
        const auto began = Clock::now();
        step_(batch);
        synchronize(device_);
        seconds = seconds_since(began);
      }
      trial.fits = true;
      trial.samples_per_second = static_cast<double>(batch) / seconds;
    } catch (const OutOfMemory&) {
    } catch (const std::bad_alloc&) {
    }
    trial.peak_bytes = max_memory_allocated(device_);
    model_.zero_grad();
    if (!trial.fits) empty_cache(device_);
    if (options_.on_trial) options_.on_trial(trial);
    return trial.fits;
  }

  BatchFinderResult result(int64_t largest, bool exact) const {
    BatchFinderResult result;
    result.largest = largest;
    result.exact = exact;
    double best = 0;
    for (const auto& [batch, trial] : trials_) {
      result.trials.push_back(trial);
      if (trial.samples_per_second <= best) continue;
      best = trial.samples_per_second;
      result.fastest = batch;
    }
    return result;
  }

  nn::Module& model_;
  Device device_;
  const std::function<void(int64_t)>& step_;
  BatchFinderOptions options_;
  size_t limit_before_;
  Clock::time_point start_;
  std::map<int64_t, BatchTrial> trials_;
};

double squared_norm(const std::vector<Tensor>& tensors) {
  double sum = 0;
  for (const Tensor& tensor : tensors) {
    if (tensor.defined()) sum += tensor.to(kFloat64).pow(2).sum().item();
  }
  return sum;
}

}  // namespace

BatchFinderResult find_batch_size(nn::Module& model, optim::Optimizer& optimizer, Device device,
                                  const std::function<void(int64_t)>& step,
                                  const BatchFinderOptions& options, const TrainingParts& parts) {
  check(options);
  const TrainingSnapshot snapshot(model, optimizer, parts);
  return snapshot.around([&] { return BatchFinder(model, device, step, options).run(); });
}

NoiseScale gradient_noise_scale(nn::Module& model, int64_t batch_size, int64_t batches,
                                const std::function<void()>& backward) {
  WICK_CHECK(batch_size >= 1 && batches >= 2, "gradient_noise_scale: got ", batches, " batches of ",
             batch_size, ", expected 2 or more of 1 or more");
  const std::vector<Tensor> parameters = model.parameters();
  std::vector<Tensor> sums(parameters.size());
  double small = 0;  // the mean squared norm of one batch's gradient
  const auto k = static_cast<double>(batches);
  for (int64_t b = 0; b < batches; ++b) {
    model.zero_grad();
    backward();
    const NoGrad no_grad;
    std::vector<Tensor> gradients;
    for (const Tensor& parameter : parameters) gradients.push_back(parameter.grad());
    small += squared_norm(gradients) / k;
    for (size_t i = 0; i < sums.size(); ++i) {
      if (!gradients[i].defined()) continue;
      if (!sums[i].defined()) sums[i] = zeros_like(gradients[i]);
      sums[i].add_(gradients[i]);
    }
  }
  model.zero_grad();
  const NoGrad no_grad;
  const double large = squared_norm(sums) / (k * k);
  NoiseScale scale;
  scale.signal = (k * large - small) / (k - 1);
  scale.noise = (small - large) * static_cast<double>(batch_size) / (1 - 1 / k);
  if (scale.signal > 0) scale.batch = std::max(0.0, scale.noise) / scale.signal;
  return scale;
}

double scale_lr_linear(double lr, int64_t from_batch, int64_t to_batch) {
  WICK_CHECK(from_batch >= 1 && to_batch >= 1, "scale_lr: wrong batches: got ", from_batch, " and ",
             to_batch, ", expected 1 or more");
  return lr * static_cast<double>(to_batch) / static_cast<double>(from_batch);
}

double scale_lr_sqrt(double lr, int64_t from_batch, int64_t to_batch) {
  return lr * std::sqrt(scale_lr_linear(1, from_batch, to_batch));
}

}  // namespace wick::train
