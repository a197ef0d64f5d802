#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wick/core/profile/event.h"

namespace wick::profile {

/// Options of write_chrome_trace().
struct TraceOptions {
  /// About the most bytes to write; events beyond are left out, and counted in the file.
  int64_t max_bytes = int64_t{1} << 30;
};

/// Writes a recording in Chrome's trace format (JSON), which ui.perfetto.dev shows: a bar per event
/// by thread, kernels by stream, arrows from each operation to its backward, counters of memory and
/// of waits for data. Times are microseconds since the clock's start. Written piece by piece, and
/// the file is there once it is whole: an error, as of a full disk, leaves the old one.
void write_chrome_trace(const Recording& recording, const std::string& path,
                        const TraceOptions& options = {});

/// Makes one trace of those that several ranks wrote, on the clock of the first. Clocks are aligned
/// by the collectives that ranks have in common, which end together; without any, by the time of
/// day at which each began. Error for a file that is no such trace, and for two of one rank.
void merge_chrome_traces(const std::vector<std::string>& paths, const std::string& path);

}  // namespace wick::profile
