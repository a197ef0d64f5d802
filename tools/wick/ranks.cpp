#include "wick/tools/wick/ranks.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "wick/dist/launch_env.h"
#include "wick/tools/wick/setup.h"

namespace wick::tool {

namespace {

// What must be the same on all ranks.
std::string common_flags(const TrainConfig& config) {
  nlohmann::ordered_json values = to_json(config);
  for (const char* own : {"data_dir", "run_dir", "threads", "workers", "device"}) values.erase(own);
  return values.dump();
}

}  // namespace

train::Ranks join_ranks(const TrainConfig& config, std::optional<int64_t> ranks) {
  const std::optional<dist::LaunchEnv> env = dist::launch_env();
  const int64_t size = env ? env->world_size : 1;
  if (ranks && *ranks != size) {
    throw UsageError(
        fmt::format("--ranks: got {}, but {} started {} ranks: leave it out, or start this process "
                    "alone",
                    *ranks, env ? env->launcher : "nobody", size));
  }
  check_shares(config, size);
  if (size == 1) return {};
  if (config.cuda_graph) throw UsageError("--cuda-graph: not with several ranks");
  check_backend(config);
  dist::ProcessGroupOptions options;
  options.timeout =
      std::chrono::milliseconds(static_cast<int64_t>(std::max(1.0, 1e3 * config.rank_timeout)));
  options.backend = dist::parse_backend(config.backend);
  options.device = choose_device(config.device, env->local_rank);
  try {
    train::Ranks joined = train::Ranks::join(options);
    joined.check_same("flags", common_flags(config));
    return joined;
  } catch (const dist::ProcessGroupError& error) {
    throw OtherRankFailed(error.what());
  }
}

void check_backend(const TrainConfig& config) {
  if (!choose_device(config.device).is_cpu() || config.backend != "nccl") return;
  throw UsageError(
      "--backend nccl: it is for GPUs, and the device is the CPU: leave it out, or name a GPU by "
      "--device");
}

void check_shares(const TrainConfig& config, int64_t ranks) {
  if (ranks == 1) return;
  const int64_t batch = *config.batch_size;
  if (batch % ranks != 0) {
    const int64_t below = batch / ranks * ranks;
    throw UsageError(fmt::format(
        "--batch-size: {} images of a step cannot be shared evenly among {} ranks: expected {}{}",
        batch, ranks, below > 0 ? fmt::format("{} or ", below) : "", below + ranks));
  }
  if (config.on_bad_sample == "skip") {
    throw UsageError(
        "--on-bad-sample skip: not with several ranks, whose batches must be of one size: find the "
        "images by wick data check and take them out");
  }
}

}  // namespace wick::tool
