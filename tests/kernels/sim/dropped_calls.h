#pragma once

#include <set>
#include <string>

namespace wick::testing {

/// Whether it is among the calls that destructors make, which can tell nobody of a failure: memory
/// whose event could not be recorded is never reused; an event or a graph that could not be
/// destroyed stays. Nor does a handle matter whose memory is mapped, and with it can be unmapped.
inline bool is_dropped(const std::string& call) {
  static const std::set<std::string> kDropped = {"cudaGetDevice",        "cudaEventRecord",
                                                 "cudaEventDestroy",     "cudaGraphDestroy",
                                                 "cudaGraphExecDestroy", "cuMemRelease"};
  return kDropped.contains(call);
}

}  // namespace wick::testing
