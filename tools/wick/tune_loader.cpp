#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "wick/core/file.h"
#include "wick/core/stream.h"
#include "wick/optim/training_snapshot.h"
#include "wick/tools/common/number_flag.h"
#include "wick/tools/wick/tune.h"

namespace wick::tool {

namespace {

using Clock = std::chrono::steady_clock;

struct LoaderFlags {
  TrainConfig config;
  int64_t most_workers = 0;  // 0: as many as the loader would take by itself
  double seconds = 0.5;
  bool json = false;
};

// How a loader was set up, and the images per second that it then gave.
struct Trial {
  int workers = 0, prefetch = 2;
  bool pinned = false;
  double alone = 0, training = 0;  // copies to the device included
  double wait = 0;                 // share of the time of training
  double difference = 0;           // between rounds of training: relative
};

struct Sweep {
  std::vector<Trial> trials;
  double in_memory = 0;  // images per second of steps on data that is on the device already
  double noise = 0;      // by how much two measurements of the same thing differ
  Trial suggestion;
};

struct Rate {
  double images_per_second = 0, wait = 0;
};

// Gives batches to `use` for so many seconds, after a few more that do not count.
template <class Use>
Rate measure(data::Prefetcher& loader, Device device, double seconds, const Use& use) {
  constexpr int kWarmUp = 4;
  for (int i = 0; i < kWarmUp; ++i) use(next_batch(loader));
  synchronize(device);
  const double waited = loader.wait_seconds();
  const auto start = Clock::now();
  int64_t images = 0;
  std::chrono::duration<double> elapsed{};
  while (elapsed.count() < seconds) {
    const data::Batch batch = next_batch(loader);
    images += batch.size();
    use(batch);
    elapsed = Clock::now() - start;
  }
  synchronize(device);
  elapsed = Clock::now() - start;
  return {static_cast<double>(images) / elapsed.count(),
          (loader.wait_seconds() - waited) / elapsed.count()};
}

// Keeps what is better than in earlier rounds.
void run_trial(Tuning& tuning, const LoaderFlags& flags, Trial& trial) {
  const Device device = tuning.device();
  data::DataLoaderOptions options = train_loader_options(flags.config, tuning.data(), device);
  options.num_workers = trial.workers;
  options.pin_memory = trial.pinned;
  options.prefetch_factor.reset();
  if (trial.workers > 0) {
    options.prefetch_factor = trial.prefetch;
  } else {
    options.timeout = 0;
  }
  {
    data::Prefetcher loader = data::load_ahead(tuning.data().train, options, device);
    const Rate rate = measure(loader, device, flags.seconds,
                              [&](const data::Batch&) { synchronize(current_stream(device)); });
    trial.alone = std::max(trial.alone, rate.images_per_second);
  }
  data::Prefetcher loader = data::load_ahead(tuning.data().train, options, device);
  const Rate rate = measure(loader, device, flags.seconds,
                            [&](const data::Batch& batch) { tuning.step_on(batch); });
  if (trial.training > 0) {
    const auto [low, high] = std::minmax(trial.training, rate.images_per_second);
    trial.difference = 1 - low / high;
  }
  if (rate.images_per_second <= trial.training) return;
  trial.training = rate.images_per_second;
  trial.wait = rate.wait;
}

double measure_in_memory(Tuning& tuning, const LoaderFlags& flags) {
  const int64_t batch = std::min(*flags.config.batch_size, tuning.train_size());
  for (int i = 0; i < 2; ++i) tuning.step_on_noise(batch);
  synchronize(tuning.device());
  const auto start = Clock::now();
  int64_t images = 0;
  while (std::chrono::duration<double>(Clock::now() - start).count() < flags.seconds) {
    tuning.step_on_noise(batch);
    images += batch;
  }
  synchronize(tuning.device());
  const std::chrono::duration<double> elapsed = Clock::now() - start;
  return static_cast<double>(images) / elapsed.count();
}

std::vector<Trial> settings(const LoaderFlags& flags, Device device) {
  const auto cores = static_cast<int64_t>(std::thread::hardware_concurrency());
  const int64_t most =
      flags.most_workers > 0 ? flags.most_workers : std::max<int64_t>(2, 2 * cores);
  std::vector<int64_t> counts = {0};
  for (int64_t workers = 1; workers < most; workers *= 2) counts.push_back(workers);
  counts.push_back(most);
  std::vector<Trial> trials;
  for (const int64_t workers : counts) {
    for (const int prefetch : {2, 4}) {
      if (workers == 0 && prefetch != 2) continue;  // nothing is read ahead
      for (const bool pinned : {false, true}) {
        if (pinned && device.is_cpu()) continue;
        Trial trial;
        trial.workers = static_cast<int>(workers);
        trial.prefetch = prefetch;
        trial.pinned = pinned;
        trials.push_back(trial);
      }
    }
  }
  return trials;
}

// What needs least of all that train as fast as the fastest, but for what is noise.
void suggest(Sweep& sweep) {
  constexpr double kLeastNoise = 0.02;
  double best = 0, differences = 0;
  for (const Trial& trial : sweep.trials) {
    best = std::max(best, trial.training);
    differences += trial.difference;
  }
  sweep.noise = std::max(kLeastNoise, differences / static_cast<double>(sweep.trials.size()));
  sweep.suggestion =
      *std::find_if(sweep.trials.begin(), sweep.trials.end(),
                    [&](const Trial& trial) { return trial.training >= (1 - sweep.noise) * best; });
}

nlohmann::ordered_json to_json(const Trial& trial) {
  return {{"workers", trial.workers},
          {"prefetch_factor", trial.prefetch},
          {"pin_memory", trial.pinned},
          {"alone_images_per_second", trial.alone},
          {"training_images_per_second", trial.training},
          {"data_wait", trial.wait}};
}

nlohmann::ordered_json to_json(const Sweep& sweep, Device device) {
  nlohmann::ordered_json values;
  values["device"] = to_string(device);
  values["in_memory_images_per_second"] = sweep.in_memory;
  values["noise"] = sweep.noise;
  for (const Trial& trial : sweep.trials) values["trials"].push_back(to_json(trial));
  values["suggestion"] = to_json(sweep.suggestion);
  return values;
}

// Training with the best of each number of workers that a logarithmic axis can show.
Curve curve_of(const Sweep& sweep) {
  std::map<int, double> best;
  for (const Trial& trial : sweep.trials) {
    if (trial.workers > 0) {
      best[trial.workers] = std::max(best[trial.workers], trial.training);
    }
  }
  Curve curve;
  for (const auto& [workers, rate] : best) {
    curve.x.push_back(workers);
    curve.y.push_back(rate);
  }
  curve.x_name = "workers";
  curve.y_name = "images/s";
  if (sweep.suggestion.workers > 0) curve.mark = sweep.suggestion.workers;
  return curve;
}

void show(const Sweep& sweep, Device device) {
  fmt::print("{:>8} {:>9} {:>7} {:>16} {:>19} {:>10} {:>10}\n", "workers", "prefetch", "pinned",
             "alone, images/s", "training, images/s", "data wait", "in memory");
  for (const Trial& trial : sweep.trials) {
    fmt::print("{:>8} {:>9} {:>7} {:>16.0f} {:>19.1f} {:>8.1f} % {:>8.1f} %\n", trial.workers,
               trial.workers > 0 ? std::to_string(trial.prefetch) : "-",
               trial.pinned ? "yes" : "no", trial.alone, trial.training, 100 * trial.wait,
               100 * trial.training / sweep.in_memory);
  }
  fmt::print("\nin memory     {:.1f} images/s: the step on images that lie on {} already\n",
             sweep.in_memory, to_string(device));
  const Trial& best = sweep.suggestion;
  fmt::print(
      "suggestion    --workers {}{}{}: as fast as the fastest but for {:.0f} %, by which "
      "measuring twice differs\n",
      best.workers, best.workers > 0 ? fmt::format(", prefetch_factor {}", best.prefetch) : "",
      device.is_cpu() ? ""
      : best.pinned   ? ", pin_memory"
                      : ", without pin_memory",
      100 * sweep.noise);
  fmt::print("              (--workers auto finds the number while training)\n");
}

int tune_loader(const LoaderFlags& flags) {
  constexpr int kRounds =
      2;  // so that what disturbs one measurement is not taken for the setting's
  Tuning tuning(flags.config);
  const train::RunFolder folder = tuning_folder(flags.config);
  Sweep sweep;
  sweep.trials = settings(flags, tuning.device());
  {
    const optim::TrainingSnapshot snapshot(tuning.model(), tuning.optimizer(), tuning.parts());
    // Weights are put back: those that diverge may take another time.
    for (int round = 0; round < kRounds; ++round) {
      sweep.in_memory = std::max(sweep.in_memory, measure_in_memory(tuning, flags));
      snapshot.restore();
      for (Trial& trial : sweep.trials) {
        run_trial(tuning, flags, trial);
        snapshot.restore();
      }
    }
  }
  suggest(sweep);
  const auto values = to_json(sweep, tuning.device());
  write_file(folder.path() + "/tune_loader.json", values.dump(2) + "\n");
  write_file(folder.path() + "/tune_loader.svg", svg_plot(curve_of(sweep)));
  if (flags.json) {
    fmt::print("{}\n", values.dump());
    return 0;
  }
  show(sweep, tuning.device());
  fmt::print("\nfigures  {0}/tune_loader.json\nplot     {0}/tune_loader.svg\n", folder.path());
  return 0;
}

}  // namespace

void add_tune_loader(CLI::App& tune, Command& command) {
  CLI::App* sub = tune.add_subcommand(
      "loader", "Speed of loading, alone and under training, by workers, prefetching and pinning");
  auto flags = std::make_shared<LoaderFlags>();
  add_config_flags(*sub, flags->config);
  add_number_flag(*sub, "--most-workers", flags->most_workers, 0, 256,
                  "largest number tried (0: twice the cores)");
  add_number_flag(*sub, "--seconds", flags->seconds, 0.001, 3600,
                  "of each measurement, of which a setting takes four");
  sub->add_flag("--json", flags->json, "print one JSON object");
  sub->callback([flags, &command] {
    command = [flags] {
      prepare_tuning(flags->config);
      return tune_loader(*flags);
    };
  });
}

}  // namespace wick::tool
