#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "wick/dist/detail/nccl.h"
#include "wick/dist/processes.h"
#include "wick/tests/dist/ranks.h"
#include "wick/tests/harness/temporary_folder.h"

// Groups as of processes, whose ranks are threads that meet as processes do.
namespace wick::dist {

inline LaunchEnv env_of(int rank, int size, const wick::testing::TemporaryFolder& folder) {
  LaunchEnv env;
  env.rank = env.local_rank = rank;
  env.world_size = env.local_world_size = size;
  env.rendezvous_file = folder.path("rendezvous");
  return env;
}

// Runs `body` on each rank of a new group, a thread each; what each threw, or "".
inline std::vector<std::string> errors_on_unequal_peers(
    int size, const std::function<void(const Group&)>& body,
    const std::function<ProcessGroupOptions(int rank)>& options_of) {
  const wick::testing::TemporaryFolder folder;
  std::vector<std::string> errors(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      try {
        body(init_process_group(env_of(r, size, folder), options_of(r)));
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(r)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(std::filesystem::exists(folder.path("rendezvous")));
  return errors;
}

inline std::vector<std::string> errors_on_peers(int size,
                                                const std::function<void(const Group&)>& body,
                                                const ProcessGroupOptions& options) {
  return errors_on_unequal_peers(size, body, [&](int) { return options; });
}

/// Whether `ranks` GPUs and NCCL are there.
inline bool has_nccl(int ranks) {
  try {
    nccl_version();
  } catch (const Error&) {
    return false;
  }
  return cuda_device_count() >= ranks;
}

}  // namespace wick::dist
