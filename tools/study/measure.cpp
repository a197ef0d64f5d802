#include <cmath>
#include <numeric>

#include "wick/tools/study/run.h"

namespace wick::study {

namespace {

using nlohmann::json;

Settings changed(Settings settings, const Case& workload, Change change) {
  workload.change(settings);
  if (change != nullptr) change(settings);
  return settings;
}

json measure_case(const Technique& technique, const Case& workload, const Settings& base,
                  const Effort& effort) {
  Side off(changed(base, workload, technique.off));
  Side on(changed(base, workload, technique.on));
  return {{"workload", workload.name}, {"comparison", compare(off, on, effort)}};
}

// The mean of the last tenth; infinite if one of them is not finite.
double final_loss(const std::vector<double>& losses) {
  const auto last = static_cast<std::ptrdiff_t>(std::max<size_t>(1, losses.size() / 10));
  const double sum = std::accumulate(losses.end() - last, losses.end(), 0.0);
  return std::isfinite(sum) ? sum / static_cast<double>(last) : HUGE_VAL;
}

// Adds `values` / `count` to `sum`, element by element.
void add_curve(std::vector<double>& sum, const std::vector<double>& values, int count) {
  sum.resize(std::max(sum.size(), values.size()));
  for (size_t i = 0; i < values.size(); ++i) sum[i] += values[i] / count;
}

json learn_both(const Technique& technique, const Case& workload, const Settings& base,
                const Thoroughness& how) {
  Child off(changed(base, workload, technique.off)), on(changed(base, workload, technique.on));
  std::vector<double> off_curve, on_curve, off_loss, on_loss, gains;
  std::vector<double> off_accuracy, on_accuracy;
  for (int seed = 0; seed < how.learning_seeds; ++seed) {
    const std::string command = "learn " + std::to_string(how.learning_steps) + " ";
    const auto learn = [&](Child& child, std::vector<double>& curve, std::vector<double>& loss,
                           std::vector<double>& accuracy) {
      if (interrupted) throw Interrupted();
      const json answer = child.ask(command + std::to_string(seed), 3 * Child::kPatience);
      // A loss that is not finite is null in JSON.
      std::vector<double> losses;
      for (const json& value : answer.at("losses")) {
        losses.push_back(value.is_number() ? value.get<double>() : NAN);
      }
      add_curve(curve, losses, how.learning_seeds);
      loss.push_back(final_loss(losses));
      accuracy.push_back(answer.at("accuracy").get<double>());
    };
    learn(off, off_curve, off_loss, off_accuracy);
    learn(on, on_curve, on_loss, on_accuracy);
    gains.push_back(on_accuracy.back() - off_accuracy.back());
  }
  return {
      {"workload", workload.name},
      {"steps", how.learning_steps},
      {"seeds", how.learning_seeds},
      {"off",
       {{"loss", median(off_loss)}, {"accuracy", median(off_accuracy)}, {"curve", off_curve}}},
      {"on", {{"loss", median(on_loss)}, {"accuracy", median(on_accuracy)}, {"curve", on_curve}}},
      {"gain", median_interval(gains)}};
}

}  // namespace

json measure_technique(const Technique& technique, const Settings& base, const Thoroughness& how) {
  json cases = json::array();
  Effort effort = how.effort;
  for (const Case& workload : technique.cases) {
    cases.push_back(measure_case(technique, workload, base, effort));
    effort.seconds = how.effort.seconds / 2;  // those where it should not matter
  }
  return {{"kind", "technique"}, {"id", technique.id}, {"cases", cases}};
}

json measure_learning(const Technique& technique, const Settings& base, const Thoroughness& how) {
  json learning = json::array();
  for (const Case& workload : technique.learning) {
    learning.push_back(learn_both(technique, workload, base, how));
  }
  return {{"kind", "learning"}, {"id", technique.id}, {"learning", learning}};
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
  for (int round = 0; round < how.effort.min_pairs; ++round) {
    for (size_t i = 0; i < sides.size(); ++i) {
      const double seconds = sides[i]->run(sides[i]->steps_for(2 * how.effort.slice_seconds));
      rates[i].push_back(static_cast<double>(settings.batch) / seconds);
    }
  }
  json rows = json::array();
  for (size_t i = 0; i < counts.size(); ++i) {
    rows.push_back({{"workers", counts[i]}, {"rate", median_interval(rates[i])}});
  }
  return {{"kind", "sweep"}, {"workload", "JPEG files of 500x375 to 112x112"}, {"rows", rows}};
}

}  // namespace wick::study
