#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "wick/data/loader.h"
#include "wick/dist/process_group.h"
#include "wick/tools/wick/config.h"

namespace wick::tool {

/// The processes that train one model together, each on its share of every batch; or one alone.
class Ranks {
 public:
  Ranks() = default;  // one alone
  explicit Ranks(std::shared_ptr<dist::ProcessGroup> group, int local_rank = 0)
      : group_(std::move(group)), local_rank_(local_rank) {}

  bool alone() const { return group_ == nullptr; }
  int rank() const { return alone() ? 0 : group_->rank(); }
  int size() const { return alone() ? 1 : group_->size(); }
  /// Among the ranks of this machine.
  int local_rank() const { return local_rank_; }
  /// Whether this is the one that prints, logs and writes the run folder.
  bool first() const { return rank() == 0; }
  const std::shared_ptr<dist::ProcessGroup>& group() const { return group_; }

  /// This rank's share of the loading of `samples` samples to train on that `options` asks of one
  /// process: the same part of every batch.
  data::DataLoaderOptions share(data::DataLoaderOptions options, int64_t samples) const;
  /// Its share of an evaluation: a run of samples of its own.
  data::DataLoaderOptions evaluation_share(data::DataLoaderOptions options, int64_t samples) const;

  // The rest is called by all ranks together.

  /// The sums of `values` over the ranks.
  std::vector<double> sum(const std::vector<double>& values) const;
  /// Puts rank 0's elements into these tensors.
  void broadcast(const std::vector<Tensor>& tensors) const;
  /// Error on all ranks if `text` is not everywhere what it is on rank 0: "`what` differ".
  void check_same(const std::string& what, const std::string& text) const;
  void barrier() const;

 private:
  std::shared_ptr<dist::ProcessGroup> group_;
  int local_rank_ = 0;
};

/// This rank ends because of another one: exit code 3, by which `supervise` tells it from that one.
class OtherRankFailed : public Error {
 public:
  using Error::Error;
};
inline constexpr int kOtherRankFailedExit = 3;

/// Joins the other ranks, if a launcher's variables say that there are some, and waits until all
/// have come. Error if --ranks, where it is given, says another number. OtherRankFailed if they do
/// not come together.
Ranks join_ranks(const TrainConfig& config, std::optional<int64_t> ranks);

/// Error if this machine does not have the device that `config` names, or --backend is not for it.
void check_backend(const TrainConfig& config);

/// UsageError if the ranks cannot share out what `config` (resolved) asks for.
void check_shares(const TrainConfig& config, int64_t ranks);

}  // namespace wick::tool
