#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace wick::dist {

// What data parallelism costs, on paper. Times are seconds, rates bytes per second. All ranks have
// equal links, and a network between them that carries all they send at once (docs/scaling.md).

/// A message of n bytes takes latency + n / bandwidth (Hockney 1994). A rank's messages to several
/// others share its bandwidth, and each takes `overhead` of its time (Alexandrov et al. 1995).
struct LinkModel {
  double latency = 0;
  double bandwidth = 1e9;  // each way
  double overhead = 0;
};

/// Where ranks run and what they add with.
struct ClusterModel {
  LinkModel network;                // of each rank, or with kHierarchical of each host
  LinkModel host = {};              // between ranks of one host
  int64_t ranks_per_host = 1;       // counts for kHierarchical alone
  double add_seconds_per_byte = 0;  // to add a byte of a tensor to another
};

/// How an all-reduce is done. Costs as in Thakur, Rabenseifner and Gropp (2005), for p ranks:
enum class AllReduceAlgorithm : uint8_t {
  /// This library's own: all ranks tell all what they ask for; each gets its part of the tensor
  /// from all others, reduces it, and gives it to them. Up to 8 kB all get all.
  kDirect,
  /// 2 (p - 1) steps around a ring, of an equal part each.
  kRing,
  /// Up a binomial tree and down again, whole tensors: 2 log2 p steps.
  kTree,
  /// Rabenseifner's: halves, quarters, ... of the tensor to ranks ever further away, and back.
  kHalvingDoubling,
  /// Directly within each host, then kHalvingDoubling by one rank of each, then back.
  kHierarchical,
};
const char* to_string(AllReduceAlgorithm algorithm);

double all_reduce_seconds(AllReduceAlgorithm algorithm, int64_t ranks, double bytes,
                          const ClusterModel& cluster);
/// This library's broadcast: the root sends to all others, one after the other.
double broadcast_seconds(int64_t ranks, double bytes, const ClusterModel& cluster);

/// A gradient, or a bucket of several: when it is complete, from the beginning of backward on.
struct TimedGradient {
  double ready = 0, bytes = 0;
};

/// The buckets that DistributedDataParallel makes of gradients in the order in which they become
/// ready: the first ends at `first_bytes` or more, the others at `bytes` or more.
std::vector<TimedGradient> buckets_of(const std::vector<TimedGradient>& gradients,
                                      double first_bytes, double bytes);

/// Backward with reductions: one at a time, each when its bucket is ready. Ends with the last of
/// them, or with the computation.
double backward_seconds(double computation, const std::vector<TimedGradient>& buckets,
                        const std::function<double(double bytes)>& reduction);

/// What a rank does in a step.
struct StepModel {
  double forward = 0, backward = 0, update = 0;  // computation alone
  double deviation = 0;                          // of it from step to step: standard deviation
  std::vector<TimedGradient> buckets = {};
  std::vector<double> buffers = {};  // bytes of each that is broadcast before forward
};

/// A step of `ranks` ranks that take the same time but for independent normal deviations: all wait
/// for the slowest.
double step_seconds(const StepModel& step, int64_t ranks, AllReduceAlgorithm algorithm,
                    const ClusterModel& cluster);

/// The expected largest of n independent standard normal values.
double expected_largest(int64_t n);

/// A job that fails every `between_failures` on average, independently of the past.
struct FailureModel {
  double between_failures = 0;
  double checkpoint = 0;  // to write one
  double restart = 0;     // from a failure until it computes again
};

/// Computation between two checkpoints at which least is lost, to first order: sqrt(2 C M) (Young
/// 1974).
double young_interval(const FailureModel& failures);
/// To higher order (Daly 2006).
double daly_interval(const FailureModel& failures);
/// The share of time in which the job gets on, with a checkpoint every `interval` of computation:
/// interval / (M e^(R/M) (e^((interval + C)/M) - 1)) (Daly 2006).
double useful_share(const FailureModel& failures, double interval);

}  // namespace wick::dist
