#include <fmt/core.h>

#include <cmath>

#include "wick/tools/study/scaling.h"
#include "wick/tools/study/scaling_lab.h"

namespace wick::study {

namespace {

using dist::AllReduceAlgorithm;
using nlohmann::json;
using Rows = std::vector<std::vector<std::string>>;

constexpr double kFirstBucket = 1 << 20, kBucket = 25 << 20;  // DistributedDataParallel's own
constexpr int64_t kRanksPerHost = 8, kMostRanks = 10'000;
// Memory that the ranks of a host share.
constexpr dist::LinkModel kHostLink = {.latency = 2e-6, .bandwidth = 1e10};
// 419 failures of 16,384 GPUs in 54 days (Dubey et al. 2024, arXiv 2407.21783).
constexpr double kRankLife = 54.0 * 86'400 * 16'384 / 419, kCheckpoint = 30, kRestart = 300;

std::string milliseconds(double seconds) { return fmt::format("{:.3g}", 1e3 * seconds); }

void show_check(Html& html, const json& line) {
  const json& rows = line.at("rows");
  if (rows.empty()) {
    html.element("p",
                 "The predictions were not checked here: network namespaces, whose links can be "
                 "slowed down, could not be made.");
    return;
  }
  const json& pair = line.at("pair");
  html.element(
      "p",
      fmt::format("Ranks of this machine, each in a network namespace of its own whose link to a "
                  "switch is limited to {} Mbit/s, against the model. It is given that rate; the "
                  "latency ({:.0f} µs) and the time for each message ({:.0f} µs) that two ranks "
                  "measured by sending to and fro; and the times of a training step's parts with "
                  "as many ranks that do not communicate. None of it was fitted to what is "
                  "predicted. A delay is added by waiting before each collective for as many "
                  "latencies as it has: what it checks is how steps hide it.",
                  line.at("megabits").get<double>(), 1e6 * pair.at("latency").get<double>(),
                  1e6 * pair.at("overhead").get<double>()));
  json chart = {{"type", "dots"},
                {"x", {{"title", "predicted"}, {"log", true}, {"unit", "ms"}}},
                {"y", {{"title", "measured"}, {"log", true}, {"unit", "ms"}}},
                {"series", json::array()}};
  json reductions = {{"name", "all-reduce"}, {"points", json::array()}, {"names", json::array()}};
  json steps = {{"name", "step"}, {"points", json::array()}, {"names", json::array()}};
  Rows table;
  double least = HUGE_VAL, most = 0;
  for (const json& row : rows) {
    const double predicted = row.at("predicted"), measured = row.at("measured");
    const double delay = row.at("delay");
    const std::string what = row.at("what"), ranks = std::to_string(row.at("ranks").get<int>());
    json& series = what == "step" ? steps : reductions;
    series["points"].push_back({1e3 * predicted, 1e3 * measured});
    series["names"].push_back(what + ", " + ranks + " ranks");
    least = std::min(least, predicted);
    most = std::max(most, predicted);
    table.push_back({what, ranks, delay > 0 ? milliseconds(delay) : "", milliseconds(predicted),
                     milliseconds(measured),
                     fmt::format("{:+.0f} %", 100 * (predicted / measured - 1))});
  }
  chart["series"] = {reductions, steps};
  chart["series"].push_back({{"name", "as predicted"},
                             {"points", {{1e3 * least, 1e3 * least}, {1e3 * most, 1e3 * most}}},
                             {"line", true}});
  html.figure("Predicted and measured", chart,
              {"What", "Ranks", "Delay, ms", "Predicted, ms", "Measured, ms", "Error"}, table);
}

struct Algorithm {
  AllReduceAlgorithm algorithm;
  const char* name;
};
constexpr Algorithm kAlgorithms[] = {
    {AllReduceAlgorithm::kDirect, "direct (this library)"},
    {AllReduceAlgorithm::kRing, "ring"},
    {AllReduceAlgorithm::kTree, "tree"},
    {AllReduceAlgorithm::kHalvingDoubling, "halving and doubling"},
    {AllReduceAlgorithm::kHierarchical, "hierarchical, 8 to a host"}};

dist::ClusterModel cluster_of(const json& line, const RankResult& alone) {
  const json& link = line.at("link");
  dist::ClusterModel cluster;
  cluster.network = {.latency = 1e-6 * link.at("microseconds").get<double>(),
                     .bandwidth = 1e9 / 8 * kPayloadShare * link.at("gigabits").get<double>(),
                     .overhead = line.value("/pair/overhead"_json_pointer, 0.0)};
  cluster.host = kHostLink;
  cluster.ranks_per_host = kRanksPerHost;
  cluster.add_seconds_per_byte = alone.add_seconds_per_byte;
  return cluster;
}

double seconds_of(const RankResult& alone, const Algorithm& choice, int64_t ranks,
                  const dist::ClusterModel& cluster) {
  dist::StepModel step = step_model(alone, kFirstBucket, kBucket);
  if (choice.algorithm != AllReduceAlgorithm::kDirect) step.buffers.clear();
  return dist::step_seconds(step, ranks, choice.algorithm, cluster);
}

void show_prediction(Html& html, const json& line) {
  const auto alone = line.at("alone").get<RankResult>();
  const dist::ClusterModel cluster = cluster_of(line, alone);
  const double one = alone.forward + alone.backward + alone.update;
  html.element(
      "p",
      fmt::format("Not measured: what the model says of links of {} Gbit/s and {} µs, for a "
                  "ResNet-20 as this machine trains it with one thread, {} images on each rank "
                  "({} ms a step). Efficiency is the time of a step of one rank over that of a "
                  "step of all. The direct way includes batch norm's running statistics, "
                  "which are broadcast in each step; the others do without. Ranks of "
                  "one host are taken to share {:.0f} GB/s with {:.0f} µs of latency; a message "
                  "costs its sender {:.0f} µs{}; a rank's step deviates by {} ms.",
                  line.at("/link/gigabits"_json_pointer).get<double>(),
                  line.at("/link/microseconds"_json_pointer).get<double>(),
                  line.at("batch").get<int64_t>(), milliseconds(one), 1e-9 * kHostLink.bandwidth,
                  1e6 * kHostLink.latency, 1e6 * cluster.network.overhead,
                  line.contains("pair") ? "" : " (it could not be measured here)",
                  milliseconds(step_model(alone, kFirstBucket, kBucket).deviation)));
  json chart = {{"type", "lines"},
                {"x", {{"title", "ranks"}, {"log", true}}},
                {"y", {{"title", "efficiency, %"}, {"begin", true}}},
                {"series", json::array()}};
  Rows table;
  for (const Algorithm& choice : kAlgorithms) {
    json points = json::array();
    for (double x = 0; x <= 4.001; x += 0.125) {
      const auto ranks = std::min<int64_t>(kMostRanks, std::lround(std::pow(10, x)));
      points.push_back({ranks, 100 * one / seconds_of(alone, choice, ranks, cluster)});
    }
    chart["series"].push_back({{"name", choice.name}, {"points", points}, {"line", true}});
    std::vector<std::string> cells = {choice.name};
    for (const int64_t ranks : {2, 8, 64, 512, 4096, 10'000}) {
      cells.push_back(
          fmt::format("{:.1f} %", 100 * one / seconds_of(alone, choice, ranks, cluster)));
    }
    table.push_back(cells);
  }
  html.figure("Predicted efficiency", chart,
              {"All-reduce", "2 ranks", "8", "64", "512", "4096", "10,000"}, table);
}

void show_failure_table(Html& html) {
  Rows table;
  for (const int64_t ranks : {8, 64, 512, 4096, 10'000}) {
    const dist::FailureModel failures{.between_failures = kRankLife / static_cast<double>(ranks),
                                      .checkpoint = kCheckpoint,
                                      .restart = kRestart};
    const double interval = dist::daly_interval(failures);
    table.push_back({std::to_string(ranks), fmt::format("{:.1f}", failures.between_failures / 3600),
                     fmt::format("{:.0f}", dist::young_interval(failures) / 60),
                     fmt::format("{:.0f}", interval / 60),
                     fmt::format("{:.1f} %", 100 * dist::useful_share(failures, interval))});
  }
  html.element("p",
               fmt::format("Failures, not measured either: a rank fails once in {:.1f} years (the "
                           "rate of Dubey et al. 2024), a checkpoint takes {} s, and to begin "
                           "again {} s.",
                           kRankLife / (365.25 * 86'400), kCheckpoint, kRestart));
  html.table("Checkpoints by Young (1974) and Daly (2006)",
             {"Ranks", "Hours between failures", "Young, minutes", "Daly, minutes", "Useful time"},
             table);
}

}  // namespace

void show_scaling(Html& html, const Store& store) {
  const json* line = store.find(kScaling);
  if (line == nullptr) return;
  html.element("h2", "Data parallelism over many ranks", {{"id", "scaling"}});
  show_check(html, *line);
  show_prediction(html, *line);
  show_failure_table(html);
}

}  // namespace wick::study
