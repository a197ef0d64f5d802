#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <system_error>

#include "wick/core/checkpoint.h"
#include "wick/core/file.h"
#include "wick/tools/common/number_flag.h"
#include "wick/tools/common/recipe_flags.h"
#include "wick/tools/common/usage_error.h"
#include "wick/tools/tune/commands.h"
#include "wick/tools/tune/search.h"
#include "wick/train/lr_finder.h"
#include "wick/train/trial.h"

namespace wick::tool {

namespace {

struct LrFlags {
  train::Recipe recipe;
  train::LrFinderOptions finder;
  bool json = false;
};

nlohmann::ordered_json to_json(const std::vector<train::LrFinderPoint>& points) {
  nlohmann::ordered_json values;
  for (const train::LrFinderPoint& p : points) {
    values.push_back({{"lr", p.lr}, {"loss", p.loss}, {"smoothed", p.smoothed}});
  }
  return values;
}

nlohmann::ordered_json to_json(const train::LrFinderResult& found) {
  nlohmann::ordered_json values;
  values["suggestion"] = found.suggestion ? nlohmann::ordered_json(*found.suggestion)
                                          : nlohmann::ordered_json(nullptr);
  values["diverged"] = found.diverged;
  values["points"] = to_json(found.points);
  return values;
}

void show(const train::LrFinderResult& found, const Curve& curve) {
  fmt::print("{:>12} {:>12} {:>12}\n", "rate", "loss", "smoothed");
  const size_t every = std::max<size_t>(1, found.points.size() / 20);
  for (size_t i = 0; i < found.points.size(); i += every) {
    const train::LrFinderPoint& p = found.points[i];
    fmt::print("{:>12.3g} {:>12.4f} {:>12.4f}\n", p.lr, p.loss, p.smoothed);
  }
  fmt::print("\n{}\n", text_plot(curve));
  fmt::print("{}\n", found.diverged ? "The loss diverged at the last rate."
                                    : "The loss did not diverge up to the last rate.");
  if (found.suggestion) {
    fmt::print(
        "Steepest descent at {0:.3g}: train with --lr {0:.3g} (constant), or with a one-cycle "
        "schedule whose peak is up to ten times that.\n",
        *found.suggestion);
  } else {
    fmt::print("No suggestion: the loss fell nowhere between the steps that are left out.\n");
  }
}

// The test goes on from the newest state that was saved, behind the points that led to it.
void follow(Search& search, train::Trial& trial, train::LrFinderOptions& finder, int64_t every) {
  const CheckpointStore store(search.path("tune_lr"), /*keep=*/1);
  const nlohmann::json before = search["points"];
  const auto state = store.load_newest();
  if (state && static_cast<int64_t>(before.size()) >= state->step) {
    search.read([&] {
      for (int64_t i = 0; i < state->step; ++i) {
        const nlohmann::json& p = before.at(static_cast<size_t>(i));
        finder.done.push_back({p.at("lr"), p.at("loss"), p.at("smoothed")});
      }
    });
    trial.load(*state);
  }
  finder.on_point = [&search, &trial, store, every](const auto& points) {
    const auto step = static_cast<int64_t>(points.size());
    if (step % every != 0) return;
    search["points"] = to_json(points);
    search.save();
    store.save(trial.state(step));
  };
}

int tune_lr(LrFlags& flags, Search& search) {
  constexpr int64_t kUsualInterval = 10;  // steps
  train::Trial trial(flags.recipe);
  search.begin();
  const auto every = train::parse_interval(flags.recipe.run.checkpoint_every).steps;
  follow(search, trial, flags.finder, every.value_or(kUsualInterval));
  const train::LrFinderResult found = train::find_lr(
      trial.model(), trial.optimizer(), [&] { return trial.step(); }, flags.finder, trial.parts());
  Curve curve;
  for (const train::LrFinderPoint& p : found.points) {
    curve.x.push_back(p.lr);
    curve.y.push_back(p.smoothed);
  }
  curve.x_name = "learning rate";
  curve.y_name = "loss";
  curve.mark = found.suggestion;
  write_file(search.path("tune_lr.svg"), svg_plot(curve));
  search.end(to_json(found));
  std::error_code ignored;  // a leftover does no harm
  std::filesystem::remove_all(search.path("tune_lr"), ignored);
  if (flags.json) {
    fmt::print("{}\n", to_json(found).dump());
  } else {
    show(found, curve);
    fmt::print("\nfigures  {}\nplot     {}\n", search.path("tune_lr.json"),
               search.path("tune_lr.svg"));
  }
  return 0;
}

}  // namespace

void add_tune_lr(CLI::App& tune, Command& command) {
  CLI::App* sub = tune.add_subcommand(
      "lr", "Learning rate range test: trains with rising rates until the loss diverges");
  auto flags = std::make_shared<LrFlags>();
  add_recipe_flags(*sub, flags->recipe);
  train::LrFinderOptions& finder = flags->finder;
  add_number_flag(*sub, "--start-lr", finder.start_lr, train::kLeastLr, train::kMostLr,
                  "learning rate of the first step");
  add_number_flag(*sub, "--end-lr", finder.end_lr, train::kLeastLr, train::kMostLr,
                  "learning rate of the last step");
  add_number_flag(*sub, "--num-iter", finder.num_iter, 2, 1e15,
                  "steps between the first and the last rate");
  add_number_flag(*sub, "--smoothing", finder.smoothing, 0, 0.9999999,
                  "weight of a step's own loss in the running mean (0: no mean)");
  sub->add_flag("--json", flags->json, "print one JSON object");
  sub->callback([sub, flags, &command] {
    command = [sub, flags] {
      Search search("lr", *sub, flags->recipe);
      train::LrFinderOptions& o = flags->finder;
      search.keep("--start-lr", o.start_lr);
      search.keep("--end-lr", o.end_lr);
      search.keep("--num-iter", o.num_iter);
      search.keep("--smoothing", o.smoothing);
      if (o.start_lr >= o.end_lr) {
        throw UsageError(fmt::format("--start-lr: got {}, expected less than the {} of --end-lr",
                                     o.start_lr, o.end_lr));
      }
      return search.has_ended(flags->json) ? 0 : tune_lr(*flags, search);
    };
  });
}

}  // namespace wick::tool
