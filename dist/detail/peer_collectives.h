#pragma once

#include <memory>
#include <vector>

#include "wick/dist/detail/link.h"
#include "wick/dist/process_group.h"

namespace wick::dist {

/// Collectives of dense host tensors over links to all other ranks; all ranks call the same. What
/// the ranks ask for is the caller's to compare.
class PeerCollectives {
 public:
  PeerCollectives(int rank, std::vector<std::unique_ptr<Link>> links)
      : rank_(rank), links_(std::move(links)) {}

  int size() const { return static_cast<int>(links_.size()); }
  Link& link(int rank) const { return *links_[static_cast<size_t>(rank)]; }
  /// The other ranks, beginning with the next.
  std::vector<int> others() const;

  void send(int to, const void* data, size_t bytes) const;
  void receive(int from, void* data, size_t bytes) const;

  void all_reduce(const Tensor& x, ReduceOp op) const;
  void broadcast(const Tensor& x, int root) const;
  void all_gather(const Tensor& x, const Tensor& result) const;
  void reduce_scatter(const Tensor& x, const Tensor& result, ReduceOp op) const;
  void finish() const;

 private:
  struct Range {
    int64_t begin, count;
  };
  void all_reduce_at_once(const Tensor& x, ReduceOp op) const;
  void reduce_and_share(const Tensor& x, Range mine, ReduceOp op) const;
  void send_part(int to, const Tensor& x, Range range) const;
  void receive_part(int from, const Tensor& x, Range range) const;
  /// One part of each rank: this rank's own, and what the others' next messages hold until
  /// release().
  std::vector<Tensor> receive_parts(const Tensor& mine) const;
  void release_parts() const;
  /// Elements of `dtype` that every link's slots hold.
  int64_t slot_elements(Dtype dtype) const;

  int rank_;
  std::vector<std::unique_ptr<Link>> links_;
};

}  // namespace wick::dist
