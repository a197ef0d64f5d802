#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace wick::dist {

/// What one rank was asked to do among its group, read from the file that the rank left in
/// ProcessGroupOptions::flight_folder when the group failed.
struct FlightLog {
  /// A collective that the rank was asked for, and whether it was done on this rank.
  struct Collective {
    int64_t sequence = 0;  // from 1
    std::string description;
    bool done = false;
  };

  int64_t rank = 0, size = 0;
  std::string failure = {};
  std::vector<Collective> collectives = {};  // by sequence; without sends and receives

  /// The last collective that was asked for, and that was done. 0: none.
  int64_t last_asked() const { return collectives.empty() ? 0 : collectives.back().sequence; }
  int64_t last_done() const;
};

/// Reads one flight-<rank>.json. Error if the file is no flight log: its content may be hostile.
FlightLog read_flight_log(const std::string& path);

/// What read_flight_logs found in a folder.
struct FlightLogs {
  std::vector<FlightLog> logs;        // by rank; one or more
  std::vector<std::string> rejected;  // what was wrong with each file that is no flight log
};

/// Reads each flight-*.json of a folder. Error if none can be read, if two are of one rank, or if
/// the logs are of groups of different sizes.
FlightLogs read_flight_logs(const std::string& folder);

/// Which ranks are to blame.
struct FlightVerdict {
  std::vector<int64_t> ranks;  // empty: nothing is wrong, or the logs do not tell
  std::string why;             // one sentence
};

/// Compares the logs of one group, at most one of each rank. Ranks to blame are, in this order:
/// those that asked for another collective than most, left no log, stayed away from a
/// collective, or failed by themselves.
FlightVerdict find_desync(const std::vector<FlightLog>& logs);

}  // namespace wick::dist
