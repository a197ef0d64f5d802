#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "wick/core/file.h"
#include "wick/tools/common/number_flag.h"
#include "wick/tools/common/usage_error.h"
#include "wick/tools/wick/recipe_flags.h"
#include "wick/tools/wick/tune.h"
#include "wick/train/lr_finder.h"
#include "wick/train/trial.h"

namespace wick::tool {

namespace {

struct LrFlags {
  train::Recipe recipe;
  train::LrFinderOptions finder;
  bool json = false;
};

nlohmann::ordered_json to_json(const train::LrFinderResult& found) {
  nlohmann::ordered_json values;
  values["suggestion"] = found.suggestion ? nlohmann::ordered_json(*found.suggestion)
                                          : nlohmann::ordered_json(nullptr);
  values["diverged"] = found.diverged;
  for (const train::LrFinderPoint& p : found.points) {
    values["points"].push_back({{"lr", p.lr}, {"loss", p.loss}, {"smoothed", p.smoothed}});
  }
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

int tune_lr(const LrFlags& flags) {
  train::Trial trial(flags.recipe);
  const train::RunFolder folder = tuning_folder(flags.recipe);
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
  write_file(folder.path() + "/tune_lr.json", to_json(found).dump(2) + "\n");
  write_file(folder.path() + "/tune_lr.svg", svg_plot(curve));
  if (flags.json) {
    fmt::print("{}\n", to_json(found).dump());
  } else {
    show(found, curve);
    fmt::print("\nfigures  {0}/tune_lr.json\nplot     {0}/tune_lr.svg\n", folder.path());
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
                  "first rate");
  add_number_flag(*sub, "--end-lr", finder.end_lr, train::kLeastLr, train::kMostLr, "last rate");
  add_number_flag(*sub, "--num-iter", finder.num_iter, 2, 1e15, "steps");
  add_number_flag(*sub, "--smoothing", finder.smoothing, 0, 0.9999999,
                  "weight of a step's loss in the running one");
  sub->add_flag("--json", flags->json, "print one JSON object");
  sub->callback([flags, &command] {
    command = [flags] {
      const train::LrFinderOptions& o = flags->finder;
      if (o.start_lr >= o.end_lr) {
        throw UsageError(fmt::format("--start-lr: got {}, expected less than the {} of --end-lr",
                                     o.start_lr, o.end_lr));
      }
      prepare_tuning(flags->recipe);
      return tune_lr(*flags);
    };
  });
}

}  // namespace wick::tool
