#include <fmt/core.h>

#include <algorithm>

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
    {"channels-last", [](Settings& s) { s.channels_last = false; },
     [](Settings& s) { s.channels_last = true; }},
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
  Ladder(const Settings& base, const Thoroughness& how) : base_(base), how_(how) {
    how_.effort.seconds = std::min(how_.effort.seconds, 3.0);
    how_.effort.min_pairs = std::min(how_.effort.min_pairs, 8);
    at_ = std::make_unique<Side>(naive_settings(base));
  }

  // Lazily greedy: what gained most when it was last measured is measured again from here, and
  // taken if it is still ahead of the others' last figures.
  json climb() {
    std::vector<Candidate> left;
    for (const Rung& rung : kRungs) {
      if (base_.threads == 1 && rung.on == nullptr) continue;
      left.push_back({&rung, try_rung(rung, first_look()).comparison.speed.middle});
    }
    int looks = 0;  // at candidates, since the last that was settled
    while (!left.empty()) {
      const auto best = std::max_element(
          left.begin(), left.end(),
          [](const Candidate& a, const Candidate& b) { return a.expected < b.expected; });
      Trial trial = try_rung(*best->rung, how_.effort);
      const Interval& speed = trial.comparison.speed;
      best->expected = speed.middle;
      const bool ahead = std::none_of(left.begin(), left.end(), [&](const Candidate& other) {
        return other.expected > speed.middle;
      });
      // Two that are alike may overtake each other for ever.
      if (!ahead && ++looks < kMostLooks) continue;
      looks = 0;
      if (speed.low <= 1 || speed.middle <= kWorthIt) {  // nor is any other
        rejected_.push_back({{"id", best->rung->id}, {"comparison", trial.comparison}});
        left.erase(best);
        continue;
      }
      rungs_.push_back({{"id", best->rung->id}, {"comparison", trial.comparison}});
      at_ = std::move(trial.side);
      left.erase(best);
    }
    return finish();
  }

 private:
  static constexpr int kMostLooks = 4;
  static constexpr double kWorthIt = 1.02;

  struct Trial {
    std::unique_ptr<Side> side;
    Comparison comparison;
  };

  // What looks best is measured again before it is taken.
  Effort first_look() const {
    Effort effort = how_.effort;
    effort.seconds /= 4;
    effort.min_pairs = std::min(effort.min_pairs, 4);
    return effort;
  }

  Trial try_rung(const Rung& rung, const Effort& effort) {
    Trial trial;
    trial.side = std::make_unique<Side>(with(rung, at_->settings(), base_));
    trial.comparison = compare(*at_, *trial.side, effort);
    return trial;
  }

  json finish() {
    Side naive(naive_settings(base_));
    const Comparison total = compare(naive, *at_, how_.effort);
    return {{"kind", "ladder"},
            {"workload", "ResNet-20 on images of 32x32, loaded as it trains"},
            {"naive", naive.settings()},
            {"best", at_->settings()},
            {"rungs", rungs_},
            {"rejected", rejected_},
            {"total", total}};
  }

  Settings base_;
  Thoroughness how_;
  std::unique_ptr<Side> at_;
  json rungs_ = json::array(), rejected_ = json::array();
};

}  // namespace

json climb_ladder(const Settings& base, const Thoroughness& how) {
  return Ladder(base, how).climb();
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
    Child child(trace.settings);
    child.ask("run 2");
    json answer = child.ask("timeline");
    traces.push_back({{"name", trace.name}, {"points", answer.at("points")}});
  }
  return {{"kind", "memory"},
          {"workload", fmt::format("one step of ResNet-20, {} images of 32x32", base.batch)},
          {"traces", traces}};
}

}  // namespace wick::study
