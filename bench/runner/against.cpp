#include "wick/bench/runner/against.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <random>
#include <set>
#include <sstream>

#include "wick/bench/runner/result.h"
#include "wick/bench/runner/serve.h"
#include "wick/tools/common/child.h"

namespace wick::bench {

namespace {

using tool::Child;

// Pairs of turns per row and block: until their median is known to 1.5 %.
constexpr size_t kLeastPairs = 9, kMostPairs = 41;
constexpr double kTightPairs = 0.015;
constexpr size_t kLeastBlocks = 6;  // fewer cannot exclude anything
constexpr size_t kMostBlocks = 24;
constexpr double kSlice = 3e-3, kQuickSlice = 1e-3;  // seconds of a turn
constexpr double kMargin = 1.03;                     // nearer to 1 than this is the same
constexpr double kGreetingSeconds = 10, kAnswerSeconds = 600;

enum class Verdict { kUnclear, kSame, kSlower, kFaster, kFailed };

struct Compared {
  std::string name;
  std::string error = {};
  int64_t calls = 0;
  double seconds = 0;               // of this program, in the last block
  std::vector<double> blocks = {};  // logarithm of this program's time over the other's
  Verdict verdict = Verdict::kUnclear;

  void judge() {
    if (verdict == Verdict::kFailed || blocks.size() < kLeastBlocks) return;
    const Interval interval = tool::centre_interval(blocks, kConfidence);
    const double margin = std::log(kMargin);
    if (interval.low > margin) {
      verdict = Verdict::kSlower;
    } else if (interval.high < -margin) {
      verdict = Verdict::kFaster;
    } else if (interval.low > -margin && interval.high < margin) {
      verdict = Verdict::kSame;
    }
  }
};

bool are_tight(const std::vector<double>& ratios) {
  const Interval interval = tool::median_interval(ratios, kConfidence);
  return interval.high - interval.low <= 2 * kTightPairs;
}

const char* verdict_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::kSame: return "same";
    case Verdict::kSlower: return "SLOWER";
    case Verdict::kFaster: return "faster";
    case Verdict::kFailed: return "failed";
    case Verdict::kUnclear: break;
  }
  return "unclear";
}

void print_row(const Compared& c) {
  if (c.verdict == Verdict::kFailed) {
    fmt::print("{:<52} {}\n", c.name, c.error);
  } else if (!c.blocks.empty()) {
    const Interval interval = tool::centre_interval(c.blocks, kConfidence);
    fmt::print("{:<52} {:>8} {:>6.3f}  {:>6.3f} to {:>6.3f}  {:>7}\n", c.name, duration(c.seconds),
               std::exp(tool::centre(c.blocks)), std::exp(interval.low), std::exp(interval.high),
               verdict_text(c.verdict));
  }
  std::fflush(stdout);
}

std::string own_path() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

// The benchmark beside a program `wick`, or the path itself.
std::string benchmark_of(const std::string& path) {
  const std::filesystem::path program = path;
  return program.filename() == "wick" ? (program.parent_path() / "wick-bench").string() : path;
}

class Duel {
 public:
  Duel(const Options& options, const std::vector<const Row*>& rows)
      : other_path_(benchmark_of(options.against)), random_(std::random_device()()) {
    arguments_ = {"--serve", "--device", options.device};
    if (options.threads > 0) {
      arguments_.insert(arguments_.end(), {"--threads", std::to_string(options.threads)});
    }
    if (options.quick) {
      arguments_.push_back("--quick");
      slice_ = kQuickSlice;
    }
    for (const Row* row : rows) rows_.push_back({.name = row->name});
  }

  const std::vector<Compared>& run() {
    for (size_t block = 0; block < kMostBlocks && !interrupted(); ++block) {
      std::vector<Compared*> open;
      for (Compared& row : rows_) {
        if (row.verdict == Verdict::kUnclear) open.push_back(&row);
      }
      if (open.empty()) break;
      std::shuffle(open.begin(), open.end(), random_);
      try {
        run_block(open, block == 0);
      } catch (const Error&) {
        if (!interrupted()) throw;
      }
    }
    for (const Compared& row : rows_) {
      if (row.verdict == Verdict::kUnclear) print_row(row);
    }
    return rows_;
  }

 private:
  // New processes for every block: where the system puts their memory makes each a little faster
  // or slower for as long as it lives, which no number of turns averages out.
  void run_block(const std::vector<Compared*>& open, bool first) {
    start_both();
    std::set<std::string> known;
    std::istringstream names(theirs_->ask("list", kAnswerSeconds));
    for (std::string name; names >> name;) known.insert(name);
    for (Compared* row : open) {
      if (interrupted()) return;
      if (known.count(row->name) == 0) {
        fail(*row, "not in " + other_path_);
      } else {
        try {
          run_row(*row, first);
        } catch (const Error& error) {  // a side ended, fell silent or answered with an error
          if (interrupted()) throw;
          fail(*row, error.what());
          start_both();
        }
      }
      row->judge();
      if (row->verdict != Verdict::kUnclear) print_row(*row);
    }
  }

  void start_both() {
    const bool ours_first = random_() % 2 == 0;
    if (ours_first) ours_ = start(own_path());
    theirs_ = start(other_path_);
    if (!ours_first) ours_ = start(own_path());
  }

  std::unique_ptr<Child> start(const std::string& path) const {
    auto child =
        std::make_unique<Child>(path, arguments_, tool::ChildOptions{.interrupted = &interrupted});
    std::string greeting;
    try {
      greeting = child->answer(kGreetingSeconds);
    } catch (const Error&) {  // ended, silent or endless: not ours either
    }
    if (greeting != kGreeting) {
      throw UsageError("--against " + path + ": not a wick-bench of this version");
    }
    return child;
  }

  static void fail(Compared& row, const std::string& error) {
    row.verdict = Verdict::kFailed;
    row.error = error;
  }

  bool ready(Compared& row, bool first) {
    for (Child* side : {ours_.get(), theirs_.get()}) {
      std::string answer = side->ask("prepare " + row.name, kAnswerSeconds);
      if (answer == "ok" && first) answer = side->ask("check", kAnswerSeconds);
      if (answer == "ok") continue;
      fail(row, (side == ours_.get() ? "this build: " : "the other: ") + answer);
      return false;
    }
    return true;
  }

  static double turn(Child& side, const std::string& command) {
    const double seconds = std::strtod(side.ask(command, kAnswerSeconds).c_str(), nullptr);
    WICK_CHECK(seconds > 0 && std::isfinite(seconds), "--against: a turn failed");
    return seconds;
  }

  void run_row(Compared& row, bool first) {
    if (!ready(row, first)) return;
    const std::string count = "calls " + std::to_string(slice_);
    const double calls = turn(*ours_, count);  // both sides run it, to warm up
    turn(*theirs_, count);
    if (row.calls == 0) row.calls = static_cast<int64_t>(calls);
    const std::string run = "run " + std::to_string(row.calls);
    std::vector<double> ratios, seconds;
    while (ratios.size() < kMostPairs && !(ratios.size() >= kLeastPairs && are_tight(ratios))) {
      double ours = 0, theirs = 0;
      const bool ours_first = random_() % 2 == 0;
      if (ours_first) ours = turn(*ours_, run);
      theirs = turn(*theirs_, run);
      if (!ours_first) ours = turn(*ours_, run);
      ratios.push_back(std::log(ours / theirs));
      seconds.push_back(ours / static_cast<double>(row.calls));
    }
    row.blocks.push_back(median(ratios));
    row.seconds = median(seconds);
  }

  double slice_ = kSlice;
  std::string other_path_;
  std::mt19937_64 random_;
  std::vector<std::string> arguments_;
  std::vector<Compared> rows_;
  std::unique_ptr<Child> ours_, theirs_;
};

}  // namespace

int run_against(const Options& options, const std::vector<const Row*>& rows) {
  Duel duel(options, rows);
  fmt::print(
      "time of this build over that of {}, taking turns\n{:<52} {:>8} {:>6}  {:>16}  {:>7}\n",
      options.against, "row", "time", "ratio", "95% interval", "verdict");
  int slower = 0, failed = 0;
  for (const Compared& row : duel.run()) {
    slower += row.verdict == Verdict::kSlower;
    failed += row.verdict == Verdict::kFailed;
  }
  fmt::print("{} of {} rows slower, {} failed\n", slower, rows.size(), failed);
  if (interrupted()) return tool::kInterruptedExit;
  return failed > 0 ? tool::kFailedExit : slower > 0 ? tool::kSlowerExit : 0;
}

}  // namespace wick::bench
