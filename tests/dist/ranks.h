#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

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

}  // namespace wick::dist
