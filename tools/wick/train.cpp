#include <fmt/core.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <cstdlib>
#include <string_view>

#include "wick/core/memory/stats.h"
#include "wick/core/profile/nvtx.h"
#include "wick/core/stream.h"
#include "wick/dist/launch_env.h"
#include "wick/nn/module.h"
#include "wick/tools/common/as_typed.h"
#include "wick/tools/common/exit_codes.h"
#include "wick/tools/common/interrupt.h"
#include "wick/tools/common/printable.h"
#include "wick/tools/common/recipe_flags.h"
#include "wick/tools/common/shell_word.h"
#include "wick/tools/common/usage_error.h"
#include "wick/tools/wick/commands.h"
#include "wick/tools/wick/console.h"
#include "wick/tools/wick/launch.h"
#include "wick/tools/wick/lint.h"
#include "wick/tools/wick/ranks.h"
#include "wick/train/classifier.h"
#include "wick/train/device.h"
#include "wick/train/hardware.h"

namespace wick::tool {

namespace {

struct TrainFlags {
  train::Recipe recipe;
  std::string config_file;
  bool print_config = false;
  bool json = false;
  bool lint = false;
  LaunchFlags launch;
};

// Of images height, width and channels, else the shape.
std::string size_text(const data::TrainTest& data) {
  const Shape& shape = data.sample().shape;
  if (!data.images) return concat("the shape ", shape);
  return fmt::format("{}x{}x{}", shape[1], shape[2], shape[0]);
}

void print_header(const train::Classifier& parts, const train::Trainer& trainer) {
  const train::Recipe& recipe = parts.recipe();
  const train::Ranks& ranks = parts.ranks();
  const int64_t batch = *recipe.loading.batch_size;
  std::string why_cpu;
  train::choose_device(recipe.run.device, &why_cpu);
  fmt::print("hardware  {}\n", train::one_line(train::find_hardware()));
  fmt::print("device    {}{}\n", to_string(parts.device()),
             why_cpu.empty() ? "" : fmt::format(" ({})", why_cpu));
  if (!ranks.alone()) {
    fmt::print("ranks     {}, {} images of each step on each, tensors by {}\n", ranks.size(),
               batch / ranks.size(), ranks.group()->transport());
  }
  const data::TrainTest& data = parts.data();
  fmt::print("data      {}: {} {} of {} to train on, {} to test with, {} classes\n",
             recipe.data.name, data.train->size(), data.images ? "images" : "samples",
             size_text(data), data.test->size(), data.num_classes());
  fmt::print("model     {}\n\n{}\n", recipe.model.name,
             nn::summary(*parts.model(), parts.noise(1)));
  const std::string& amp = recipe.arithmetic.amp;
  fmt::print(
      "{} epochs of {} steps of {} images, {}, {} schedule, peak rate {}, {}, {} threads\n\n",
      *recipe.run.epochs, trainer.steps_per_epoch(), batch, recipe.optimizer.name,
      recipe.schedule.name, *recipe.optimizer.lr, amp == "off" ? "float32" : amp,
      *recipe.run.threads);
}

// What would have let the run go on after OutOfMemory.
std::string memory_hint(train::Classifier& parts) {
  const std::optional<nn::MemoryAdvice> advice = parts.advise_on_memory();
  if (!advice) return "";
  std::string hint;
  const int64_t fit = advice->samples;
  if (fit < 1) {
    hint = "; not even one image would fit";
  } else if (fit < parts.largest_piece()) {
    const int64_t batch = *parts.recipe().loading.batch_size;
    hint = fmt::format(
        "; about {} images would fit at a time: --batch-size {}, or --accumulate {} for the same "
        "batch in pieces",
        fit, fit, (batch + fit - 1) / fit);
  }
  if (advice->saved_by_recomputation > 0) {
    hint += fmt::format("; --checkpoint-activations on would need {} less",
                        bytes_text(advice->saved_by_recomputation));
  }
  return hint;
}

// Runs to the end, or until an error, which then says what would help.
train::Outcome run_and_explain(train::Classifier& parts, train::Trainer& trainer) {
  const bool records = parts.recipe().memory.history;
  const bool is_alone = parts.ranks().alone();
  const auto save_history = [&] {
    if (records && parts.ranks().first()) {
      const auto folder = train::RunFolder::of_other(trainer.folder());
      save_memory_snapshot(parts.device(), folder.memory_file());
    }
  };
  if (records) record_memory_history(parts.device());
  try {
    const train::Outcome outcome = trainer.run();
    save_history();
    return outcome;
  } catch (const OutOfMemory& error) {
    save_history();
    if (!is_alone) throw;
    throw OutOfMemory(error.what() + memory_hint(parts), error.requested_bytes(), error.figures());
  } catch (const train::Diverged& error) {
    throw train::Diverged(concat(error.what(), ": lower --lr (it was ",
                                 *parts.recipe().optimizer.lr,
                                 " at its peak), or see with --detect-anomaly where it begins"));
  } catch (const DeviceError& error) {
    if (!is_alone) throw;
    throw DeviceError(concat(error.what(), "; go on from the newest checkpoint with: wick train ",
                             "--run-dir ", shell_word(trainer.folder()), " --resume"));
  }
}

// What makes this process compute other bytes than the run before it would have.
std::vector<std::string> find_changes(const train::Classifier& parts,
                                      const train::RunFolder& folder) {
  std::vector<std::string> changes =
      train::changes_since(parts.recipe(), train::recipe_from_json(folder.config_file()));
  for (std::string& change : folder.environment_changes()) changes.push_back(std::move(change));
  return changes;
}

void tell_changes(const std::vector<std::string>& changes) {
  for (const std::string& change : changes) {
    fmt::print(stderr, "wick: resume: {}\n", printable(change));
  }
  if (changes.empty()) return;
  fmt::print(stderr, "wick: resume: so the weights may get other bytes than without the stop\n");
}

// Whether the run goes on from a checkpoint, or begins.
void begin(const train::Classifier& parts, train::Trainer& trainer,
           const train::RunFolder& folder) {
  if (!parts.recipe().run.resume) return trainer.begin();
  const bool is_first = parts.ranks().first();
  const auto changes = is_first ? find_changes(parts, folder) : std::vector<std::string>();
  std::string rejected;
  const auto tell = [&] {
    if (parts.ranks().first()) fmt::print(stderr, "{}", rejected);
  };
  try {
    trainer.resume(&rejected);
  } catch (const InvalidOption& error) {
    tell();
    throw InvalidOption("resume", error.problem() + " by --epochs and --max-steps");
  } catch (const Error&) {
    tell();
    throw;
  }
  tell();
  tell_changes(changes);
}

void print_files(const train::Trainer& trainer) {
  const auto folder = train::RunFolder::of_other(trainer.folder());
  fmt::print("\nmetrics      {}\nweights      {}\ncheckpoints  {}\n", folder.metrics_file(),
             folder.weights_file(), folder.checkpoints());
  if (const auto& best = trainer.best()) {
    fmt::print("best         {}/step-{}, with test loss {:.4f}\n", folder.checkpoints(),
               best->first, best->second);
  }
  fmt::print("evaluate it again with: {} --run-dir {}\n", as_typed("wick eval"),
             shell_word(folder.path()));
}

// A signal handler has nothing but globals.
const train::StopToken& stop_token() {
  static const train::StopToken token;
  return token;
}

// Until there is something to save: 130 would promise that it was.
void end_before_start(int) {
  constexpr std::string_view kText = "wick: stopped before the first step, with nothing to save\n";
  static_cast<void>(!write(STDERR_FILENO, kText.data(), kText.size()));
  _exit(kFailedExit);
}

std::string resume_command(const train::Trainer& trainer, const train::Ranks& ranks) {
  const std::string command =
      fmt::format("{} --run-dir {} --resume", as_typed("wick train"), shell_word(trainer.folder()));
  if (ranks.alone()) return command;
  const bool is_ours = std::getenv("WICK_RESTARTS") != nullptr;
  return is_ours ? fmt::format("{} --ranks {}", command, ranks.size())
                 : fmt::format("{}, as {} ranks by the same launcher", command, ranks.size());
}

int train_here(const train::Recipe& recipe, bool json, const train::Ranks& ranks) {
  const std::string& dir = recipe.run.dir;
  const train::RunFolder folder = !ranks.first()      ? train::RunFolder::of_other(dir)
                                  : recipe.run.resume ? train::RunFolder::open(dir)
                                                      : train::RunFolder::plan(dir);
  folder.load_plans(ranks.rank());
  train::Classifier parts(recipe, ranks);
  Console console(recipe, json, ranks, parts.device());
  const std::optional<nn::ActivationFit> fit = parts.checkpoint_activations();
  if (fit && console.is_text()) {
    fmt::print("activations  {} of {} blocks are recomputed: a step holds {}, without {}\n",
               fit->recomputed, fit->units, bytes_text(fit->peak), bytes_text(fit->plain_peak));
  }
  train::TrainerOptions options = parts.trainer_options(folder.path());
  console.follow(options, parts.data().test->size());
  options.stop = stop_token();
  train::Trainer trainer(parts.model(), parts.optimizer(), parts.loss(), parts.train_data(),
                         std::move(options));
  std::optional<profile::EmitNvtx> ranges;
  if (recipe.run.nvtx) ranges.emplace();
  console.set_length(trainer.steps_per_epoch(), trainer.total_steps());
  begin(parts, trainer, folder);
  if (console.is_text()) {
    print_header(parts, trainer);
    if (recipe.run.resume) {
      fmt::print("going on after step {} of {}\n", trainer.step(), trainer.total_steps());
    }
  }
  on_interrupt([](int) { stop_token().request(); }, /*once=*/true);
  const train::Outcome outcome = run_and_explain(parts, trainer);
  console.finish_line();
  if (outcome == train::Outcome::kInterrupted) {
    if (console.is_text()) {
      fmt::print("stopped after step {}; go on with: {}\n", trainer.step(),
                 resume_command(trainer, ranks));
    }
    return kInterruptedExit;
  }
  console.finish(trainer, *parts.optimizer(), trainer.folder());
  if (console.is_text()) print_files(trainer);
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
int train_on_ranks(const train::Recipe& recipe, const TrainFlags& flags) {
  on_interrupt(end_before_start, /*once=*/true);
  const train::Ranks ranks = join_ranks(recipe, flags.launch.ranks);
  try {
    return train_here(recipe, flags.json, ranks);
  } catch (const std::exception& error) {
    if (ranks.alone()) throw;
    ranks.group()->abort(error.what());
    const std::string text =
        fmt::format("rank {} of {}: {}", ranks.rank(), ranks.size(), error.what());
    const bool has_broken = is_broken(train::choose_device(recipe.run.device, ranks.local_rank()));
    throw ExitError(has_broken ? kBrokenDeviceExit : exit_code_of(error), text);
  }
}

// Makes the recipe that of the run to go on with, but for what flags and variables say.
void take_over(const CLI::App& app, TrainFlags& flags) {
  train::Recipe& recipe = flags.recipe;
  const std::string dir = recipe.run.dir;
  const auto folder = train::RunFolder::open(dir);
  apply_recipe_file(app, folder.config_file(), recipe);
  // So many as suit the ranks there are now, where those are not as many as before.
  const auto env = dist::launch_env();
  const int64_t ranks = env ? env->world_size : flags.launch.ranks.value_or(1);
  const bool is_as_before = recipe.record.world_size.value_or(1) == ranks;
  if (!is_as_before && app.get_option("--threads")->count() == 0) recipe.run.threads.reset();
  // The file outweighs what the run has, as flags do.
  if (!flags.config_file.empty()) apply_recipe_file(app, flags.config_file, recipe);
  recipe.run.dir = dir;
  recipe.run.resume = true;
  train::check(recipe);
  train::check_resumes(train::resolve(recipe), train::recipe_from_json(folder.config_file()));
}

OptionFields all_flags(train::Recipe& recipe) {
  OptionFields all;
  for (train::OptionGroup& group : train::groups(recipe)) {
    for (OptionField& field : group.fields) all.push_back(std::move(field));
  }
  return all;
}

int run_train(const CLI::App& app, TrainFlags& flags) {
  train::Recipe& recipe = flags.recipe;
  if (!flags.config_file.empty()) apply_recipe_file(app, flags.config_file, recipe);
  if (recipe.run.resume && !recipe.run.dir.empty()) take_over(app, flags);
  train::check(recipe);
  train::Recipe resolved = train::resolve(recipe);
  if (flags.print_config) {
    fmt::print("{}\n", to_json(all_flags(resolved)));
    return 0;
  }
  if (flags.lint) return lint(resolved, flags.json);
  if (starts_ranks(flags.launch)) return launch_train(flags.launch, resolved);
  return train_on_ranks(resolved, flags);
}

}  // namespace

void add_train(CLI::App& app, Command& command) {
  CLI::App* sub = app.add_subcommand(
      "train", "Trains a model on images; without flags, a ResNet-20 on shapes drawn on the spot");
  auto flags = std::make_shared<TrainFlags>();
  add_recipe_flags(*sub, flags->recipe);
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
  sub->callback(
      [sub, flags, &command] { command = [sub, flags] { return run_train(*sub, *flags); }; });
}

}  // namespace wick::tool
