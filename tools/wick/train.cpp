#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "wick/core/base/parallel.h"
#include "wick/core/memory/stats.h"
#include "wick/core/plans.h"
#include "wick/core/stream.h"
#include "wick/dist/launch_env.h"
#include "wick/tools/common/exit_codes.h"
#include "wick/tools/common/interrupt.h"
#include "wick/tools/common/shell_word.h"
#include "wick/tools/wick/classification.h"
#include "wick/tools/wick/commands.h"
#include "wick/tools/wick/config.h"
#include "wick/tools/wick/console.h"
#include "wick/tools/wick/launch.h"
#include "wick/tools/wick/lint.h"
#include "wick/tools/wick/memory_hint.h"
#include "wick/tools/wick/ranks.h"

namespace wick::tool {

namespace {

struct TrainFlags {
  TrainConfig config;
  std::string config_file;
  bool print_config = false;
  bool json = false;
  bool lint = false;
  LaunchFlags launch;
};

// What a resumed run must have in common with the run it goes on with.
constexpr const char* kLastingKeys[] = {"model",
                                        "data",
                                        "augment",
                                        "random_erasing",
                                        "mixup",
                                        "cutmix",
                                        "batch_size",
                                        "optimizer",
                                        "schedule",
                                        "warmup",
                                        "schedule_epochs",
                                        "schedule_gamma",
                                        "schedule_power",
                                        "seed",
                                        "lr",
                                        "weight_decay",
                                        "label_smoothing",
                                        "amp",
                                        "clip_norm",
                                        "accumulate",
                                        "ema",
                                        "image_size",
                                        "sync_batch_norm"};

void check_same_run(const TrainConfig& now, const TrainConfig& before) {
  const auto a = to_json(now), b = to_json(before);
  for (const char* key : kLastingKeys) {
    if (a[key] == b[key]) continue;
    throw UsageError(fmt::format("--resume: {} cannot change: got {}, the run has {}", key,
                                 a[key].dump(), b[key].dump()));
  }
}

// What a run trains, and on what.
struct Parts {
  Device device;
  data::TrainTest data;
  std::shared_ptr<nn::Module> model;
  std::shared_ptr<optim::Optimizer> optimizer;
};

Parts make_parts(const TrainConfig& config, const train::Ranks& ranks) {
  Parts parts{choose_device(config.device, ranks.local_rank()), open_train_data(config), {}, {}};
  parts.model = make_seeded_model(config, parts.data, parts.device);
  if (!config.resume) check_uses(config, parts.data, *parts.model);  // else as the run began
  parts.optimizer = make_optimizer(config, *parts.model);
  return parts;
}

void spare_activations(const TrainConfig& config, const Parts& parts, const train::Ranks& ranks,
                       bool tell) {
  const std::optional<nn::ActivationFit> fit =
      checkpoint_activations(config, *parts.model, parts.data.sample(), parts.device, ranks.size());
  if (!fit || !tell) return;
  fmt::print("activations  {} of {} blocks are recomputed: a step holds {}, without {}\n",
             fit->recomputed, fit->units, bytes_text(fit->peak), bytes_text(fit->plain_peak));
}

train::TrainerOptions trainer_options(const TrainConfig& config, const Parts& parts,
                                      const train::Ranks& ranks, const std::string& folder) {
  TrainConfig lasting = config;
  lasting.resume = false;
  if (!ranks.alone()) lasting.threads.reset();  // these suit that many ranks
  train::TrainerOptions options;
  options.epochs = *config.epochs;
  options.max_steps = config.max_steps;
  options.step = step_options(config, parts.device);
  options.schedule = schedule_options(config);
  options.eval_every = config.eval_every;
  options.evaluation = classification_loss(parts.model, /*label_smoothing=*/0);
  options.folder = folder;
  options.config = to_json(lasting).dump(2);
  options.log_every = config.log_every;
  options.checkpoint_every = config.checkpoint_every;
  options.unit = "images";
  options.ranks = ranks;
  options.sync_batch_norm = config.sync_batch_norm;
  options.zero = config.zero;
  options.detect_anomaly = config.detect_anomaly;
  return options;
}

// Of images height, width and channels, else the shape.
std::string size_text(const data::TrainTest& data) {
  const Shape& shape = data.sample().shape;
  if (!data.images) return concat("the shape ", shape);
  return fmt::format("{}x{}x{}", shape[1], shape[2], shape[0]);
}

void print_header(const TrainConfig& config, const Parts& parts, const train::Trainer& trainer,
                  const train::Ranks& ranks) {
  std::string why_cpu;
  choose_device(config.device, &why_cpu);
  fmt::print("hardware  {}\n", train::one_line(train::find_hardware()));
  fmt::print("device    {}{}\n", to_string(parts.device),
             why_cpu.empty() ? "" : fmt::format(" ({})", why_cpu));
  if (!ranks.alone()) {
    fmt::print("ranks     {}, {} images of each step on each, tensors by {}\n", ranks.size(),
               *config.batch_size / ranks.size(), ranks.group()->transport());
  }
  const data::TrainTest& data = parts.data;
  fmt::print("data      {}: {} {} of {} to train on, {} to test with, {} classes\n", config.data,
             data.train->size(), data.images ? "images" : "samples", size_text(data),
             data.test->size(), data.num_classes());
  const Tensor sample = noise_samples(data.sample(), 1, parts.device);
  fmt::print("model     {}\n\n{}\n", config.model, nn::summary(*parts.model, sample));
  fmt::print(
      "{} epochs of {} steps of {} images, {}, {} schedule, peak rate {}, {}, {} threads\n\n",
      *config.epochs, trainer.steps_per_epoch(), *config.batch_size, config.optimizer,
      config.schedule, *config.lr, config.amp == "off" ? "float32" : config.amp, *config.threads);
}

// Runs to the end, or until memory does: the error then says what would help.
train::Outcome run_and_explain(const TrainConfig& config, const Parts& parts,
                               train::Trainer& trainer, const train::Ranks& ranks,
                               const train::RunFolder& folder) {
  const auto save_history = [&] {
    if (config.memory_history && ranks.first())
      save_memory_snapshot(parts.device, folder.memory_file());
  };
  if (config.memory_history) record_memory_history(parts.device);
  try {
    const train::Outcome outcome = trainer.run();
    save_history();
    return outcome;
  } catch (const OutOfMemory& error) {
    save_history();
    if (!ranks.alone()) throw;
    throw OutOfMemory(
        error.what() + memory_hint(config, *parts.model, parts.data.sample(), parts.device),
        error.requested_bytes(), error.figures());
  } catch (const train::Diverged& error) {
    throw train::Diverged(concat(error.what(), ": lower --lr (it was ", *config.lr,
                                 " at its peak), or see with --detect-anomaly where it begins"));
  } catch (const DeviceError& error) {
    if (!ranks.alone()) throw;
    throw DeviceError(concat(error.what(), "; go on from the newest checkpoint with: wick train ",
                             "--run-dir ", shell_word(folder.path()), " --resume"));
  }
}

// Whether the run goes on from a checkpoint, or begins.
void begin(const TrainConfig& config, train::Trainer& trainer, const train::Ranks& ranks) {
  if (!config.resume) return trainer.begin();
  std::string rejected;
  const auto tell = [&] {
    if (ranks.first()) fmt::print(stderr, "{}", rejected);
  };
  try {
    trainer.resume(&rejected);
  } catch (const train::InvalidOption& error) {
    tell();
    throw UsageError(concat("--resume: ", error.problem(), " by --epochs and --max-steps"));
  } catch (const Error&) {
    tell();
    throw;
  }
  tell();
}

void print_files(const train::RunFolder& folder) {
  fmt::print("\nmetrics      {}\nweights      {}\ncheckpoints  {}\n", folder.metrics_file(),
             folder.weights_file(), folder.checkpoints());
  fmt::print("evaluate it again with: wick eval --run-dir {}\n", shell_word(folder.path()));
}

// A signal handler has nothing but globals.
const train::StopToken& stop_token() {
  static const train::StopToken token;
  return token;
}

int train_here(const TrainConfig& config, bool json, const train::Ranks& ranks) {
  const train::RunFolder folder = !ranks.first()  ? train::RunFolder::of_other(config.run_dir)
                                  : config.resume ? train::RunFolder::open(config.run_dir)
                                                  : train::RunFolder::plan(config.run_dir);
  set_num_threads(static_cast<int>(*config.threads));
  folder.load_plans();
  set_arithmetic(config);

  const Parts parts = make_parts(config, ranks);
  Console console(config, json, ranks, parts.device);
  spare_activations(config, parts, ranks, console.is_text());
  train::TrainerOptions options = trainer_options(config, parts, ranks, folder.path());
  console.follow(options, parts.data.test->size());
  options.stop = stop_token();
  train::Trainer trainer(parts.model, parts.optimizer,
                         classification_loss(parts.model, config.label_smoothing),
                         train_data(config, parts.data, parts.device), std::move(options));
  console.set_length(trainer.steps_per_epoch(), trainer.total_steps());
  begin(config, trainer, ranks);
  if (console.is_text()) {
    print_header(config, parts, trainer, ranks);
    if (config.resume) {
      fmt::print("going on after step {} of {}\n", trainer.step(), trainer.total_steps());
    }
  }
  on_interrupt([](int) { stop_token().request(); }, /*once=*/true);
  const train::Outcome outcome = run_and_explain(config, parts, trainer, ranks, folder);
  console.finish_line();
  if (config.benchmark && ranks.first()) plans_save(folder.plan_file());
  if (outcome == train::Outcome::kInterrupted) {
    if (console.is_text()) {
      fmt::print("stopped after step {}; go on with: wick train --run-dir {} --resume\n",
                 trainer.step(), shell_word(folder.path()));
    }
    return kInterruptedExit;
  }
  console.finish(trainer, *parts.optimizer, folder.path());
  if (console.is_text()) print_files(folder);
  return 0;
}

// Whatever the error was that told of it: the ranks' collectives may be the first to see it.
bool is_broken(Device device) {
  try {
    Event(device).record();
  } catch (const DeviceError&) {
    return true;
  } catch (const Error&) {
  }
  return false;
}

// As one of the ranks, if there are several. What ends one of them ends all.
int train_on_ranks(const TrainConfig& config, const TrainFlags& flags) {
  const train::Ranks ranks = join_ranks(config, flags.launch.ranks);
  try {
    return train_here(config, flags.json, ranks);
  } catch (const std::exception& error) {
    if (ranks.alone()) throw;
    ranks.group()->abort(error.what());
    const std::string text =
        fmt::format("rank {} of {}: {}", ranks.rank(), ranks.size(), error.what());
    if (is_broken(choose_device(config.device, ranks.local_rank()))) throw DeviceError(text);
    if (dynamic_cast<const dist::ProcessGroupError*>(&error)) throw OtherRankFailed(text);
    if (dynamic_cast<const UsageError*>(&error)) throw UsageError(text);
    throw Error(text);
  }
}

}  // namespace

void add_train(CLI::App& app, Command& command) {
  CLI::App* sub = app.add_subcommand(
      "train", "Trains a model on images; without flags, a ResNet-20 on shapes drawn on the spot");
  auto flags = std::make_shared<TrainFlags>();
  add_config_flags(*sub, flags->config);
  sub->add_option("--config", flags->config_file, "JSON file with values of the flags above")
      ->check([](const std::string& word) { return word.empty() ? "the value is empty" : ""; });
  sub->add_flag("--print-config", flags->print_config, "print the configuration in force and end");
  sub->add_flag("--lint", flags->lint,
                "look for habits that cost time, say what each costs here, and end");
  add_launch_flags(*sub, flags->launch);
  sub->add_flag("--json", flags->json, "print JSON lines instead of text");
  sub->footer(
      "Every flag is also a key of the file (batch_size) and a variable (WICK_BATCH_SIZE).\n"
      "Example: wick train --model lenet --data mnist --data-dir data --epochs 5");
  sub->callback([sub, flags, &command] {
    command = [sub, flags] {
      TrainConfig& config = flags->config;
      if (!flags->config_file.empty()) apply_config_file(*sub, flags->config_file, config);
      if (config.resume && !config.run_dir.empty()) {
        const std::string run_dir = config.run_dir;
        const auto folder = train::RunFolder::open(run_dir);
        apply_config_file(*sub, folder.config_file(), config);
        // So many as suit the ranks there are now.
        const bool several = flags->launch.ranks || dist::launch_env();
        if (several && sub->get_option("--threads")->count() == 0) config.threads.reset();
        // It outweighs what the run has, as flags do.
        if (!flags->config_file.empty()) apply_config_file(*sub, flags->config_file, config);
        config.run_dir = run_dir;
        config.resume = true;
        check_config(config);
        check_same_run(resolve(config), config_from_json(folder.config_file()));
      }
      check_config(config);
      const TrainConfig resolved = resolve(config);
      if (flags->print_config) {
        fmt::print("{}\n", to_json(resolved).dump(2));
        return 0;
      }
      if (flags->lint) return lint(resolved, flags->json);
      if (starts_ranks(flags->launch)) return launch_train(flags->launch, resolved);
      return train_on_ranks(resolved, *flags);
    };
  });
}

}  // namespace wick::tool
