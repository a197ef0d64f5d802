#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "wick/dist/scaling.h"

namespace wick::dist {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TimedGradient, ready, bytes)
}

namespace wick::study {

/// What the ranks of an experiment do, all the same (see serve_rank).
struct RankTask {
  std::string result;          // the file that rank 0 writes
  std::vector<int64_t> bytes;  // sizes of all-reduces
  int64_t repeats = 5;         // of each
  std::string model = "article";
  int64_t batch = 8;  // images of a rank
  int64_t image = 32;
  int64_t steps = 12;
  double delay = 0;  // seconds that each message comes later, where it is waited for
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankTask, result, bytes, repeats, model, batch, image, steps,
                                   delay)

/// What they find.
struct RankResult {
  int64_t ranks = 1;
  double latency = 0, overhead = 0;  // of messages between ranks 0 and 1
  double add_seconds_per_byte = 0;
  std::vector<double> reduce_seconds;  // medians, for RankTask::bytes
  // Steps without communication, of all ranks at a time: means over steps and ranks.
  double forward = 0, backward = 0, update = 0, deviation = 0;
  std::vector<dist::TimedGradient> gradients;  // in the order in which they become ready
  std::vector<double> buffers;                 // bytes of each
  double step_seconds = 0;                     // data parallel: the median
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankResult, ranks, latency, overhead, add_seconds_per_byte,
                                   reduce_seconds, forward, backward, update, deviation, gradients,
                                   buffers, step_seconds)

/// The buckets of the data-parallel steps: smaller than DistributedDataParallel has them by itself,
/// so that a small model has several.
inline constexpr int64_t kFirstBucketBytes = 64 << 10, kBucketBytes = 256 << 10;

RankResult read_result(const std::string& path);

/// A rank that measures messages, all-reduces, a training step's parts and data-parallel steps, as
/// `task` (JSON) says; launched with torchrun's variables. Returns the exit code.
int serve_rank(const std::string& task);

}  // namespace wick::study
