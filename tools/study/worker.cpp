#include "wick/tools/study/worker.h"

#include <sys/prctl.h>

#include <chrono>
#include <csignal>
#include <iostream>
#include <sstream>

#include "wick/core/apply.h"
#include "wick/core/base/parallel.h"
#include "wick/core/memory/stats.h"
#include "wick/core/plans.h"
#include "wick/core/profile/profiler.h"
#include "wick/core/profile/verdict.h"
#include "wick/core/stream.h"
#include "wick/tools/common/exit_codes.h"
#include "wick/tools/study/compare.h"
#include "wick/tools/study/training.h"
#include "wick/tools/study/workload.h"

namespace wick::study {

namespace {

using nlohmann::json;
constexpr int64_t kTestImages = 1000;
constexpr size_t kTimelinePoints = 300;

void answer(const json& values) {
  std::cout << values.dump(-1, ' ', false, json::error_handler_t::replace) << std::endl;
}

class Worker {
 public:
  explicit Worker(const Settings& settings)
      : settings_(settings), device_(parse_device(settings.device)) {
    set_num_threads(static_cast<int>(settings.threads));
    set_benchmark(settings.benchmark);
    set_recompute(settings.recompute_norm);
    if (settings.memory_history) record_memory_history(device_);
  }

  json run(int64_t steps) {
    Workload& work = workload();
    reset_peak_memory_stats(device_);
    work.begin();
    const double waited = work.wait_seconds();
    const auto begin = std::chrono::steady_clock::now();
    work.run(steps);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    return {{"seconds", passed.count()},
            {"peak_bytes", max_memory_allocated(device_)},
            {"wait_seconds", work.wait_seconds() - waited}};
  }

  json timeline() {
    Workload& work = workload();
    const int64_t before = memory_allocated(device_);
    record_memory_history(device_);
    work.run(1);
    const std::vector<MemoryEvent> events = memory_history(device_);
    record_memory_history(device_, 0);
    return {{"points", held_over_time(events, before)}};
  }

  json bounds(int64_t steps) {
    Workload& work = workload();
    work.begin();
    profile::Profiler profiler({.with_flops = true});
    profiler.start();
    work.run(steps);
    profiler.stop();
    Shares shares = {};
    if (!profiler.recording().events.empty()) {
      const profile::Verdict verdict =
          profile::judge(profiler.recording(), profile::measure_ceilings(device_));
      for (size_t i = 0; i < profile::kBounds; ++i) {
        shares[i] = verdict.share(static_cast<profile::Bound>(i));
      }
    }
    return {{"shares", shares}};
  }

  json learn(int64_t steps, int64_t seed) const {
    Settings settings = settings_;
    settings.seed = seed;
    Training training(settings, steps);
    std::vector<double> losses;
    for (int64_t i = 0; i < steps; ++i) {
      training.step();
      losses.push_back(training.loss());
    }
    return {{"losses", losses}, {"accuracy", training.accuracy(kTestImages)}};
  }

 private:
  Workload& workload() {
    if (!workload_) workload_ = make_workload(settings_);
    return *workload_;
  }

  // Pairs of microseconds since the first event and bytes held: the most in each stretch of time.
  static json held_over_time(const std::vector<MemoryEvent>& events, int64_t held) {
    json points = json::array();
    const size_t stretch = std::max<size_t>(1, events.size() / kTimelinePoints);
    int64_t most = held;
    for (size_t i = 0; i < events.size(); ++i) {
      const MemoryEvent& event = events[i];
      if (event.action == MemoryAction::kAllocate) held += static_cast<int64_t>(event.size);
      if (event.action == MemoryAction::kFreeCompleted) held -= static_cast<int64_t>(event.size);
      most = std::max(most, held);
      if ((i + 1) % stretch != 0 && i + 1 != events.size()) continue;
      points.push_back({event.time_us - events.front().time_us, most});
      most = held;
    }
    return points;
  }

  Settings settings_;
  Device device_;
  std::unique_ptr<Workload> workload_;
};

json obey(Worker& worker, const std::string& line) {
  std::istringstream words(line);
  std::string command;
  int64_t count = 1, seed = 0;
  words >> command >> count >> seed;
  if (command == "run") return worker.run(count);
  if (command == "timeline") return worker.timeline();
  if (command == "bounds") return worker.bounds(count);
  WICK_CHECK(command == "learn", "study: unknown command: got ", command);
  return worker.learn(count, seed);
}

}  // namespace

int serve(const std::string& settings) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // stopped, it would not see its input's end
  std::signal(SIGINT, SIG_IGN);      // the parent ends it
  try {
    Worker worker(json::parse(settings).get<Settings>());
    for (std::string line; std::getline(std::cin, line);) answer(obey(worker, line));
    return 0;
  } catch (const std::exception& error) {
    answer({{"error", error.what()}});
    return tool::kFailedExit;
  }
}

}  // namespace wick::study
