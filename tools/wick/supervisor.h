#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "wick/tools/wick/hosts.h"

namespace wick::tool {

struct SuperviseOptions {
  int64_t ranks = 1;
  int64_t max_restarts = 0;  // of all ranks together, in all
  /// Where ranks leave flight records, those of the K-th restart in restart-K of it. Empty:
  /// nowhere.
  std::string flight_folder;
  /// Where the ranks run. None: `ranks` of them on this machine.
  std::vector<Host> hosts = {};
  /// How a program is started on a host: these words, the host, the program's words.
  std::vector<std::string> rsh = {};
  /// Where rank 0 listens. Empty and 0: the first host's name, and a port drawn for each start.
  std::string master_addr = {};
  int64_t master_port = 0;
};

/// What each rank is started with: the program (a path, or a name to look for) and its arguments,
/// for the first time (0) or the restarts-th restart.
using RankWords = std::function<std::vector<std::string>(int64_t restarts)>;

/// Starts all ranks, which find each other by torchrun's variables, and waits for them. When one
/// fails, the others get a few seconds to say what they have to say; what is then left is killed,
/// and all are started again as often as `max_restarts` says. Signals that ask to end are passed
/// on. No rank is left behind, not even if this process is killed. Returns 0, 130 if a signal asked
/// for the end, or the exit code of the rank, or of the host, that failed first (see Attempt),
/// which a sentence on standard error names.
int supervise(const SuperviseOptions& options, const RankWords& words);

}  // namespace wick::tool
