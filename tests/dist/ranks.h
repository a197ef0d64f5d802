#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/dist/process_group.h"

namespace wick::dist {

using Group = std::shared_ptr<ProcessGroup>;

/// Runs `body` on each rank of a new local group, a thread each, and throws the first rank's error.
inline void on_ranks(int size, const std::function<void(const Group&)>& body,
                     const ProcessGroupOptions& options = {.timeout = std::chrono::minutes(5)}) {
  std::vector<Group> groups = make_local_groups(size, options);
  std::vector<std::exception_ptr> errors(groups.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < groups.size(); ++r) {
    threads.emplace_back([&, r] {
      try {
        body(groups[r]);
      } catch (const std::exception& error) {
        errors[r] = std::current_exception();
        groups[r]->abort(error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

/// What all_reduce of `given`, one of each rank, is to give.
inline Tensor reduce_by_hand(const std::vector<Tensor>& given, ReduceOp op) {
  Tensor result = given[0];
  for (size_t r = 1; r < given.size(); ++r) {
    if (op == ReduceOp::kMin) {
      result = minimum(result, given[r]);
    } else if (op == ReduceOp::kMax) {
      result = maximum(result, given[r]);
    } else {
      result = op == ReduceOp::kProduct ? result * given[r] : result + given[r];
    }
  }
  return op == ReduceOp::kAverage ? result / static_cast<int64_t>(given.size()) : result;
}

/// Sends `mine` to the next rank of a ring of an even number, and receives the one's before.
inline void pass_around(const Group& group, const Tensor& mine, const Tensor& received) {
  const int rank = group->rank(), size = group->size();
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  if (rank % 2 == 0) {
    group->send(mine, next);
    group->recv(received, before).wait();
  } else {
    group->recv(received, before);
    group->send(mine, next).wait();
  }
}

/// Sends `mine` to the next rank of a ring of any number, and receives those of the one
/// before; all send before they receive.
inline void pass_around_at_once(const Group& group, const std::vector<Tensor>& mine,
                                const std::vector<Tensor>& received) {
  const int rank = group->rank(), size = group->size();
  std::vector<Transfer> transfers;
  for (const Tensor& x : mine) {
    transfers.push_back({CollectiveKind::kSend, x, (rank + 1) % size});
  }
  for (const Tensor& x : received) {
    transfers.push_back({CollectiveKind::kReceive, x, (rank + size - 1) % size});
  }
  group->batch(transfers).wait();
}

}  // namespace wick::dist
