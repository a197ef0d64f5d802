#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "wick/tools/study/run.h"

namespace wick::study {

namespace {

using nlohmann::json;

// A step of the ladder: the technique it belongs to, how the articles' script does without it, and
// how it is done with it.
struct Rung {
  const char* id;
  Change off, on;
};

constexpr Rung kRungs[] = {
    {"no-profiling-forward", [](Settings& s) { s.second_forward = true; },
     [](Settings& s) { s.second_forward = false; }},
    {"workers", [](Settings& s) { s.workers = 0; }, [](Settings& s) { s.workers = 1; }},
    {"batch-size", [](Settings& s) { s.batch = 16; }, [](Settings& s) { s.batch = 64; }},
    {"compute-threads", [](Settings& s) { s.threads = 1; }, nullptr},
    {"in-place-batches", [](Settings& s) { s.collate = true; },
     [](Settings& s) { s.collate = false; }},
    {"fused-norm", [](Settings& s) { s.fused = false; }, [](Settings& s) { s.fused = true; }},
    {"no-bias-before-norm", [](Settings& s) { s.bias = true; },
     [](Settings& s) { s.bias = false; }},
    {"fused-optimizer", [](Settings& s) { s.fused_optimizer = false; },
     [](Settings& s) { s.fused_optimizer = true; }},
    {"fused-loss", [](Settings& s) { s.fused_loss = false; },
     [](Settings& s) { s.fused_loss = true; }},
    {"set-to-none", [](Settings& s) { s.set_to_none = false; },
     [](Settings& s) { s.set_to_none = true; }},
    {"no-anomaly-checks", [](Settings& s) { s.detect_anomaly = true; },
     [](Settings& s) { s.detect_anomaly = false; }},
    {"keep-the-cache", [](Settings& s) { s.empty_cache = true; },
     [](Settings& s) { s.empty_cache = false; }},
    {"read-loss-seldom", [](Settings& s) { s.read_loss = true; },
     [](Settings& s) { s.read_loss = false; }},
    {"normalize-in-loader", [](Settings& s) { s.normalize = "step"; },
     [](Settings& s) { s.normalize = "loader"; }},
    {"conv-autotuning", nullptr, [](Settings& s) { s.benchmark = true; }},
    {"bfloat16", nullptr, [](Settings& s) { s.amp = "bf16"; }},
};

// The articles' script on the data of the study.
Settings naive_settings(const Settings& base) {
  Settings settings = base;
  settings.source = "data";
  for (const Rung& rung : kRungs) {
    if (rung.off != nullptr) rung.off(settings);
  }
  return settings;
}

Settings with(const Rung& rung, Settings settings, const Settings& base) {
  if (rung.on != nullptr) {
    rung.on(settings);
  } else {
    settings.threads = base.threads;
  }
  return settings;
}

struct Candidate {
  const Rung* rung;
  double expected;  // what it gained when it was last measured
};

class Ladder {
 public:
  Ladder(const Settings& base, const Thoroughness& how, double most_seconds)
      : base_(base), effort_(how.effort), end_(Clock::now() + Seconds(most_seconds)) {
    effort_.seconds = std::min(effort_.seconds, 1.0);
    at_ = std::make_unique<Side>(naive_settings(base));
  }

  // Lazily greedy: what gained most when it was last measured is measured again from here, and
  // taken if it is still ahead of the others' last figures.
  json climb() {
    for (const Rung& rung : kRungs) {
      if (base_.threads == 1 && rung.on == nullptr) continue;
      const double gain = late() ? 1 : try_rung(rung, first_look()).duel.result().speed.middle;
      left_.push_back({&rung, gain});
    }
    int looks = 0;  // at candidates, since the last that was settled
    while (!left_.empty() && !late()) {
      const auto best = std::max_element(
          left_.begin(), left_.end(),
          [](const Candidate& a, const Candidate& b) { return a.expected < b.expected; });
      Trial trial = try_rung(*best->rung, effort_);
      const double gain = trial.duel.result().speed.middle;
      best->expected = gain;
      const bool ahead = std::none_of(left_.begin(), left_.end(), [&](const Candidate& other) {
        return other.expected > gain;
      });
      // Two that are alike may overtake each other for ever.
      if (!ahead && ++looks < kMostLooks) continue;
      looks = 0;
      settle(*best->rung, std::move(trial));
      left_.erase(best);
    }
    return finish();
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  static constexpr int kMostLooks = 4;

  struct Trial {
    std::unique_ptr<Side> side;
    Duel duel;
  };

  bool late() const { return Clock::now() > end_; }

  // What looks best is measured again before it is taken.
  Effort first_look() const {
    Effort effort = effort_;
    effort.seconds /= 4;
    effort.min_pairs = std::min(effort.min_pairs, 4);
    return effort;
  }

  Trial try_rung(const Rung& rung, const Effort& effort) {
    Trial trial{std::make_unique<Side>(with(rung, at_->settings(), base_)), Duel(effort)};
    trial.duel.run(*at_, *trial.side);
    return trial;
  }

  // Lets other processes confirm what one pair of them showed, and takes it or not.
  void settle(const Rung& rung, Trial trial) {
    while (trial.duel.result().speed.low > 1 && trial.duel.is_open()) {
      at_ = std::make_unique<Side>(at_->settings());
      trial.side = std::make_unique<Side>(trial.side->settings());
      trial.duel.run(*at_, *trial.side);
    }
    const Comparison& c = trial.duel.result();
    const bool gains = c.speed.low > 1 && c.speed.middle > 1 + kWorthSaying;
    (gains ? rungs_ : rejected_).push_back({{"id", rung.id}, {"comparison", c}});
    if (gains) at_ = std::move(trial.side);
  }

  json finish() {
    const Settings naive = naive_settings(base_), best = at_->settings();
    at_.reset();
    json untried = json::array();
    for (const Candidate& candidate : left_) untried.push_back(candidate.rung->id);
    return {{"kind", "ladder"},   {"workload", "ResNet-20 on images of 32x32, loaded as it trains"},
            {"naive", naive},     {"best", best},
            {"rungs", rungs_},    {"rejected", rejected_},
            {"untried", untried}, {"total", compare(naive, best, effort_)}};
  }

  Settings base_;
  Effort effort_;
  std::chrono::time_point<Clock, Seconds> end_;
  std::unique_ptr<Side> at_;
  std::vector<Candidate> left_;
  json rungs_ = json::array(), rejected_ = json::array();
};

}  // namespace

json climb_ladder(const Settings& base, const Thoroughness& how, double most_seconds) {
  return Ladder(base, how, most_seconds).climb();
}

json trace_memory(const Settings& base) {
  struct Trace {
    const char* name;
    Settings settings;
  };
  Settings naive = naive_settings(base);
  naive.threads = base.threads;
  naive.source = "memory";
  naive.batch = base.batch;
  Settings checkpointed = base;
  checkpointed.checkpoint = true;
  json traces = json::array();
  for (const Trace& trace : {Trace{"the articles' script", naive}, Trace{"fused", base},
                             Trace{"fused, activations made again", checkpointed}}) {
    WorkerProcess worker(trace.settings);
    worker.ask("run 2");
    json answer = worker.ask("timeline");
    traces.push_back({{"name", trace.name}, {"points", answer.at("points")}});
  }
  return {{"kind", "memory"},
          {"workload", fmt::format("one step of ResNet-20, {} images of 32x32", base.batch)},
          {"traces", traces}};
}

}  // namespace wick::study
