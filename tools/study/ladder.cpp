#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <optional>

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
    {"conv-autotuning", [](Settings& s) { s.benchmark = false; },
     [](Settings& s) { s.benchmark = true; }},
    {"bfloat16", [](Settings& s) { s.amp = "off"; }, [](Settings& s) { s.amp = "bf16"; }},
};

// The articles' script on the data of the study. It computes with all cores and normalises in the
// loader: so do the articles' own.
Settings naive_settings(const Settings& base) {
  Settings settings = base;
  settings.source = "data";
  for (const Rung& rung : kRungs) rung.off(settings);
  return settings;
}

struct Candidate {
  const Rung* rung;
  double expected;                        // what it gained when it was last measured
  std::optional<Comparison> result = {};  // when it was last tried
  size_t below = 0;                       // rungs taken before that
};

class Ladder {
 public:
  Ladder(const Settings& base, const Thoroughness& how, double most_seconds)
      : naive_(naive_settings(base)),
        effort_(how.effort),
        end_(Clock::now() + Seconds(most_seconds)) {
    effort_.seconds = std::min(effort_.seconds, kMostSeconds);
    effort_.slice_seconds *= 2;  // a step takes longer than most techniques'
    at_ = std::make_unique<Side>(naive_);
  }

  json climb() {
    look();
    effort_.most_processes = kMostAtFirst;
    try_all();
    effort_.most_processes = kMostInTheEnd;
    try_all();
    return finish();
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  static constexpr int kMostAtFirst = 3, kMostInTheEnd = 6;  // pairs of processes
  static constexpr double kMostSeconds = 2;                  // of a pair of processes

  bool late() const { return Clock::now() > end_; }

  Settings with(const Rung& rung) const {
    Settings settings = at_->settings();
    rung.on(settings);
    return settings;
  }

  // A few turns of each beside the script, which decide nothing but the order.
  void look() {
    Effort effort = effort_;
    effort.min_pairs = effort.max_pairs = 4;
    for (const Rung& rung : kRungs) {
      double gain = 1;
      if (!late()) {
        Side side(with(rung));
        Duel duel(effort);
        duel.run(*at_, side);
        gain = duel.result().speed.middle;
      }
      left_.push_back({&rung, gain});
    }
  }

  // Takes what gains, what seems to gain most first. What was tried before is tried again if it
  // seemed to gain, or if others were taken since.
  void try_all() {
    std::stable_sort(left_.begin(), left_.end(), [](const Candidate& a, const Candidate& b) {
      return a.expected > b.expected;
    });
    std::vector<Candidate> rest;
    for (Candidate& candidate : left_) {
      const bool is_open = !candidate.result || candidate.expected > 1 + kWorthSaying ||
                           candidate.below < rungs_.size();
      if (late() || !is_open || !take(candidate)) rest.push_back(candidate);
    }
    left_ = std::move(rest);
  }

  // Measures it against the step before, in new processes for as long as it seems to gain and that
  // has not shown.
  bool take(Candidate& candidate) {
    Duel duel(effort_);
    auto side = std::make_unique<Side>(with(*candidate.rung));
    duel.run(*at_, *side);
    const Comparison& result = duel.result();
    while (result.speed.middle > 1 + kWorthSaying && duel.is_open()) {
      at_ = std::make_unique<Side>(at_->settings());
      side = std::make_unique<Side>(side->settings());
      duel.run(*at_, *side);
    }
    candidate = {candidate.rung, result.speed.middle, result, rungs_.size()};
    if (!is_shown(result) || result.speed.low <= 1) return false;
    rungs_.push_back(describe(candidate));
    at_ = std::move(side);
    return true;
  }

  static json describe(const Candidate& candidate) {
    return {{"id", candidate.rung->id}, {"comparison", *candidate.result}};
  }

  json finish() {
    const Settings best = at_->settings();
    at_.reset();
    json rejected = json::array(), untried = json::array();
    for (const Candidate& candidate : left_) {
      if (candidate.result) {
        rejected.push_back(describe(candidate));
      } else {
        untried.push_back(candidate.rung->id);
      }
    }
    return {{"kind", kLadder},    {"workload", "ResNet-20 on images of 32x32, loaded as it trains"},
            {"naive", naive_},    {"best", best},
            {"rungs", rungs_},    {"rejected", rejected},
            {"untried", untried}, {"total", compare(naive_, best, effort_)}};
  }

  Settings naive_;
  Effort effort_;
  std::chrono::time_point<Clock, Seconds> end_;
  std::unique_ptr<Side> at_;
  std::vector<Candidate> left_;
  json rungs_ = json::array();
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
