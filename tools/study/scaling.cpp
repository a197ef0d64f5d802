#include "wick/tools/study/scaling.h"
#include "wick/tools/study/commands.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "wick/tools/common/attempt.h"
#include "wick/tools/common/exit_codes.h"
#include "wick/tools/study/compare.h"
#include "wick/tools/study/scaling_lab.h"
#include "wick/train/hardware.h"

namespace wick::study {

namespace {

using nlohmann::json;

constexpr double kMegabits = 100, kDelay = 2e-3;

// Smaller where there are only moments for it.
LabTask lab_task(const std::string& folder, double seconds) {
  LabTask lab{.megabits = kMegabits};
  const bool is_whole = seconds >= 1;
  const auto add = [&](int64_t ranks, double delay) {
    LabRun run;
    run.ranks = ranks;
    run.task.result = fmt::format("{}/result-{}.json", folder, lab.runs.size());
    run.task.bytes = {1 << 10, 1 << 16};
    if (is_whole) run.task.bytes.insert(run.task.bytes.end(), {1 << 20, 1 << 22});
    run.task.repeats = std::clamp<int64_t>(std::llround(2 * seconds), 1, 9);
    run.task.steps = std::clamp<int64_t>(std::llround(4 * seconds), 1, 40);
    if (!is_whole) run.task.image = 8;
    run.task.delay = delay;
    lab.runs.push_back(run);
  };
  add(1, 0);
  add(2, 0);
  if (is_whole) add(4, 0);
  if (is_whole) add(8, 0);
  add(is_whole ? 4 : 2, kDelay);
  return lab;
}

// Whether the lab could be made.
bool run_lab(const LabTask& task) {
  const tool::HeldSignals signals;
  tool::Attempt attempt(
      {{"the lab",
        {std::filesystem::read_symlink("/proc/self/exe").string(), kLabWord, json(task).dump()}}},
      signals);
  attempt.wait();
  if (attempt.was_asked_to_stop()) {
    interrupted = true;
    throw Interrupted();
  }
  if (attempt.failed() && attempt.exit_code() == tool::kNoLabExit) return false;
  if (attempt.failed()) throw ChildError(attempt.sentence());
  return true;
}

// Links as the lab makes them. Ranks share the cores that send and add for them.
dist::ClusterModel lab_cluster(const RankResult& pair, const RankResult& result, double delay,
                               int64_t cores) {
  const double crowd =
      std::max(1.0, static_cast<double>(result.ranks) / static_cast<double>(cores));
  dist::ClusterModel cluster;
  cluster.network = {.latency = pair.latency + delay,
                     .bandwidth = kMegabits * 1e6 / 8 * kPayloadShare,
                     .overhead = crowd * pair.overhead};
  cluster.add_seconds_per_byte = crowd * pair.add_seconds_per_byte;
  return cluster;
}

json compared(const std::string& what, const RankResult& result, double delay, double predicted,
              double measured, double compute) {
  fmt::print("{:<26}{} ranks{}  {:<20}predicted {:>9.3f} ms  measured {:>9.3f} ms  {:>+6.1f} %\n",
             kScaling, result.ranks, delay > 0 ? fmt::format(", {:g} ms away", 1e3 * delay) : "",
             what, 1e3 * predicted, 1e3 * measured, 100 * (predicted / measured - 1));
  return {{"what", what},           {"ranks", result.ranks}, {"delay", delay},
          {"predicted", predicted}, {"measured", measured},  {"compute", compute}};
}

json rows_of(const LabTask& lab, const std::vector<RankResult>& results, int64_t cores) {
  constexpr auto kDirect = dist::AllReduceAlgorithm::kDirect;
  json rows = json::array();
  for (size_t i = 0; i < results.size(); ++i) {
    const RankResult& result = results[i];
    const double delay = lab.runs[i].task.delay;
    const dist::ClusterModel near = lab_cluster(results[1], result, 0, cores);
    const std::vector<int64_t>& sizes = lab.runs[i].task.bytes;
    for (size_t k = 0; k < sizes.size() && result.ranks > 1 && delay == 0; ++k) {
      const auto bytes = static_cast<double>(sizes[k]);
      rows.push_back(compared(fmt::format("all-reduce {} kB", sizes[k] >> 10), result, 0,
                              dist::all_reduce_seconds(kDirect, result.ranks, bytes, near),
                              result.reduce_seconds[k], 0));
    }
    const dist::StepModel step = step_model(result, kFirstBucketBytes, kBucketBytes);
    rows.push_back(compared("step", result, delay,
                            dist::step_seconds(step, result.ranks, kDirect,
                                               lab_cluster(results[1], result, delay, cores)),
                            result.step_seconds, step.forward + step.backward + step.update));
  }
  return rows;
}

}  // namespace

dist::StepModel step_model(const RankResult& result, double first_bucket, double bucket) {
  return {.forward = result.forward,
          .backward = result.backward,
          .update = result.update,
          .deviation = result.deviation,
          .buckets = dist::buckets_of(result.gradients, first_bucket, bucket),
          .buffers = result.buffers};
}

json measure_scaling(const StudyOptions& options, const Settings& base, const Thoroughness& how) {
  const std::string folder = std::filesystem::absolute(base.scratch + "/scaling").string();
  std::filesystem::create_directories(folder);
  const LabTask lab = lab_task(folder, how.effort.processes * how.effort.seconds);
  json line = {
      {"kind", kScaling},
      {"megabits", kMegabits},
      {"batch", lab.runs[0].task.batch},
      {"link", {{"gigabits", options.link_gigabits}, {"microseconds", options.link_microseconds}}}};
  line["rows"] = json::array();
  if (!run_lab(lab)) {
    fmt::print("{:<26}predictions are not checked: no network to try them on\n", kScaling);
    run_lab({.megabits = 0, .runs = {lab.runs[0]}});
    line["alone"] = read_result(lab.runs[0].task.result);
    return line;
  }
  std::vector<RankResult> results;
  for (const LabRun& run : lab.runs) results.push_back(read_result(run.task.result));
  line["alone"] = results[0];
  line["pair"] = {{"latency", results[1].latency}, {"overhead", results[1].overhead}};
  line["rows"] = rows_of(lab, results, train::find_hardware().cores);
  return line;
}

}  // namespace wick::study
