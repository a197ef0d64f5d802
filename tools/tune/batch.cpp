#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>

#include "wick/core/memory/allocator.h"
#include "wick/tools/common/number_flag.h"
#include "wick/tools/common/progress.h"
#include "wick/tools/common/recipe_flags.h"
#include "wick/tools/common/usage_error.h"
#include "wick/tools/tune/commands.h"
#include "wick/tools/tune/search.h"
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

nlohmann::ordered_json to_json(const train::BatchTrial& trial) {
  return {{"batch", trial.batch},
          {"fits", trial.fits},
          {"images_per_second", trial.samples_per_second},
          {"peak_bytes", trial.peak_bytes}};
}

nlohmann::ordered_json to_json(const train::BatchFinderResult& found,
                               const train::NoiseScale* noise, int64_t memory) {
  nlohmann::ordered_json values;
  values["memory_bytes"] = memory;
  values["largest"] = found.largest;
  values["exact"] = found.exact;
  values["fastest"] = found.fastest;
  for (const train::BatchTrial& trial : found.trials) values["trials"].push_back(to_json(trial));
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

// What was found before, and what is to be kept of what is found now.
void follow(Search& search, train::BatchFinderOptions& finder) {
  search.read([&] {
    if (search["memory_bytes"].is_null()) search["memory_bytes"] = finder.memory;
    finder.memory = search["memory_bytes"].get<int64_t>();
    for (const nlohmann::json& t : search["trials"]) {
      finder.done.push_back(
          {t.at("batch"), t.at("fits"), t.at("images_per_second"), t.at("peak_bytes")});
    }
  });
  finder.on_trial = [&search](const train::BatchTrial& trial) {
    search["trials"].push_back(nlohmann::json(to_json(trial)));
    search.save();
  };
}

std::optional<train::NoiseScale> find_noise(Search& search, train::Trial& trial,
                                            const BatchFlags& flags) {
  if (flags.noise_batches == 0) return {};
  if (const nlohmann::json& known = search["noise"]; !known.is_null()) {
    train::NoiseScale noise;
    search.read([&] {
      noise.noise = known.at("noise"), noise.signal = known.at("signal");
      if (!known.at("batch").is_null()) noise.batch = known.at("batch").get<double>();
    });
    return noise;
  }
  const int64_t batch = std::min(*flags.recipe.loading.batch_size, trial.train_size());
  const train::NoiseScale noise = measure_noise(trial, batch, flags.noise_batches);
  search["noise"] = {{"noise", noise.noise}, {"signal", noise.signal}, {"batch", nullptr}};
  if (noise.batch) search["noise"]["batch"] = *noise.batch;
  search.save();
  return noise;
}

int tune_batch(const BatchFlags& flags, Search& search) {
  if (flags.recipe.memory.checkpoint_activations.starts_with("budget")) {
    throw UsageError("--checkpoint-activations: a budget is for one batch: use off or on here");
  }
  train::Trial trial(flags.recipe);
  search.begin();
  train::BatchFinderOptions options = flags.finder;
  options.memory =
      flags.memory.empty() ? available_memory(trial.device()) : parse_bytes("memory", flags.memory);
  options.most = std::min(options.most, trial.train_size());
  options.start = std::min(options.start, options.most);
  follow(search, options);
  const std::optional<train::NoiseScale> noise = find_noise(search, trial, flags);
  const train::BatchFinderResult found = train::find_batch_size(
      trial.model(), trial.optimizer(), trial.device(),
      [&](int64_t batch) { trial.step_on_noise(batch); }, options, trial.parts());
  const auto values = to_json(found, noise ? &*noise : nullptr, options.memory);
  search.end(values);
  if (flags.json) {
    fmt::print("{}\n", values.dump());
    return 0;
  }
  show_trials(found, options.memory);
  show_advice(flags.recipe, found, noise ? &*noise : nullptr);
  fmt::print("\nfigures  {}\n", search.path("tune_batch.json"));
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
  sub->callback([sub, flags, &command] {
    command = [sub, flags] {
      if (flags->noise_batches == 1) {
        throw UsageError("--noise-batches: got 1, expected 0, or 2 or more");
      }
      if (!flags->memory.empty()) parse_bytes("memory", flags->memory);
      Search search("batch", *sub, flags->recipe);
      search.keep("--memory", flags->memory);
      search.keep("--most", flags->finder.most);
      search.keep("--noise-batches", flags->noise_batches);
      return search.has_ended(flags->json) ? 0 : tune_batch(*flags, search);
    };
  });
}

}  // namespace wick::tool
