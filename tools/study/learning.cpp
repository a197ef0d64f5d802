#include "wick/tools/study/learning.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "wick/core/base/device.h"
#include "wick/tools/study/compare.h"
#include "wick/tools/study/run.h"

namespace wick::study {

namespace {

using nlohmann::json;

Learned read_learned(const json& answer) {
  Learned learned;
  learned.accuracy = answer.at("accuracy").get<double>();
  for (const json& loss : answer.at("losses")) {  // one that is not finite is null in JSON
    learned.losses.push_back(loss.is_number() ? loss.get<double>() : NAN);
  }
  return learned;
}

// The mean of the last tenth; infinite if one of them is not finite.
double final_loss(const std::vector<double>& losses) {
  const auto last = static_cast<std::ptrdiff_t>(std::max<size_t>(1, losses.size() / 10));
  const double sum = std::accumulate(losses.end() - last, losses.end(), 0.0);
  return std::isfinite(sum) ? sum / static_cast<double>(last) : HUGE_VAL;
}

json describe_side(const std::vector<Learned>& seeds) {
  std::vector<double> curve(seeds[0].losses.size()), losses, accuracies;
  for (const Learned& learned : seeds) {
    for (size_t i = 0; i < curve.size(); ++i) {
      curve[i] += learned.losses[i] / static_cast<double>(seeds.size());
    }
    losses.push_back(final_loss(learned.losses));
    accuracies.push_back(learned.accuracy);
  }
  return {{"loss", median(losses)}, {"accuracy", median(accuracies)}, {"curve", curve}};
}

}  // namespace

const std::vector<Learned>& Learner::learn(const Settings& settings) {
  const std::string key = json(settings).dump();
  const auto known = known_.find(key);
  return known != known_.end() ? known->second : known_[key] = train(settings);
}

int64_t Learner::steps(const Settings& settings) const {
  constexpr int64_t kLargeBatch = 256;
  return steps_ * kLargeBatch / std::max(kLargeBatch, settings.batch);
}

std::vector<Learned> Learner::train(const Settings& settings) const {
  const bool on_cpu = parse_device(settings.device).is_cpu();
  const int64_t at_once = on_cpu ? std::min<int64_t>(settings.threads, seeds_) : 1;
  Settings own = settings;
  own.threads = std::max<int64_t>(1, settings.threads / at_once);
  std::vector<std::unique_ptr<WorkerProcess>> workers;
  for (int64_t i = 0; i < at_once; ++i) workers.push_back(std::make_unique<WorkerProcess>(own));
  std::vector<Learned> seeds;
  for (int64_t first = 0; first < seeds_; first += at_once) {
    const int64_t count = std::min(at_once, seeds_ - first);
    for (int64_t i = 0; i < count; ++i) {
      workers[static_cast<size_t>(i)]->send("learn " + std::to_string(steps(settings)) + " " +
                                            std::to_string(first + i));
    }
    for (int64_t i = 0; i < count; ++i) {
      constexpr double kPatience = 3 * WorkerProcess::kPatience;
      seeds.push_back(read_learned(workers[static_cast<size_t>(i)]->answer(kPatience)));
    }
  }
  return seeds;
}

json measure_learning(const Technique& technique, const Settings& base, Learner& learner) {
  json learning = json::array();
  for (const Case& workload : technique.learning) {
    if (interrupted) throw Interrupted();
    const Settings off_settings = with_change(base, workload, technique.off);
    const std::vector<Learned>& off = learner.learn(off_settings);
    const std::vector<Learned>& on = learner.learn(with_change(base, workload, technique.on));
    std::vector<double> gains;
    for (size_t i = 0; i < on.size(); ++i) gains.push_back(on[i].accuracy - off[i].accuracy);
    learning.push_back({{"workload", workload.name},
                        {"steps", learner.steps(off_settings)},
                        {"seeds", learner.seeds()},
                        {"off", describe_side(off)},
                        {"on", describe_side(on)},
                        {"gain", median_interval(gains, kConfidence)}});
  }
  return {{"kind", "learning"}, {"id", technique.id}, {"learning", learning}};
}

}  // namespace wick::study
