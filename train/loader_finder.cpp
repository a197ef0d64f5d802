#include "wick/train/loader_finder.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>

#include "wick/core/stream.h"
#include "wick/train/detail/clock.h"

namespace wick::train {

namespace {

struct Rate {
  double samples_per_second = 0, wait = 0, seconds = 0;
};

// Gives batches to `use` for as long as the options say, after a few more that do not count.
template <class Use>
Rate measure(data::Prefetcher& loader, Device device, const LoaderFinderOptions& options,
             const Use& use) {
  constexpr int kWarmUp = 4;
  for (int i = 0; i < kWarmUp; ++i) use(next_batch(loader));
  synchronize(device);
  const double waited = loader.wait_seconds();
  const auto begin = Clock::now();
  int64_t samples = 0, batches = 0;
  const auto is_over = [&] {
    if (options.epochs) return batches >= *options.epochs * loader.size();
    return seconds_since(begin) >= options.seconds;
  };
  while (!is_over()) {
    const data::Batch batch = next_batch(loader);
    samples += batch.size();
    ++batches;
    use(batch);
  }
  synchronize(device);
  const double seconds = seconds_since(begin);
  return {static_cast<double>(samples) / seconds, (loader.wait_seconds() - waited) / seconds,
          seconds};
}

// 0 where the kernel does not say.
int64_t resident_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  int64_t kibibytes = 0;
  while (status >> word) {
    if (word == "VmRSS:" && status >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}

// Keeps what is better than in earlier rounds.
void measure_trial(Trial& trial, const LoaderFinderOptions& finder, LoaderTrial& result) {
  const Device device = trial.device();
  const auto& train = trial.classifier().data().train;
  data::DataLoaderOptions options = trial.classifier().loading();
  options.num_workers = result.workers;
  options.pin_memory = result.pin_memory;
  options.prefetch_factor.reset();
  if (result.workers > 0) {
    options.prefetch_factor = result.prefetch_factor;
  } else {
    options.timeout = 0;
  }
  {
    data::Prefetcher loader = data::load_ahead(train, options, device);
    const Rate rate = measure(loader, device, finder,
                              [&](const data::Batch&) { synchronize(current_stream(device)); });
    result.alone = std::max(result.alone, rate.samples_per_second);
  }
  data::Prefetcher loader = data::load_ahead(train, options, device);
  const Rate rate =
      measure(loader, device, finder, [&](const data::Batch& batch) { trial.step_on(batch); });
  result.resident_bytes = std::max(result.resident_bytes, resident_bytes());
  if (result.training > 0) {
    const auto [low, high] = std::minmax(result.training, rate.samples_per_second);
    result.difference = 1 - low / high;
  }
  if (rate.samples_per_second <= result.training) return;
  result.training = rate.samples_per_second;
  result.wait = rate.wait;
  result.seconds = rate.seconds;
}

double measure_in_memory(Trial& trial, double least_seconds) {
  const int64_t batch =
      std::min(*trial.classifier().recipe().loading.batch_size, trial.train_size());
  for (int i = 0; i < 2; ++i) trial.step_on_noise(batch);
  synchronize(trial.device());
  const auto begin = Clock::now();
  int64_t samples = 0;
  while (seconds_since(begin) < least_seconds) {
    trial.step_on_noise(batch);
    samples += batch;
  }
  synchronize(trial.device());
  return static_cast<double>(samples) / seconds_since(begin);
}

std::vector<int64_t> worker_counts(const LoaderFinderOptions& options) {
  if (!options.workers.empty()) return options.workers;
  const auto cores = static_cast<int64_t>(std::thread::hardware_concurrency());
  const int64_t most = std::max<int64_t>(2, 2 * cores);
  std::vector<int64_t> counts = {0};
  for (int64_t workers = 1; workers < most; workers *= 2) counts.push_back(workers);
  counts.push_back(most);
  return counts;
}

std::vector<LoaderTrial> settings(const LoaderFinderOptions& options, Device device) {
  std::vector<bool> pinning = options.pin_memory;
  if (pinning.empty()) pinning = {false};
  if (options.pin_memory.empty() && device.is_cuda()) pinning.push_back(true);
  std::vector<LoaderTrial> trials;
  for (const int64_t workers : worker_counts(options)) {
    for (const int prefetch : options.prefetch_factors) {
      // Without workers nothing is read ahead.
      if (workers == 0 && prefetch != options.prefetch_factors.front()) continue;
      for (const bool pinned : pinning) {
        LoaderTrial trial;
        trial.workers = static_cast<int>(workers);
        trial.prefetch_factor = prefetch;
        trial.pin_memory = pinned;
        trials.push_back(trial);
      }
    }
  }
  return trials;
}

void suggest(LoaderFinderResult& result) {
  constexpr double kLeastNoise = 0.02;
  double best = 0, differences = 0;
  for (const LoaderTrial& trial : result.trials) {
    best = std::max(best, trial.training);
    differences += trial.difference;
  }
  result.noise = std::max(kLeastNoise, differences / static_cast<double>(result.trials.size()));
  result.suggestion = *std::find_if(
      result.trials.begin(), result.trials.end(),
      [&](const LoaderTrial& trial) { return trial.training >= (1 - result.noise) * best; });
}

void check(const LoaderFinderOptions& options) {
  for (const int64_t workers : options.workers) {
    require(workers >= 0 && workers <= 256, "workers", "got ", workers, ", expected 0 to 256");
  }
  require(!options.prefetch_factors.empty(), "prefetch_factor", "got none, expected one");
  for (const int prefetch : options.prefetch_factors) {
    require(prefetch >= 1, "prefetch_factor", "got ", prefetch, ", expected 1 or more");
  }
  require(options.seconds > 0, "seconds", "got ", options.seconds, ", expected more than 0");
  require(options.epochs.value_or(1) >= 1, "epochs", "got ", options.epochs.value_or(1),
          ", expected 1 or more");
}

}  // namespace

LoaderFinderResult find_loading(Trial& trial, const LoaderFinderOptions& options) {
  check(options);
  constexpr int kRounds = 2;  // what disturbs one measurement is not taken for the setting's
  LoaderFinderResult result = options.done;
  if (options.measured == 0) result.trials = settings(options, trial.device());
  const TrainingSnapshot snapshot(trial.model(), trial.optimizer(), trial.parts());
  int64_t measured = 0;
  const auto once = [&](const auto& measurement) {
    if (++measured <= options.measured) return;
    measurement();
    snapshot.restore();  // weights that diverge may take another time
    if (options.on_measurement) options.on_measurement(result, measured);
  };
  snapshot.around([&] {
    for (int round = 0; round < kRounds; ++round) {
      once([&] {
        result.in_memory = std::max(result.in_memory, measure_in_memory(trial, options.seconds));
      });
      for (LoaderTrial& setting : result.trials) {
        once([&] { measure_trial(trial, options, setting); });
      }
    }
    return 0;
  });
  suggest(result);
  return result;
}

}  // namespace wick::train
