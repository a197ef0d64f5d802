#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>

#include "wick/core/file.h"
#include "wick/core/memory/allocator.h"
#include "wick/tools/common/number_flag.h"
#include "wick/tools/common/usage_error.h"
#include "wick/tools/wick/progress.h"
#include "wick/tools/wick/recipe_flags.h"
#include "wick/tools/wick/tune.h"
#include "wick/train/batch_finder.h"
#include "wick/train/trial.h"

namespace wick::tool {

namespace {

struct BatchFlags {
  train::Recipe recipe;
  train::BatchFinderOptions finder{.seconds = 120};
  std::string memory;
  int64_t noise_batches = 20;
  bool json = false;
};

// What tensors of `device` may take: on the CPU what the machine has left.
int64_t available_memory(Device device) {
  auto most = static_cast<int64_t>(allocator(device).memory_limit());
  if (!device.is_cpu()) return most;
  std::ifstream info("/proc/meminfo");
  std::string name, unit;
  int64_t kibibytes = 0;
  while (info >> name >> kibibytes) {
    std::getline(info, unit);
    if (name == "MemAvailable:") most = std::min(most, kibibytes * 1024);
  }
  return most + (most > 0 ? memory_reserved(device) : 0);
}

train::NoiseScale measure_noise(train::Trial& trial, int64_t batch, int64_t batches) {
  const train::TrainingSnapshot snapshot(trial.model(), trial.optimizer(), trial.parts());
  return snapshot.around([&] {
    return train::gradient_noise_scale(trial.model(), batch, batches, [&] { trial.backward(); });
  });
}

nlohmann::ordered_json to_json(const train::BatchFinderResult& found,
                               const train::NoiseScale* noise, int64_t memory) {
  nlohmann::ordered_json values;
  values["memory_bytes"] = memory;
  values["largest"] = found.largest;
  values["exact"] = found.exact;
  values["fastest"] = found.fastest;
  for (const train::BatchTrial& t : found.trials) {
    values["trials"].push_back({{"batch", t.batch},
                                {"fits", t.fits},
                                {"images_per_second", t.samples_per_second},
                                {"peak_bytes", t.peak_bytes}});
  }
  if (noise != nullptr) {
    values["gradient_noise_scale"] =
        noise->batch ? nlohmann::ordered_json(*noise->batch) : nlohmann::ordered_json(nullptr);
  }
  return values;
}

void show_trials(const train::BatchFinderResult& found, int64_t memory) {
  double best = 0;
  for (const train::BatchTrial& t : found.trials) best = std::max(best, t.samples_per_second);
  fmt::print("{:>8} {:>12} {:>12}\n", "batch", "images/s", "memory");
  for (const train::BatchTrial& t : found.trials) {
    if (!t.fits) {
      fmt::print("{:>8} {:>12} {:>12}\n", t.batch, "-", "does not fit");
      continue;
    }
    const auto bar = static_cast<size_t>(40 * t.samples_per_second / best);
    fmt::print("{:>8} {:>12.1f} {:>12} {}\n", t.batch, t.samples_per_second,
               bytes_text(t.peak_bytes), std::string(bar, '#'));
  }
  fmt::print("\nlargest batch  {}{} within {}\n", found.exact ? "" : "at least ", found.largest,
             bytes_text(memory));
  fmt::print("fastest batch  {}\n", found.fastest);
}

void show_advice(const train::Recipe& recipe, const train::BatchFinderResult& found,
                 const train::NoiseScale* noise) {
  if (noise != nullptr) {
    if (noise->batch) {
      fmt::print("noise scale    {:.0f} at the initial weights; it grows as the loss falls\n",
                 *noise->batch);
    } else {
      fmt::print("noise scale    lost in noise: measure with more --noise-batches\n");
    }
  }
  fmt::print("\n{:>8} {:>14} {:>14}   rates to try, from {:.3g} at {}\n", "batch", "linear (SGD)",
             "sqrt (Adam)", *recipe.optimizer.lr, *recipe.loading.batch_size);
  std::vector<int64_t> batches{found.fastest, found.largest};
  if (found.fastest == found.largest) batches.pop_back();
  for (const int64_t batch : batches) {
    if (batch == 0) continue;
    fmt::print("{:>8} {:>14.3g} {:>14.3g}\n", batch,
               train::scale_lr_linear(*recipe.optimizer.lr, *recipe.loading.batch_size, batch),
               train::scale_lr_sqrt(*recipe.optimizer.lr, *recipe.loading.batch_size, batch));
  }
}

int tune_batch(const BatchFlags& flags) {
  if (flags.recipe.memory.checkpoint_activations.starts_with("budget")) {
    throw UsageError("--checkpoint-activations: a budget is for one batch: use off or on here");
  }
  train::Trial trial(flags.recipe);
  const train::RunFolder folder = tuning_folder(flags.recipe);
  train::BatchFinderOptions options = flags.finder;
  options.memory =
      flags.memory.empty() ? available_memory(trial.device()) : parse_bytes("memory", flags.memory);
  options.most = std::min(options.most, trial.train_size());
  options.start = std::min(options.start, options.most);
  std::optional<train::NoiseScale> noise;
  if (flags.noise_batches > 0) {
    noise = measure_noise(trial, std::min(*flags.recipe.loading.batch_size, trial.train_size()),
                          flags.noise_batches);
  }
  const train::BatchFinderResult found = train::find_batch_size(
      trial.model(), trial.optimizer(), trial.device(),
      [&](int64_t batch) { trial.step_on_noise(batch); }, options, trial.parts());
  const auto values = to_json(found, noise ? &*noise : nullptr, options.memory);
  write_file(folder.path() + "/tune_batch.json", values.dump(2) + "\n");
  if (flags.json) {
    fmt::print("{}\n", values.dump());
    return 0;
  }
  show_trials(found, options.memory);
  show_advice(flags.recipe, found, noise ? &*noise : nullptr);
  fmt::print("\nfigures  {}/tune_batch.json\n", folder.path());
  return 0;
}

}  // namespace

void add_tune_batch(CLI::App& tune, Command& command) {
  CLI::App* sub = tune.add_subcommand(
      "batch", "Largest batch that trains, by doubling and bisection, and the fastest");
  auto flags = std::make_shared<BatchFlags>();
  add_recipe_flags(*sub, flags->recipe);
  train::BatchFinderOptions& finder = flags->finder;
  sub->add_option("--memory", flags->memory,
                  "what tensors may take, as 512MB or 4GiB (default: what the device has left)")
      ->check([](const std::string& word) { return word.empty() ? "the value is empty" : ""; });
  add_number_flag(*sub, "--most", finder.most, 1, 1e15,
                  "largest batch tried, at most the data's size");
  add_number_flag(*sub, "--seconds", finder.seconds, 0, 1e9,
                  "begin no trial after so many (0: no limit)");
  add_number_flag(*sub, "--noise-batches", flags->noise_batches, 0, 1e15,
                  "batches that the gradient noise scale is measured from (0: do not)");
  sub->add_flag("--json", flags->json, "print one JSON object");
  sub->callback([flags, &command] {
    command = [flags] {
      if (flags->noise_batches == 1) {
        throw UsageError("--noise-batches: got 1, expected 0, or 2 or more");
      }
      if (!flags->memory.empty()) parse_bytes("memory", flags->memory);
      prepare_tuning(flags->recipe);
      return tune_batch(*flags);
    };
  });
}

}  // namespace wick::tool
