#include "wick/tools/study/run.h"

namespace wick::study {

namespace {

using nlohmann::json;

constexpr int kRounds = 8;  // of the sweep: its intervals then have 99 % confidence

json measure_case(const Technique& technique, const Case& workload, const Settings& base,
                  const Effort& effort) {
  const Comparison comparison = compare(with_change(base, workload, technique.off),
                                        with_change(base, workload, technique.on), effort);
  return {{"workload", workload.name}, {"comparison", comparison}};
}

}  // namespace

Settings with_change(Settings settings, const Case& workload, Change change) {
  workload.change(settings);
  if (change != nullptr) change(settings);
  return settings;
}

json measure_technique(const Technique& technique, const Settings& base, const Thoroughness& how) {
  json cases = json::array();
  Effort effort = how.effort;
  for (const Case& workload : technique.cases) {
    cases.push_back(measure_case(technique, workload, base, effort));
    effort.seconds = how.effort.seconds / 2;  // those where it should not matter
  }
  return {{"kind", "technique"}, {"id", technique.id}, {"cases", cases}};
}

json sweep_loader(const Settings& base, const Thoroughness& how) {
  Settings settings = base;
  settings.work = "load";
  settings.source = "photos";
  settings.image = 112;
  settings.batch = 16;
  std::vector<int64_t> counts = {0, 1, 2, 4};
  for (int64_t more = 8; more <= base.threads; more *= 2) counts.push_back(more);
  counts.push_back(-1);
  std::vector<std::unique_ptr<Side>> sides;
  std::vector<std::vector<double>> rates(counts.size());
  for (const int64_t workers : counts) {
    settings.workers = workers;
    sides.push_back(std::make_unique<Side>(settings));
    sides.back()->warm_up(how.effort.seconds);
  }
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < sides.size(); ++i) {
      const double seconds = sides[i]->run(sides[i]->steps_for(2 * how.effort.slice_seconds));
      rates[i].push_back(static_cast<double>(settings.batch) / seconds);
    }
  }
  json rows = json::array();
  for (size_t i = 0; i < counts.size(); ++i) {
    rows.push_back({{"workers", counts[i]}, {"rate", median_interval(rates[i], kConfidence)}});
  }
  return {{"kind", "sweep"}, {"workload", "JPEG files of 500x375 to 112x112"}, {"rows", rows}};
}

}  // namespace wick::study
