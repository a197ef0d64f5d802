#include "wick/tools/study/run.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <ctime>
#include <filesystem>

#include "wick/core/options.h"
#include "wick/core/stream.h"
#include "wick/data/catalog.h"
#include "wick/tools/common/as_typed.h"
#include "wick/tools/common/exit_codes.h"
#include "wick/tools/common/interrupt.h"
#include "wick/tools/common/shell_word.h"
#include "wick/tools/common/usage_error.h"
#include "wick/tools/study/roofline.h"
#include "wick/tools/study/scaling.h"
#include "wick/tools/study/study_page.h"
#include "wick/train/device.h"
#include "wick/train/hardware.h"
#include "wick/train/run_folder.h"

namespace wick::study {

namespace fs = std::filesystem;

namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr double kQuickSeconds = 560;
constexpr double kLeastSeconds = 0.2;  // of a pair of processes, unless less is asked for
// Of a study's time: the most that the ladder takes, and what is kept for learning.
constexpr double kLadderShare = 0.3, kLearningShare = 0.15;
constexpr double kLadderComparisons = 110;  // the most that the ladder takes as long as

std::string local_time(const char* format) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[64];
  std::strftime(text, sizeof text, format, &local);
  return text;
}

std::string new_folder() {
  // To the end of the program, when it is removed if no study came to be in it.
  static const auto made = train::make_new_folder("runs/study-" + local_time("%Y%m%d-%H%M%S"));
  return *made;
}

// What all parts of one study have in common.
json describe_study(const StudyOptions& options, const Settings& base) {
  return {{"kind", "start"},
          {"time", local_time("%Y-%m-%d %H:%M")},
          {"machine", describe_machine()},
          {"device", base.device},
          {"threads", base.threads},
          {"data", options.data},
          {"quick", options.quick}};
}

void check_same_study(const json& now, const json& before) {
  for (const char* key : {"machine", "device", "threads", "data", "quick"}) {
    if (now[key] == before.value(key, json())) continue;
    throw tool::UsageError(
        fmt::format("study: the folder's study is another one: its {} is {}, this one's {}: name "
                    "another --run-dir",
                    key, before.value(key, json()).dump(), now[key].dump()));
  }
}

std::vector<const Technique*> chosen(const StudyOptions& options) {
  std::vector<const Technique*> result;
  std::vector<std::string> known;
  for (const Technique& technique : techniques()) {
    known.emplace_back(technique.id);
    if (options.names.empty()) result.push_back(&technique);
  }
  known.insert(known.end(), {kLadder, kScaling});
  for (const std::string& name : options.names) {
    if (name == kLadder || name == kScaling) continue;
    const Technique* technique = find_technique(name);
    if (technique == nullptr) {
      throw tool::UsageError(fmt::format("study: unknown technique {}.{} See wick study --list",
                                         name, suggestion(name, known)));
    }
    result.push_back(technique);
  }
  return result;
}

std::string interval_text(const json& interval) {
  return fmt::format("{:.2f}x ({:.2f} to {:.2f})", interval["middle"].get<double>(),
                     interval["low"].get<double>(), interval["high"].get<double>());
}

void print_ladder(const json& ladder) {
  const auto print = [](const std::string& name, const json& comparison, const char* words) {
    fmt::print("{:<26}{:<24}{}\n", name, interval_text(comparison["speed"]), words);
  };
  for (const json& rung : ladder["rungs"]) print(rung["id"], rung["comparison"], "taken");
  for (const json& rung : ladder["rejected"]) print(rung["id"], rung["comparison"], "not taken");
  for (const json& id : ladder["untried"]) fmt::print("{:<26}not tried\n", id.get<std::string>());
  print("the ladder", ladder["total"], "of the last script over the first");
}

void print_line(const json& line) {
  if (line["kind"] == kLadder) print_ladder(line);
  if (!line.contains("id")) return;
  std::string name = line["id"];
  for (const json& entry : line.value("cases", json::array())) {
    const json& comparison = entry["comparison"];
    fmt::print("{:<26}{:<24}memory {:>5.2f}x  {}\n", name, interval_text(comparison["speed"]),
               1 / comparison["memory"].get<double>(), entry["workload"].get<std::string>());
    name.clear();
  }
  for (const json& entry : line.value("learning", json::array())) {
    fmt::print("{:<26}accuracy {:.1f} % to {:.1f} %  {}\n", name,
               100 * entry["off"]["accuracy"].get<double>(),
               100 * entry["on"]["accuracy"].get<double>(), entry["workload"].get<std::string>());
    name.clear();
  }
  std::fflush(stdout);
}

// The command that goes on with this study.
std::string command_to_go_on(const StudyOptions& options, const std::string& folder) {
  std::string command = tool::as_typed("wick study");
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) command += fmt::format(" {} {}", flag, tool::shell_word(value));
  };
  add("--run-dir", folder);
  if (options.quick) command += " --quick";
  if (options.device != "auto") add("--device", options.device);
  if (options.data != "shapes10") add("--data", options.data);
  add("--data-dir", options.data_dir);
  add("--bench", options.bench);
  if (options.threads > 0) add("--threads", std::to_string(options.threads));
  if (options.seconds > 0) add("--seconds", fmt::format("{}", options.seconds));
  const StudyOptions usual;
  if (options.link_gigabits != usual.link_gigabits) {
    add("--link-gbit", fmt::format("{}", options.link_gigabits));
  }
  if (options.link_microseconds != usual.link_microseconds) {
    add("--link-us", fmt::format("{}", options.link_microseconds));
  }
  for (const std::string& name : options.names) command += " " + name;
  return command;
}

class Study {
 public:
  Study(const StudyOptions& options, Store& store, const Settings& base)
      : options_(options), store_(store), base_(base), how_(thoroughness(options)) {}

  // Whether all of it was measured.
  bool run() {
    const auto names = [&](const char* name) {
      return std::count(options_.names.begin(), options_.names.end(), name) > 0;
    };
    if (options_.names.empty() || names(kLadder)) {
      const double one = how_.effort.seconds * how_.effort.processes;
      const double most = std::min(kLadderShare * how_.most_seconds, kLadderComparisons * one);
      part(kLadder, "", "the ladder", [&] { return climb_ladder(base_, how_, most); });
    }
    if (options_.names.empty()) {
      part("sweep", "", "the loader's sweep", [&] { return sweep_loader(base_, how_); });
      part("memory", "", "memory over a step", [&] { return trace_memory(base_); });
    }
    if (names(kScaling)) {
      part(kScaling, "", kScaling, [&] { return measure_scaling(options_, base_, how_); });
    }
    const std::vector<const Technique*> all = chosen(options_);
    for (size_t i = 0; i < all.size(); ++i) {
      const Technique& technique = *all[i];
      if (technique.needs_gpu && parse_device(base_.device).is_cpu()) {
        fmt::print("{:<26}needs a GPU\n", technique.id);
      } else if (!technique.cases.empty()) {
        part("technique", technique.id, technique.id,
             [&] { return measure_technique(technique, base_, within_time(all.size() - i)); });
      }
    }
    for (const Technique* technique : all) {
      if (technique->learning.empty()) continue;
      part("learning", technique->id, technique->id,
           [&] { return measure_learning(*technique, base_, learner_); });
    }
    return complete_;
  }

 private:
  double passed() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

  // As thorough as the time left allows where `parts` are still to come, and then learning: a
  // quarter of a part's share goes to measuring its first workload, in one pair of processes after
  // another, half of that to its second, the rest to what is not measuring.
  Thoroughness within_time(size_t parts) const {
    Thoroughness how = how_;
    const double left = (1 - kLearningShare) * how.most_seconds - passed();
    const double seconds = left / static_cast<double>(parts) / 4 / how.effort.processes;
    how.effort.seconds =
        std::clamp(seconds, std::min(kLeastSeconds, how.effort.seconds), how.effort.seconds);
    return how;
  }

  template <class Measure>
  void part(const std::string& kind, const std::string& id, const std::string& name,
            const Measure& measure) {
    if (interrupted) throw Interrupted();
    if (store_.find(kind, id) != nullptr) return;  // from before an interruption
    if (passed() > how_.most_seconds) {
      fmt::print("{:<26}left out: the time is up\n", name);
      complete_ = false;
      return;
    }
    try {
      const json line = measure();
      store_.append(line);
      print_line(line);
    } catch (const std::exception& error) {
      if (interrupted) throw Interrupted();
      complete_ = false;
      store_.append({{"kind", "failure"}, {"part", kind}, {"id", id}, {"error", error.what()}});
      fmt::print("{:<26}failed: {}\n", name, error.what());
    }
    std::fflush(stdout);
  }

  const StudyOptions& options_;
  Store& store_;
  Settings base_;
  Thoroughness how_;
  Learner learner_{how_.learning_steps, how_.learning_seeds};
  Clock::time_point begin_ = Clock::now();
  bool complete_ = true;
};

void stop_at_signals() {
  tool::on_interrupt([](int) { interrupted = true; }, /*once=*/true);
  std::signal(SIGPIPE, SIG_IGN);  // a worker that is gone is an error to report
}

}  // namespace

json describe_machine() {
  const train::Hardware hardware = train::find_hardware();
  return {{"processor", hardware.cpu_name},
          {"cores", hardware.cores},
          {"memory_bytes", hardware.memory_bytes},
          {"features", hardware.isa},
          {"gpus", hardware.gpus},
          {"driver", hardware.nvidia_driver}};
}

Thoroughness thoroughness(const StudyOptions& options) {
  Thoroughness how;
  how.effort = {
      .seconds = 4, .slice_seconds = 0.1, .min_pairs = 8, .tight_enough = 0.005, .processes = 3};
  if (options.quick) {
    how.effort = {.seconds = 0.8, .slice_seconds = 0.05};
    how.learning_steps = 140;
    how.learning_seeds = 6;
    how.most_seconds = kQuickSeconds;
  }
  if (options.seconds > 0) how.effort.seconds = options.seconds / how.effort.processes;
  how.effort.slice_seconds = std::min(how.effort.slice_seconds, how.effort.seconds / 16);
  return how;
}

Settings base_settings(const StudyOptions& options, const std::string& scratch) {
  Settings settings;
  train::check_device_name(options.device);
  const Device device = train::choose_device(options.device);
  if (device.is_cuda() && device_properties(device).simulated) {
    throw tool::UsageError("study: --device " + options.device +
                           ": a simulated GPU has no speed: use --device cpu");
  }
  settings.device = to_string(device);
  settings.threads = options.threads > 0 ? options.threads : train::find_hardware().cores;
  settings.data = options.data;
  settings.data_dir = options.data_dir;
  settings.scratch = scratch;
  return settings;
}

int run_study(const StudyOptions& options) {
  chosen(options);
  data::check({.name = options.data, .dir = options.data_dir});
  if (!options.bench.empty()) check_bench(options.bench);
  const std::string folder = options.run_dir.empty() ? new_folder() : options.run_dir;
  const Settings base = base_settings(options, folder + "/.study-scratch");
  Store store(folder);
  const json start = describe_study(options, base);
  if (const json* before = store.find("start")) {
    check_same_study(start, *before);
  } else {
    store.append(start);
  }
  stop_at_signals();
  Study study(options, store, base);
  bool complete = false;
  try {
    complete = study.run();
  } catch (const Interrupted&) {
  }
  std::error_code ignored;
  fs::remove_all(base.scratch, ignored);
  write_study_page(store, options.bench);
  fmt::print("\npage    {}\n", store.page());
  if (complete) return 0;
  fmt::print("not all of it was measured; go on with: {}\n", command_to_go_on(options, folder));
  return interrupted ? tool::kInterruptedExit : tool::kFailedExit;
}

}  // namespace wick::study
