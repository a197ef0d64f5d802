#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "wick/tools/study/scaling_rank.h"

namespace wick::study {

/// One run of ranks, each a host of its own.
struct LabRun {
  int64_t ranks = 1;
  RankTask task = {};
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LabRun, ranks, task)

/// A network of hosts that are network namespaces, each with a link of `megabits` per second to a
/// switch, and what runs on them, one run after the other. 0: no network, for one rank alone.
struct LabTask {
  double megabits = 100;
  std::vector<LabRun> runs = {};
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LabTask, megabits, runs)

/// The share of a link's bits that are the payload of TCP in full frames of 1500 bytes.
inline constexpr double kPayloadShare = 1448.0 / 1514;

/// Runs ranks as `task` (JSON) says, in namespaces that nobody else sees and that end with this
/// process, however it ends. Returns the exit code: kNoLabExit where it may not make namespaces.
int serve_lab(const std::string& task);

}  // namespace wick::study
