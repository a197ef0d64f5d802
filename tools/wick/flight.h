#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace wick::tool {

/// What one rank was asked to do among the group, from its flight record.
struct FlightLog {
  struct Entry {
    int64_t sequence = 0;
    std::string description;
    bool done = false;
  };
  int64_t rank = 0, size = 0;
  std::string failure;
  std::vector<Entry> collectives;  // not sends and receives, in their order
};

/// Reads a flight-<rank>.json, which may be of any content. Error if it is no flight record.
FlightLog read_flight_log(const std::string& path);

/// Which ranks are to blame.
struct FlightVerdict {
  std::vector<int64_t> ranks;  // empty: nothing is wrong, or nobody can tell
  std::string why;             // one sentence
};

/// Compares the records of one group, at most one of each rank, all of the same size: who asked for
/// something else than the others, left no record, stayed away, or failed by itself, in this order.
FlightVerdict judge_flight(const std::vector<FlightLog>& logs);

/// `wick doctor --flight`: prints what the records in `folder` tell. Returns the exit code.
int report_flight(const std::string& folder);

}  // namespace wick::tool
