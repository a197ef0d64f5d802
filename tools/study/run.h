#pragma once

#include <optional>
#include <string>
#include <vector>

#include "wick/tools/study/compare.h"
#include "wick/tools/study/learning.h"
#include "wick/tools/study/store.h"
#include "wick/tools/study/technique.h"

namespace wick::study {

/// The word of `wick study` that asks for the ladder alone.
inline constexpr const char* kLadder = "ladder";

/// What `wick study` is told.
struct StudyOptions {
  // Of techniques, "ladder" or "scaling"; none: all techniques, ladder, sweep and timeline.
  std::vector<std::string> names;
  bool quick = false;
  std::string device = "auto";
  std::string data = "shapes10";
  std::string data_dir;
  std::string run_dir;
  std::string bench;  // JSON of wick bench, for the roofline
  int64_t threads = 0;
  double seconds = 0;  // of each comparison; 0: as --quick says
  // Of the links between the hosts that scaling is predicted for: latency and rate.
  double link_microseconds = 50, link_gigabits = 10;
};

/// How thorough a study is.
struct Thoroughness {
  Effort effort;
  int64_t learning_steps = 600;
  int learning_seeds = 8;
  double most_seconds = 1e9;  // of the whole study
};
Thoroughness thoroughness(const StudyOptions& options);

/// What tells this machine from others.
nlohmann::json describe_machine();

/// The settings that all workloads of a study start from.
Settings base_settings(const StudyOptions& options, const std::string& scratch);

/// `settings` with the workload's changes, and then `change`, unless that is null.
Settings with_change(Settings settings, const Case& workload, Change change);

/// Measures a technique's speed and memory on its workloads; the line for the store.
nlohmann::json measure_technique(const Technique& technique, const Settings& base,
                                 const Thoroughness& how);
/// Trains with it and without; the line for the store.
nlohmann::json measure_learning(const Technique& technique, const Settings& base, Learner& learner);

/// The way from the articles' script to everything on, one technique at a time. Those that there is
/// no time for within `most_seconds` are named.
nlohmann::json climb_ladder(const Settings& base, const Thoroughness& how, double most_seconds);
/// Images per second of the loader alone by workers.
nlohmann::json sweep_loader(const Settings& base, const Thoroughness& how);
/// What a step holds over its time: the articles' script, everything on, and recomputation.
nlohmann::json trace_memory(const Settings& base);

/// `wick study`. Returns the exit code.
int run_study(const StudyOptions& options);

}  // namespace wick::study
