#include "wick/tools/wick/ranks.h"

#include <fmt/core.h>

#include "wick/dist/launch_env.h"
#include "wick/tools/common/usage_error.h"
#include "wick/train/classifier.h"
#include "wick/train/device.h"

namespace wick::tool {

namespace {

// What must be the same on all ranks.
std::string common_options(train::Recipe recipe) {
  OptionFields common;
  for (const OptionField& field : train::fields(recipe)) {
    if (!field.is_per_rank()) common.push_back(field);
  }
  return to_json(common);
}

}  // namespace

train::Ranks join_ranks(const train::Recipe& recipe, std::optional<int64_t> ranks) {
  const std::optional<dist::LaunchEnv> env = dist::launch_env();
  const int64_t size = env ? env->world_size : 1;
  if (ranks && *ranks != size) {
    throw UsageError(
        fmt::format("--ranks: got {}, but {} started {} ranks: leave it out, or start this process "
                    "alone",
                    *ranks, env ? env->launcher : "nobody", size));
  }
  train::check_shares(recipe, size);
  if (size == 1) return {};
  require(!recipe.step.cuda_graph, "cuda_graph", "not with several ranks");
  check_backend(recipe);
  const Device device = train::choose_device(recipe.run.device, env->local_rank);
  train::Ranks joined = train::Ranks::join(train::group_options(recipe.ranks, device));
  joined.check_same("flags", common_options(recipe));
  return joined;
}

void check_backend(const train::Recipe& recipe) {
  const bool is_on_cpu = train::choose_device(recipe.run.device).is_cpu();
  require(!is_on_cpu || recipe.ranks.backend != "nccl", "backend",
          "nccl is for GPUs, and the device is the CPU: leave it out, or name a GPU by --device");
}

}  // namespace wick::tool
