#include "wick/nn/lint.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "wick/core/anomaly.h"
#include "wick/core/core.h"
#include "wick/core/memory/allocator.h"
#include "wick/core/saved_tensor_hooks.h"
#include "wick/nn/detail/lint_graph.h"

namespace wick::nn {

namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::string percent(double share) {
  return concat(static_cast<int64_t>(std::lround(100 * share)), " %");
}

// Sees which operation of a step fills one of `tensors`.
class FillWatch final : public SavedTensorHooks {
 public:
  explicit FillWatch(const std::vector<Tensor>& tensors) : tensors_(tensors) {}
  Ref<PackedTensor> pack(const Tensor&) override { return {}; }
  void before_op(std::span<const Tensor> inputs, uint32_t mutates) override {
    if ((mutates & 1) == 0 || inputs.empty() || detail::current_op() != std::string_view("fill_"))
      return;
    for (const Tensor& tensor : tensors_) {
      if (tensor.impl()->storage.get() == inputs[0].impl()->storage.get()) ++fills_;
    }
  }
  int64_t fills() const { return fills_; }

 private:
  const std::vector<Tensor>& tensors_;
  int64_t fills_ = 0;
};

class Linter {
 public:
  Linter(Module& model, Device device, const Tensor& input,
         const std::function<void(const Tensor&)>& step, const LintOptions& options)
      : model_(model), device_(device), input_(input), step_(step), options_(options) {}

  std::vector<Lint> run() {
    check_others_than_search();
    check_search();
    return std::move(found_);
  }

 private:
  void check_others_than_search() {
    const anomaly::Pause pause;  // it slows every step, and waits
    seconds_of(input_);          // what only the first steps do
    check_biases();
    check_norms();
    check_gradients();
    check_synchronization();
    check_copy();
    check_input();
    check_batch();
    check_build();
    check_history();
  }

  double seconds_of(const Tensor& input) const {
    synchronize(device_);
    const auto begin = std::chrono::steady_clock::now();
    step_(input);
    synchronize(device_);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  /// Seconds that `work` takes.
  template <class Work>
  double median_of(const Work& work) const {
    std::vector<double> seconds;
    for (int round = 0; round < options_.rounds; ++round) {
      synchronize(device_);
      const auto begin = std::chrono::steady_clock::now();
      work();
      synchronize(device_);
      seconds.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return median(seconds);
  }

  /// The share of `step`'s time that it takes longer than with `change` done, which a second call
  /// undoes.
  template <class Change>
  double cost_beside(const Change& change) const {
    std::vector<double> before, after;
    for (int round = 0; round < options_.rounds; ++round) {
      before.push_back(seconds_of(input_));
      change();
      try {
        after.push_back(seconds_of(input_));
      } catch (...) {
        change();
        throw;
      }
      change();
    }
    return std::max(0.0, 1 - median(after) / median(before));
  }

  void check_biases() {
    const std::vector<LayerBias> biases = biases_before_norm(model_, input_.to(device_));
    if (biases.empty()) return;
    std::vector<Tensor> removed(biases.size());
    const double cost = cost_beside([&] {
      for (size_t i = 0; i < biases.size(); ++i) std::swap(*biases[i].bias, removed[i]);
    });
    const std::string& first = biases.front().path;
    std::string where = first.empty() ? "the layer" : first;
    if (biases.size() > 1) where += concat(" and ", biases.size() - 1, " more");
    add("bias-before-norm",
        where + ": batch normalisation takes the bias away again; make the layer with bias = false",
        cost);
  }

  void check_norms() {
    const std::vector<std::string> bare = convolutions_without_norm(model_, input_.to(device_));
    if (bare.empty()) return;
    std::string where = bare[0].empty() ? "the layer" : bare[0];
    if (bare.size() > 1) where += concat(" and ", bare.size() - 1, " more");
    add("no-norm",
        where +
            ": nothing normalises the convolution's result before the next layer: "
            "batch norm, or group norm for small batches, lets it learn at higher rates");
  }

  void check_gradients() {
    seconds_of(input_);
    std::vector<Tensor> gradients;
    for (const Tensor& parameter : model_.parameters()) {
      const Tensor gradient = parameter.grad();
      if (gradient.defined() && !gradient.is_sparse()) gradients.push_back(gradient.detach());
    }
    FillWatch watch(gradients);
    {
      const SavedTensorScope scope(&watch);
      step_(input_);
    }
    if (watch.fills() == 0) return;
    const double step = median_of([&] { step_(input_); });
    const NoGrad no_grad;
    std::vector<Tensor> sums;
    for (const Tensor& gradient : gradients) sums.push_back(gradient.clone());
    const double passes = median_of([&] {
      for (size_t i = 0; i < sums.size(); ++i) sums[i].zero_().add_(gradients[i]);
    });
    add("zeroed-gradients",
        "gradients are filled with zeros, to which the next ones are added: drop them by "
        "zero_grad(), which does so by default",
        std::min(1.0, passes / step));
  }

  void check_synchronization() {
    if (device_.is_cpu()) return;
    const Tensor on_device = input_.to(device_);
    int64_t waits = 0;
    std::vector<double> steps, savings;
    for (int round = 0; round < options_.rounds; ++round) {
      synchronize(device_);
      const int64_t before = synchronization_count();
      const double waited_before = synchronization_seconds();
      const auto begin = std::chrono::steady_clock::now();
      step_(on_device);
      const std::chrono::duration<double> host = std::chrono::steady_clock::now() - begin;
      waits = synchronization_count() - before;
      const double waited = synchronization_seconds() - waited_before;
      synchronize(device_);
      const std::chrono::duration<double> all = std::chrono::steady_clock::now() - begin;
      steps.push_back(all.count());
      // Without waits a step takes as long as the host or the device is busy, whichever is longer.
      savings.push_back(std::min(waited, host.count() - waited));
    }
    if (waits == 0) return;
    add("synchronization",
        concat("a step waits for the device ", waits, waits == 1 ? " time" : " times",
               ": read losses on the device and fetch them now and then"),
        std::max(0.0, median(savings) / median(steps)));
  }

  void check_copy() {
    if (device_.is_cpu() || !input_.device().is_cpu() || input_.is_pinned()) return;
    const Tensor pinned = input_.pin_memory();
    const auto seconds_of_copy = [&](const Tensor& from) {
      std::vector<double> seconds;
      for (int round = 0; round < options_.rounds; ++round) {
        const auto begin = std::chrono::steady_clock::now();
        const Tensor copy = from.to(device_, /*non_blocking=*/true);
        synchronize(device_);
        seconds.push_back(
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
      }
      return median(seconds);
    };
    const double saved = seconds_of_copy(input_) - seconds_of_copy(pinned);
    add("pageable-copy", "the input is copied from pageable memory: load it into pinned memory",
        std::max(0.0, saved / seconds_of(input_)));
  }

  void check_input() {
    if (!is_floating(input_.dtype()) || input_.rank() < 2 || input_.numel() == 0) return;
    const Tensor channels =
        input_.detach().to(kFloat32).transpose(0, 1).contiguous().flatten(1);  // [C, N...]
    const auto mean = channels.mean({1}).to_vector<float>();
    const auto square = (channels * channels).mean({1}).to_vector<float>();
    for (size_t c = 0; c < mean.size(); ++c) {
      const double std = std::sqrt(std::max(0.0, double{square[c]} - double{mean[c]} * mean[c]));
      if (std::fabs(mean[c]) <= 1 && std >= 0.2 && std <= 5) continue;
      if (input_.rank() == 2 && std == 0) continue;  // a column that is constant in this batch
      add("unnormalized-input",
          concat("channel ", c, " of the input has mean ", mean[c], " and standard deviation ", std,
                 ": normalise it to about 0 and 1"));
      return;
    }
  }

  void check_batch() {
    const int64_t batch = input_.size(0);
    const int64_t most = options_.most_batch > 0 ? options_.most_batch : 8 * batch;
    const auto samples_per_second = [&](const Tensor& input) {
      std::vector<double> seconds;
      seconds_of(input);
      for (int round = 0; round < options_.rounds; ++round) seconds.push_back(seconds_of(input));
      return static_cast<double>(input.size(0)) / median(seconds);
    };
    const double own = samples_per_second(input_);
    double best = own;
    int64_t best_batch = batch;
    Tensor larger = input_;
    try {
      for (int64_t size = 2 * batch; size <= most; size *= 2) {
        larger = cat({larger, larger});
        const double rate = samples_per_second(larger);
        if (rate < 1.05 * best) break;
        best = rate;
        best_batch = size;
      }
    } catch (const OutOfMemory&) {
      empty_cache(device_);
    }
    if (own > 0.8 * best) return;
    add("small-batch",
        concat("a batch of ", best_batch, " trains ", percent(best / own - 1),
               " more samples per second than one of ", batch,
               "; the learning rate has to follow (wick tune batch, wick tune lr)"),
        1 - own / best);
  }

  void check_build() {
    if (AllocatorConfig::kDefaultRedzone > 0) {
      add("debugging", "AddressSanitizer is built in: build with the preset release");
    }
#ifndef __OPTIMIZE__
    add("debugging", "the library is built without optimisation: use the preset release");
#endif
  }

  void check_history() {
    size_t now = memory_history_limit(device_), other = 0;
    if (now == 0) return;
    const double cost = cost_beside([&] {
      record_memory_history(device_, other);
      std::swap(now, other);
    });
    add("debugging", "the allocator records its history: record_memory_history(device, 0)", cost);
  }

  void check_search() {
    if (anomaly::search() == nullptr) return;
    std::optional<anomaly::Pause> pause;
    const double cost = cost_beside([&] { pause ? pause.reset() : (void)pause.emplace(); });
    add("debugging", "every result is searched for NaN: end the scope of DetectAnomaly", cost);
  }

  void add(const char* rule, const std::string& message, double cost = 0) {
    found_.push_back({rule, message, cost});
  }

  Module& model_;
  const Device device_;
  const Tensor& input_;
  const std::function<void(const Tensor&)>& step_;
  const LintOptions& options_;
  std::vector<Lint> found_;
};

}  // namespace

std::vector<Lint> lint_training(Module& model, Device device, const Tensor& input,
                                const std::function<void(const Tensor& input)>& step,
                                const LintOptions& options) {
  WICK_CHECK(input.defined() && input.rank() > 0 && input.size(0) > 0,
             "lint_training: wrong input: expected a batch of one sample or more");
  WICK_CHECK(options.rounds > 0, "lint_training: wrong rounds: got ", options.rounds,
             ", expected 1 or more");
  return Linter(model, device, input, step, options).run();
}

}  // namespace wick::nn
