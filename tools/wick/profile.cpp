#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "wick/core/memory/stats.h"
#include "wick/core/profile/memory_timeline.h"
#include "wick/core/profile/profiler.h"
#include "wick/core/profile/verdict.h"
#include "wick/core/stream.h"
#include "wick/tools/common/number_flag.h"
#include "wick/tools/common/recipe_flags.h"
#include "wick/tools/common/usage_error.h"
#include "wick/tools/study/gains.h"
#include "wick/tools/study/trace_page.h"
#include "wick/tools/wick/commands.h"
#include "wick/tools/wick/ranks.h"
#include "wick/train/peak_memory.h"
#include "wick/train/trial.h"

namespace wick::tool {

namespace {

struct ProfileFlags {
  train::Recipe recipe;
  int64_t steps = 20;
  int64_t warmup = 5;
  std::string trace, page;
  std::string drawn;  // a trace that is there already
  std::string sort_by = "self_cpu_time_total";
  std::string study;  // empty: the newest of this machine
  int64_t row_limit = 25;
  bool by_shape = false, by_module = false, memory = false, json = false;
};

nlohmann::ordered_json to_json(const profile::Verdict& verdict) {
  nlohmann::ordered_json values;
  values["bound"] = to_string(verdict.bound());
  values["steps"] = verdict.steps;
  values["seconds"] = verdict.seconds;
  for (size_t i = 0; i < profile::kBounds; ++i) {
    const auto bound = static_cast<profile::Bound>(i);
    values["shares"][to_string(bound)] = verdict.share(bound);
  }
  values["synchronizations"] = verdict.synchronizations;
  values["text"] = verdict.text();
  return values;
}

profile::ProfilerOptions options_of(const ProfileFlags& flags) {
  profile::ProfilerOptions options;
  options.record_shapes = flags.by_shape;
  options.profile_memory = flags.memory;
  options.with_flops = true;
  options.with_modules = flags.by_module || flags.memory;
  options.schedule = profile::Schedule{.warmup = flags.warmup, .active = flags.steps, .repeat = 1};
  return options;
}

// The trace of all ranks; each writes its own beside it before.
void write_trace(const profile::Profiler& profiler, const train::Ranks& ranks,
                 const std::string& path) {
  if (ranks.alone()) return profiler.export_chrome_trace(path);
  const auto path_of = [&](int rank) { return fmt::format("{}.rank{}", path, rank); };
  profiler.export_chrome_trace(path_of(ranks.rank()));
  ranks.barrier();
  if (!ranks.first()) return;
  std::vector<std::string> paths;
  for (int rank = 0; rank < ranks.size(); ++rank) paths.push_back(path_of(rank));
  profile::merge_chrome_traces(paths, path);
  for (const std::string& one : paths) std::filesystem::remove(one);
}

// The trace, and the page that draws it, as far as they are asked for.
void write_trace_files(const profile::Profiler& profiler, const train::Ranks& ranks,
                       const ProfileFlags& flags) {
  if (flags.trace.empty() && flags.page.empty()) return;
  const std::string path = flags.trace.empty() ? flags.page + ".trace.json" : flags.trace;
  write_trace(profiler, ranks, path);
  if (flags.page.empty() || !ranks.first()) return;
  study::write_trace_page(path, flags.page);
  if (flags.trace.empty()) std::filesystem::remove(path);
}

// What the run's steps are to hold, before there is one of their size.
train::PeakPrediction predict_peak(const train::Recipe& recipe) {
  train::Trial trial(recipe);
  return train::predict_peak_memory(
      trial.model(), trial.optimizer(), trial.device(), *recipe.loading.batch_size,
      [&](int64_t samples) { trial.step_on_noise(samples); }, trial.parts());
}

std::string text_of(const train::PeakPrediction& predicted) {
  return fmt::format("Predicted before the first step, from {} and {} samples: {}\n", predicted.few,
                     predicted.more, format_bytes(predicted.bytes));
}

void show(const profile::Profiler& profiler, const ProfileFlags& flags, Device device,
          const std::optional<train::PeakPrediction>& predicted) {
  const bool simulated = device.is_cuda() && device_properties(device).simulated;
  const profile::KeyAverages averages =
      profiler.key_averages({.input_shape = flags.by_shape, .module = flags.by_module});
  std::optional<profile::Verdict> verdict;
  // A simulated GPU has no speed.
  if (!simulated) verdict = profile::judge(profiler.recording(), profile::measure_ceilings(device));
  std::optional<study::StudyGains> measured;
  if (verdict) measured = study::find_measured(verdict->bound(), flags.study, to_string(device));
  if (flags.json) {
    nlohmann::ordered_json all;
    all["device"] = to_string(device);
    if (verdict) all["verdict"] = to_json(*verdict);
    if (measured) all["measured"] = study::to_json(*measured);
    if (predicted) {
      const profile::MemoryTimeline timeline(profiler.recording(), device);
      all["peak_bytes"] = {{"predicted", predicted->bytes}, {"held", timeline.peak().total}};
    }
    all["averages"] = nlohmann::ordered_json::parse(averages.json());
    fmt::print("{}\n", all.dump());
    return;
  }
  fmt::print("{}",
             averages.table(
                 {.sort_by = flags.sort_by, .row_limit = flags.row_limit, .rates = !simulated}));
  if (flags.memory) {
    fmt::print("\n{}", profile::MemoryTimeline(profiler.recording(), device).text());
  }
  if (predicted) fmt::print("{}", text_of(*predicted));
  if (verdict) {
    fmt::print("\n{}{}", verdict->text(), study::text_of(measured));
  } else {
    fmt::print("\ndevice: simulated, so no time above is a GPU's, and there is no verdict\n");
  }
}

void check_sort_flag(const std::string& column) {
  try {
    profile::check_sort_key(column);
  } catch (const Error& error) {
    throw UsageError(fmt::format("--sort-by: {}", error.what()));
  }
}

int run_profile(const ProfileFlags& flags) {
  const train::Ranks ranks = join_ranks(flags.recipe, {});
  std::optional<train::PeakPrediction> predicted;
  if (flags.memory && ranks.alone()) predicted = predict_peak(flags.recipe);
  train::Classifier parts(flags.recipe, ranks);
  parts.checkpoint_activations();
  profile::Profiler profiler(options_of(flags));
  profiler.set_rank(ranks.rank());
  train::TrainerOptions options = parts.trainer_options("");
  options.epochs = INT32_MAX;
  options.max_steps = flags.warmup + flags.steps;
  options.eval_every = 0;
  options.eval_every_steps.reset();
  options.checkpoint_every.reset();
  options.profiler = &profiler;
  train::Trainer trainer(parts.model(), parts.optimizer(), parts.loss(), parts.train_data(),
                         std::move(options));
  profiler.start();
  trainer.run();
  profiler.stop();
  write_trace_files(profiler, ranks, flags);
  if (!ranks.first()) return 0;
  show(profiler, flags, parts.device(), predicted);
  if (flags.json) return 0;
  if (!flags.trace.empty()) fmt::print("trace: {} (open it at ui.perfetto.dev)\n", flags.trace);
  if (!flags.page.empty()) fmt::print("page: {}\n", flags.page);
  return 0;
}

}  // namespace

void add_profile(CLI::App& app, Command& command) {
  CLI::App* sub = app.add_subcommand(
      "profile", "Profiles some steps of a run: what takes how long, and what bounds a step");
  auto flags = std::make_shared<ProfileFlags>();
  add_recipe_flags(*sub, flags->recipe);
  add_number_flag(*sub, "--steps", flags->steps, 1, 1e6, "steps that are recorded");
  add_number_flag(*sub, "--skip-steps", flags->warmup, 0, 1e9, "steps before the recorded ones");
  sub->add_option("--trace", flags->trace, "file for a trace in Chrome's format");
  CLI::Option* page =
      sub->add_option("--page", flags->page, "file for a page that draws the trace");
  CLI::Option* drawn =
      sub->add_option("--draw", flags->drawn,
                      "draw this trace, as a program of yours wrote it, and profile nothing");
  sub->add_option("--sort-by", flags->sort_by, "column that the table is sorted by");
  add_number_flag(*sub, "--row-limit", flags->row_limit, 1, 1e6, "rows of the table");
  sub->add_flag("--by-shape", flags->by_shape, "a row for each shape of inputs");
  sub->add_flag("--by-module", flags->by_module, "a row for each module");
  sub->add_flag("--memory", flags->memory,
                "tell who holds what memory where it is most, and what smaller steps predict");
  sub->add_option("--study", flags->study,
                  "folder of the study whose gains are told (default: the newest in runs/)");
  sub->add_flag("--json", flags->json, "print one JSON object");
  sub->footer(
      "Writes no run folder. Behind wick launch, each rank records, and the trace is that of all.\n"
      "Example: wick profile --model resnet18 --data shapes10 --steps 5 --trace trace.json");
  drawn->needs(page);
  sub->callback([flags, &command] {
    command = [flags] {
      if (!flags->drawn.empty()) {
        study::write_trace_page(flags->drawn, flags->page);
        fmt::print("page: {}\n", flags->page);
        return 0;
      }
      require(!flags->recipe.run.resume, "resume", "not with wick profile, which begins anew");
      check_sort_flag(flags->sort_by);
      train::check(flags->recipe);
      flags->recipe = train::resolve(flags->recipe);
      return run_profile(*flags);
    };
  });
}

}  // namespace wick::tool
