#include <CLI/CLI.hpp>

#include <memory>

#include "wick/dist/launch_env.h"
#include "wick/tools/common/number_flag.h"
#include "wick/tools/common/usage_error.h"
#include "wick/tools/wick/commands.h"
#include "wick/tools/wick/launch.h"
#include "wick/tools/wick/ranks.h"
#include "wick/train/classifier.h"

namespace wick::tool {

namespace {

void check(const LaunchFlags& flags) {
  constexpr int64_t kMostRanks = 256, kMostRestarts = 1'000'000;
  const auto check_range = [](const char* flag, int64_t value, int64_t low, int64_t high) {
    if (value >= low && value <= high) return;
    throw UsageError(concat(flag, ": out of range: got ", value, ", expected ", low, " to ", high));
  };
  check_range("--ranks", flags.ranks.value_or(1), 1, kMostRanks);
  check_range("--max-restarts", flags.max_restarts, 0, kMostRestarts);
}

SuperviseOptions options_of(const LaunchFlags& flags) {
  return {.ranks = flags.ranks.value_or(1),
          .max_restarts = flags.max_restarts,
          .flight_folder = flags.flight,
          .bind_cores = flags.bind_cores};
}

int launch(const LaunchFlags& flags, const std::vector<std::string>& words) {
  if (words.empty()) {
    throw UsageError("launch: what to start is missing: wick launch --ranks 2 -- train ...");
  }
  check(flags);
  const SuperviseOptions options = options_of(flags);
  if (words[0] != "train") {
    std::vector<std::string> started = words;
    if (words[0] == "profile") started.insert(started.begin(), "/proc/self/exe");
    return supervise(options, [&](int64_t) { return started; });
  }
  std::vector<std::string> all = {"train", "--ranks", std::to_string(options.ranks),
                                  "--max-restarts", std::to_string(options.max_restarts)};
  if (flags.bind_cores) all.emplace_back("--bind-cores");
  if (!flags.flight.empty()) all.insert(all.end(), {"--flight", flags.flight});
  all.insert(all.end(), words.begin() + 1, words.end());
  return run_program(all);
}

}  // namespace

void add_launch_flags(CLI::App& app, LaunchFlags& flags) {
  app.add_option("--ranks", flags.ranks,
                 "processes on this machine that train together, each on its share of every batch")
      ->check(check_whole_number);
  app.add_option(
         "--max-restarts", flags.max_restarts,
         "how often all ranks are started again, from the newest checkpoint, when one fails")
      ->check(check_whole_number)
      ->capture_default_str();
  app.add_option("--flight", flags.flight,
                 "folder for records of what ranks did last before a failure, for wick doctor");
  app.add_flag("--bind-cores", flags.bind_cores, "give each rank cores of its own");
}

bool starts_ranks(const LaunchFlags& flags) {
  check(flags);
  const bool wanted = flags.ranks.value_or(1) > 1 || flags.max_restarts > 0;
  return wanted && !dist::launch_env();
}

int launch_train(const LaunchFlags& flags, const train::Recipe& recipe) {
  const SuperviseOptions options = options_of(flags);
  train::check_shares(recipe, options.ranks);
  check_backend(recipe);
  train::RunFolder folder = recipe.run.resume ? train::RunFolder::open(recipe.run.dir)
                                              : train::RunFolder::plan(recipe.run.dir);
  folder.claim_for_ranks();  // what they restart into is to be their own
  return supervise(options, [&](int64_t restarts) {
    std::vector<std::string> words = program_words();
    words.insert(words.begin(), "/proc/self/exe");
    if (recipe.run.dir.empty()) words.insert(words.end(), {"--run-dir", folder.path()});
    if (restarts > 0 && !recipe.run.resume && folder.holds_run()) words.emplace_back("--resume");
    return words;
  });
}

void add_launch(CLI::App& app, Command& command, const std::vector<std::string>& words) {
  CLI::App* sub = app.add_subcommand(
      "launch", "Starts a program as several ranks: wick launch --ranks 2 -- train --model lenet");
  auto flags = std::make_shared<LaunchFlags>();
  add_launch_flags(*sub, *flags);
  sub->footer(
      "`wick train --ranks 2` is short for `wick launch --ranks 2 -- train`. Any other program is\n"
      "started with torchrun's variables. The ranks run on this machine. On several machines let\n"
      "torchrun, mpirun or srun start `wick train` as it is: it reads their variables.");
  sub->callback(
      [flags, words, &command] { command = [flags, words] { return launch(*flags, words); }; });
}

}  // namespace wick::tool
