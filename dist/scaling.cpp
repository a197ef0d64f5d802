#include "wick/dist/scaling.h"

#include <algorithm>
#include <cmath>

#include "wick/core/base/check.h"

namespace wick::dist {

namespace {

// Of peer_collectives.cpp, processes.cpp and tcp_link.cpp.
constexpr double kBytesAtOnce = 1 << 13, kAnnouncementBytes = 408;
constexpr double kMostBytesOfSlots = 1 << 24, kLeastSlotBytes = 1 << 16, kMostSlotBytes = 1 << 20;

double slot_bytes(double ranks) {
  return std::clamp(kMostBytesOfSlots / ranks, kLeastSlotBytes, kMostSlotBytes);
}

double rounds(double ranks) { return std::ceil(std::log2(ranks)); }

// What every rank tells all others before a collective.
double announcement_seconds(double p, const LinkModel& link) {
  return link.latency + (p - 1) * (link.overhead + kAnnouncementBytes / link.bandwidth);
}

double direct_seconds(double p, double n, const LinkModel& link, double add) {
  const double begin = announcement_seconds(p, link);
  if (n <= kBytesAtOnce) {
    return begin + link.latency + (p - 1) * (link.overhead + n / link.bandwidth + n * add);
  }
  const double blocks = std::ceil(n / (slot_bytes(p) * p)), share = (p - 1) / p;
  return begin + 2 * link.latency + 2 * (p - 1) * blocks * link.overhead +
         2 * share * n / link.bandwidth + share * n * add;
}

// Ranks beyond a power of two first give theirs to another, and get the result from it.
double halving_doubling_seconds(double p, double n, const LinkModel& link, double add) {
  const double message = link.latency + link.overhead;
  const double power = std::exp2(std::floor(std::log2(p))), share = (power - 1) / power;
  const double fold = power < p ? 2 * (message + n / link.bandwidth) + n * add : 0;
  return fold + 2 * std::log2(power) * message + 2 * share * n / link.bandwidth + share * n * add;
}

double hierarchical_seconds(double p, double n, const ClusterModel& cluster) {
  const double local = std::min(p, static_cast<double>(cluster.ranks_per_host));
  const double hosts = std::ceil(p / local), add = cluster.add_seconds_per_byte;
  double seconds = 0;
  if (local > 1) {
    seconds += direct_seconds(local, n, cluster.host, add);
    seconds += cluster.host.latency + (local - 1) * cluster.host.overhead +
               n / cluster.host.bandwidth;  // all read the same memory
  }
  if (hosts > 1) seconds += halving_doubling_seconds(hosts, n, cluster.network, add);
  return seconds;
}

}  // namespace

const char* to_string(AllReduceAlgorithm algorithm) {
  switch (algorithm) {
    case AllReduceAlgorithm::kDirect: return "direct";
    case AllReduceAlgorithm::kRing: return "ring";
    case AllReduceAlgorithm::kTree: return "tree";
    case AllReduceAlgorithm::kHalvingDoubling: return "halving and doubling";
    case AllReduceAlgorithm::kHierarchical: return "hierarchical";
  }
  return "";
}

double all_reduce_seconds(AllReduceAlgorithm algorithm, int64_t ranks, double bytes,
                          const ClusterModel& cluster) {
  WICK_CHECK(ranks >= 1 && bytes >= 0, "all_reduce_seconds: got ", ranks, " ranks and ", bytes,
             " bytes, expected one rank or more");
  if (ranks == 1) return 0;
  const LinkModel& link = cluster.network;
  const double p = static_cast<double>(ranks), n = bytes, add = cluster.add_seconds_per_byte;
  const double message = link.latency + link.overhead;
  switch (algorithm) {
    case AllReduceAlgorithm::kDirect: return direct_seconds(p, n, link, add);
    case AllReduceAlgorithm::kRing:
      return 2 * (p - 1) * (message + n / p / link.bandwidth) + (p - 1) / p * n * add;
    case AllReduceAlgorithm::kTree:
      return rounds(p) * (2 * (message + n / link.bandwidth) + n * add);
    case AllReduceAlgorithm::kHalvingDoubling: return halving_doubling_seconds(p, n, link, add);
    case AllReduceAlgorithm::kHierarchical: return hierarchical_seconds(p, n, cluster);
  }
  return 0;
}

double broadcast_seconds(int64_t ranks, double bytes, const ClusterModel& cluster) {
  WICK_CHECK(ranks >= 1 && bytes >= 0, "broadcast_seconds: got ", ranks, " ranks and ", bytes,
             " bytes, expected one rank or more");
  if (ranks == 1) return 0;
  const LinkModel& link = cluster.network;
  const double p = static_cast<double>(ranks), messages = std::ceil(bytes / slot_bytes(p));
  return announcement_seconds(p, link) + link.latency +
         (p - 1) * (messages * link.overhead + bytes / link.bandwidth);
}

std::vector<TimedGradient> buckets_of(const std::vector<TimedGradient>& gradients,
                                      double first_bytes, double bytes) {
  std::vector<TimedGradient> buckets;
  TimedGradient open;
  for (const TimedGradient& gradient : gradients) {
    open.ready = std::max(open.ready, gradient.ready);
    open.bytes += gradient.bytes;
    if (open.bytes < (buckets.empty() ? first_bytes : bytes)) continue;
    buckets.push_back(open);
    open = {};
  }
  if (open.bytes > 0) buckets.push_back(open);
  return buckets;
}

double backward_seconds(double computation, const std::vector<TimedGradient>& buckets,
                        const std::function<double(double bytes)>& reduction) {
  double end = 0;
  for (const TimedGradient& bucket : buckets) {
    end = std::max(end, bucket.ready) + reduction(bucket.bytes);
  }
  return std::max(end, computation);
}

double step_seconds(const StepModel& step, int64_t ranks, AllReduceAlgorithm algorithm,
                    const ClusterModel& cluster) {
  double seconds = step.forward + step.update + step.deviation * expected_largest(ranks);
  for (const double bytes : step.buffers) seconds += broadcast_seconds(ranks, bytes, cluster);
  return seconds + backward_seconds(step.backward, step.buckets, [&](double bytes) {
           return all_reduce_seconds(algorithm, ranks, bytes, cluster);
         });
}

// The integral of x times the density of the largest, by Simpson's rule.
double expected_largest(int64_t n) {
  WICK_CHECK(n >= 1, "expected_largest: got ", n, " values, expected one or more");
  if (n == 1) return 0;
  constexpr int kParts = 4000;
  constexpr double kEnd = 12, kStep = 2 * kEnd / kParts;
  double sum = 0;
  for (int i = 0; i <= kParts; ++i) {
    const double x = -kEnd + i * kStep;
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
    const double below = std::erfc(-x / std::sqrt(2)) / 2;
    const double weight = i == 0 || i == kParts ? 1 : i % 2 == 1 ? 4 : 2;
    const double count = static_cast<double>(n);
    sum += weight * x * count * density * std::pow(below, count - 1);
  }
  return sum * kStep / 3;
}

double young_interval(const FailureModel& failures) {
  return std::sqrt(2 * failures.checkpoint * failures.between_failures);
}

double daly_interval(const FailureModel& failures) {
  const double mean = failures.between_failures, ratio = failures.checkpoint / (2 * mean);
  if (ratio >= 1) return mean;
  return young_interval(failures) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - failures.checkpoint;
}

double useful_share(const FailureModel& failures, double interval) {
  const double mean = failures.between_failures;
  WICK_CHECK(mean > 0 && interval > 0, "useful_share: got ", mean, " s between failures and ",
             interval, " s between checkpoints, expected positive times");
  return interval / (mean * std::exp(failures.restart / mean) *
                     std::expm1((interval + failures.checkpoint) / mean));
}

}  // namespace wick::dist
