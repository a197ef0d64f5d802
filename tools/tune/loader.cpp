#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

#include "wick/core/file.h"
#include "wick/tools/common/number_flag.h"
#include "wick/tools/common/progress.h"
#include "wick/tools/common/recipe_flags.h"
#include "wick/tools/tune/commands.h"
#include "wick/tools/tune/search.h"
#include "wick/train/loader_finder.h"

namespace wick::tool {

namespace {

struct LoaderFlags {
  train::Recipe recipe;
  std::string workers, pin = "auto";
  double seconds = 0.5;
  bool json = false;
};

// The numbers that "0,2,4" lists, or that "0:50:5" counts: from 0, by 5, below 50.
std::vector<int64_t> parse_workers(const std::string& text) {
  constexpr int64_t kMost = 256;
  const bool is_range = text.find(':') != std::string::npos;
  std::vector<int64_t> numbers;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.size(), text.find(is_range ? ':' : ',', begin));
    const std::string word = text.substr(begin, end - begin);
    require(check_whole_number(word).empty() && word.size() <= 3 && std::stoll(word) >= 0 &&
                std::stoll(word) <= kMost,
            "workers", "got \"", text.substr(0, kMaxShown),
            "\", expected numbers up to 256 as 0,2,4, or FROM:BELOW:STEP as 0:50:5");
    numbers.push_back(std::stoll(word));
    begin = end + 1;
  }
  if (!is_range) return numbers;
  const int64_t step = numbers.size() == 3 ? numbers[2] : 1;
  require((numbers.size() == 2 || numbers.size() == 3) && step > 0 && numbers[0] < numbers[1],
          "workers", "got \"", text.substr(0, kMaxShown),
          "\", expected FROM:BELOW:STEP as 0:50:5, with a number to try");
  std::vector<int64_t> counted;
  for (int64_t number = numbers[0]; number < numbers[1]; number += step) counted.push_back(number);
  return counted;
}

train::LoaderFinderOptions finder_options(const LoaderFlags& flags) {
  train::LoaderFinderOptions options;
  if (!flags.workers.empty()) options.workers = parse_workers(flags.workers);
  check_name("pin", flags.pin, {"auto", "yes", "no", "both"});
  if (flags.pin == "yes") options.pin_memory = {true};
  if (flags.pin == "no") options.pin_memory = {false};
  if (flags.pin == "both") options.pin_memory = {false, true};
  if (const auto& factor = flags.recipe.loading.prefetch_factor) {
    options.prefetch_factors = {static_cast<int>(*factor)};
  }
  options.seconds = flags.seconds;
  options.epochs = flags.recipe.run.epochs;
  return options;
}

nlohmann::ordered_json to_json(const train::LoaderTrial& trial) {
  return {{"workers", trial.workers},
          {"prefetch_factor", trial.prefetch_factor},
          {"pin_memory", trial.pin_memory},
          {"alone_images_per_second", trial.alone},
          {"training_images_per_second", trial.training},
          {"seconds", trial.seconds},
          {"data_wait", trial.wait},
          {"difference", trial.difference},
          {"resident_bytes", trial.resident_bytes}};
}

nlohmann::ordered_json to_json(const train::LoaderFinderResult& found, Device device) {
  nlohmann::ordered_json values;
  values["device"] = to_string(device);
  values["in_memory_images_per_second"] = found.in_memory;
  values["noise"] = found.noise;
  for (const train::LoaderTrial& trial : found.trials) values["trials"].push_back(to_json(trial));
  values["suggestion"] = to_json(found.suggestion);
  return values;
}

// Training with the best of each number of workers that a logarithmic axis can show.
Curve curve_of(const train::LoaderFinderResult& found) {
  std::map<int, double> best;
  for (const train::LoaderTrial& trial : found.trials) {
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
  if (found.suggestion.workers > 0) curve.mark = found.suggestion.workers;
  return curve;
}

void show(const train::LoaderFinderResult& found, Device device) {
  fmt::print("{:>8} {:>9} {:>7} {:>16} {:>19} {:>9} {:>10} {:>10} {:>9}\n", "workers", "prefetch",
             "pinned", "alone, images/s", "training, images/s", "seconds", "data wait", "in memory",
             "resident");
  for (const train::LoaderTrial& trial : found.trials) {
    fmt::print("{:>8} {:>9} {:>7} {:>16.0f} {:>19.1f} {:>9.2f} {:>8.1f} % {:>8.1f} % {:>9}\n",
               trial.workers, trial.workers > 0 ? std::to_string(trial.prefetch_factor) : "-",
               trial.pin_memory ? "yes" : "no", trial.alone, trial.training, trial.seconds,
               100 * trial.wait, 100 * trial.training / found.in_memory,
               bytes_text(trial.resident_bytes));
  }
  fmt::print("\nin memory     {:.1f} images/s: the step on images that lie on {} already\n",
             found.in_memory, to_string(device));
  const train::LoaderTrial& best = found.suggestion;
  fmt::print(
      "suggestion    --workers {}{}{}: as fast as the fastest but for {:.0f} %, by which "
      "measuring twice differs\n",
      best.workers,
      best.workers > 0 ? fmt::format(", prefetch_factor {}", best.prefetch_factor) : "",
      device.is_cpu()   ? ""
      : best.pin_memory ? ", pin_memory"
                        : ", without pin_memory",
      100 * found.noise);
  fmt::print("              (--workers auto finds the number while training)\n");
}

// What was found before, and what is to be kept of what is found now.
void follow(Search& search, train::LoaderFinderOptions& finder) {
  search.read([&] {
    if (search["measured"].is_null()) return;
    finder.measured = search["measured"].get<int64_t>();
    finder.done.in_memory = search["in_memory"].get<double>();
    for (const nlohmann::json& t : search["trials"]) {
      finder.done.trials.push_back({t.at("workers"), t.at("prefetch_factor"), t.at("pin_memory"),
                                    t.at("alone_images_per_second"),
                                    t.at("training_images_per_second"), t.at("seconds"),
                                    t.at("data_wait"), t.at("difference"), t.at("resident_bytes")});
    }
  });
  finder.on_measurement = [&search](const train::LoaderFinderResult& found, int64_t measured) {
    search["measured"] = measured;
    search["in_memory"] = found.in_memory;
    search["trials"].clear();
    for (const train::LoaderTrial& trial : found.trials) {
      search["trials"].push_back(nlohmann::json(to_json(trial)));
    }
    search.save();
  };
}

int tune_loader(const LoaderFlags& flags, Search& search) {
  train::LoaderFinderOptions options = finder_options(flags);
  train::Trial trial(flags.recipe);
  search.begin();
  follow(search, options);
  const train::LoaderFinderResult found = train::find_loading(trial, options);
  const auto values = to_json(found, trial.device());
  write_file(search.path("tune_loader.svg"), svg_plot(curve_of(found)));
  search.end(values);
  if (flags.json) {
    fmt::print("{}\n", values.dump());
    return 0;
  }
  show(found, trial.device());
  fmt::print("\nfigures  {}\nplot     {}\n", search.path("tune_loader.json"),
             search.path("tune_loader.svg"));
  return 0;
}

}  // namespace

void add_tune_loader(CLI::App& tune, Command& command) {
  CLI::App* sub = tune.add_subcommand(
      "loader", "Speed of loading, alone and under training, by workers, prefetching and pinning");
  auto flags = std::make_shared<LoaderFlags>();
  add_recipe_flags(*sub, flags->recipe);
  sub->remove_option(sub->get_option("--workers"));  // which here is what to try
  const auto not_empty = [](const std::string& word) {
    return word.empty() ? "the value is empty" : "";
  };
  sub->add_option("--workers", flags->workers,
                  "numbers of workers to try, as 0,2,4, or FROM:BELOW:STEP as 0:50:5 (default: "
                  "powers of two up to twice the cores)")
      ->check(not_empty);
  sub->add_option("--pin", flags->pin,
                  "pinned memory for batches: yes, no or both (default: both on a GPU)")
      ->check(not_empty);
  sub->get_option("--prefetch-factor")
      ->description("batches that each worker loads ahead (default: try 2 and 4)");
  sub->get_option("--epochs")->description("measure so many epochs in place of --seconds");
  add_number_flag(*sub, "--seconds", flags->seconds, 0.001, 3600,
                  "seconds of each measurement, of which a setting takes four");
  sub->add_flag("--json", flags->json, "print one JSON object");
  sub->callback([sub, flags, &command] {
    command = [sub, flags] {
      finder_options(*flags);  // what is wrong with them comes first
      Search search("loader", *sub, flags->recipe);
      search.keep("--workers", flags->workers);
      search.keep("--pin", flags->pin);
      search.keep("--seconds", flags->seconds);
      return search.has_ended(flags->json) ? 0 : tune_loader(*flags, search);
    };
  });
}

}  // namespace wick::tool
