#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "wick/core/options.h"
#include "wick/data/loader.h"
#include "wick/dist/launch_env.h"
#include "wick/dist/process_group.h"

namespace wick::train {

/// How the ranks of a run work together.
struct RankOptions {
  bool sync_batch_norm = false;  // batch normalisation by the batches of all ranks together
  bool zero = false;             // ranks share the optimizer's state (ZeRO stage 1)
  double timeout = 600;          // seconds that ranks wait for one of them
  std::string backend = "auto";  // as dist::parse_backend takes it
};
OptionFields fields(RankOptions& options);
/// For a process group of ranks that train on `device`.
dist::ProcessGroupOptions group_options(const RankOptions& options, Device device);

/// The processes that train one model together, each on its share of every batch; or one alone.
class Ranks {
 public:
  Ranks() = default;  // one alone
  explicit Ranks(std::shared_ptr<dist::ProcessGroup> group, int local_rank = 0)
      : group_(std::move(group)), local_rank_(local_rank) {}

  /// Joins the ranks that a launcher's variables tell of (dist/launch_env.h) and waits until all
  /// have come; one alone where no launcher says anything. ProcessGroupError if they do not come.
  static Ranks join(const dist::ProcessGroupOptions& options = {});

  /// Whether this process trains by itself, without a process group.
  bool alone() const { return group_ == nullptr; }
  /// The number of this rank, 0 to size() - 1.
  int rank() const { return alone() ? 0 : group_->rank(); }
  /// Number of ranks, 1 for one alone.
  int size() const { return alone() ? 1 : group_->size(); }
  /// The number of this rank among those of its machine.
  int local_rank() const { return local_rank_; }
  /// Whether this is the rank that logs and writes the run folder.
  bool first() const { return rank() == 0; }
  const std::shared_ptr<dist::ProcessGroup>& group() const { return group_; }  // null if alone

  /// This rank's share of the loading that `options` ask of one process, of `samples` samples to
  /// train on: the same part of every batch. Error if a batch cannot be shared evenly.
  data::DataLoaderOptions share(data::DataLoaderOptions options, int64_t samples) const;
  /// This rank's share of an evaluation: samples of its own. Rank 0 has as many as any other, or
  /// one more.
  data::DataLoaderOptions evaluation_share(data::DataLoaderOptions options, int64_t samples) const;

  // All ranks call these together.

  /// The sums of `values` over the ranks.
  std::vector<double> sum(const std::vector<double>& values) const;
  /// The largest of the ranks' values.
  int64_t max(int64_t value) const;
  /// Puts rank 0's elements into these tensors.
  void broadcast(const std::vector<Tensor>& tensors) const;
  /// Error on all ranks if `text` is not everywhere what it is on rank 0: "`what` differ".
  void check_same(const std::string& what, const std::string& text) const;
  void barrier() const;  // returns when all ranks have called it

 private:
  std::shared_ptr<dist::ProcessGroup> group_;
  int local_rank_ = 0;
};

}  // namespace wick::train
