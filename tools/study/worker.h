#pragma once

#include <string>

namespace wick::study {

/// Does what `settings` (JSON) say. Answers each line of standard input with one line of JSON on
/// standard output, the first without being asked, once it is ready:
///   run N         N steps: seconds, peak_bytes of memory, wait_seconds for data
///   timeline      one step: bytes held over its time
///   bounds N      N steps: the share of their time that goes to each profile::Bound; zeros
///                 where no operation was recorded
///   learn N SEED  a training of N steps from its start: the loss of each step, test accuracy
/// An error is an answer with "error", and the end. Returns the exit code.
int serve(const std::string& settings);

}  // namespace wick::study
