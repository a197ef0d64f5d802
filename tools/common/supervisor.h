#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "wick/tools/common/attempt.h"

namespace wick::tool {

/// The ranks of one start of a job, and where they meet.
struct LocalRanks {
  int64_t count = 1;
  std::string master_addr = "127.0.0.1";
  int64_t master_port = 0;
  std::string token = {}, flight_folder = {};
  int64_t restarts = 0;
  bool bind_cores = false;
};

/// The cores of rank `rank` of `count` where each has its own: a run of those that this process may
/// use, as long as the others' or one longer. Error if there are fewer cores than ranks.
cpu_set_t cores_of(int64_t rank, int64_t count);

/// Each of these ranks, to be started on this machine with torchrun's variables.
std::vector<Member> members_of(const LocalRanks& ranks, const std::vector<std::string>& words);

struct SuperviseOptions {
  int64_t ranks = 1;
  int64_t max_restarts = 0;  // of all ranks together, in all
  /// Where ranks leave flight records, those of the K-th restart in restart-K of it. Empty:
  /// nowhere.
  std::string flight_folder = {};
  bool bind_cores = false;  // each rank runs on cores of its own
};

/// What each rank is started with: the program (a path, or a name to look for) and its arguments,
/// for the first time (0) or the restarts-th restart.
using RankWords = std::function<std::vector<std::string>(int64_t restarts)>;

/// Starts all ranks on this machine, which find each other by torchrun's variables, and waits for
/// them. When one fails, the others get a few seconds to say what they have to say; what is then
/// left is killed, and all are started again as often as `max_restarts` says. Signals that ask to
/// end are passed on. No rank is left behind, not even if this process is killed. Returns 0, 130 if
/// a signal asked for the end, or the exit code of the rank that failed first (see Attempt), which
/// a sentence on standard error names.
int supervise(const SuperviseOptions& options, const RankWords& words);

}  // namespace wick::tool
