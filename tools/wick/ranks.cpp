#include "wick/tools/wick/ranks.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "wick/dist/gloo.h"
#include "wick/tools/wick/setup.h"

namespace wick::tool {

namespace {

// Fowler, Noll, Vo: FNV-1a.
int64_t hash_of(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return static_cast<int64_t>(hash);
}

// What must be the same on all ranks.
std::string common_flags(const TrainConfig& config) {
  nlohmann::ordered_json values = to_json(config);
  for (const char* own : {"data_dir", "run_dir", "threads", "workers", "device"}) values.erase(own);
  return values.dump();
}

}  // namespace

data::DataLoaderOptions Ranks::share(data::DataLoaderOptions options, int64_t samples) const {
  if (alone()) return options;
  std::shared_ptr<const data::Sampler> order;
  if (options.shuffle) {
    order = std::make_shared<data::RandomSampler>(samples);
  } else {
    order = std::make_shared<data::SequentialSampler>(samples);
  }
  options.batch_sampler = std::make_shared<data::DistributedBatchSampler>(
      std::move(order), *options.batch_size, size(), rank(), options.drop_last);
  options.batch_size = 1;  // the sampler's to say, as are these
  options.shuffle = options.drop_last = false;
  return options;
}

data::DataLoaderOptions Ranks::evaluation_share(data::DataLoaderOptions options,
                                                int64_t samples) const {
  if (alone()) return options;
  const int64_t begin = samples * rank() / size(), end = samples * (rank() + 1) / size();
  options.sampler = std::make_shared<data::SequentialSampler>(end - begin, begin);
  options.batch_size = std::max<int64_t>(*options.batch_size / size(), 1);
  return options;
}

std::vector<double> Ranks::sum(const std::vector<double>& values) const {
  if (alone()) return values;
  const Tensor total = tensor<double>(values);
  group_->all_reduce(total).wait();
  return total.to_vector<double>();
}

void Ranks::broadcast(const std::vector<Tensor>& tensors) const {
  if (alone()) return;
  std::vector<dist::Work> works;
  for (const Tensor& x : tensors) works.push_back(group_->broadcast(x));
  for (const dist::Work& work : works) work.wait();
}

void Ranks::check_same(const std::string& what, const std::string& text) const {
  if (alone()) return;
  const Tensor all = empty({size(), 1}, kInt64);
  group_->all_gather(tensor<int64_t>({hash_of(text)}), all).wait();
  const auto hashes = all.to_vector<int64_t>();
  for (size_t r = 1; r < hashes.size(); ++r) {
    WICK_CHECK(hashes[r] == hashes[0], what, " differ: those of rank ", r,
               " are not those of rank 0");
  }
}

void Ranks::barrier() const {
  if (!alone()) group_->barrier().wait();
}

Ranks join_ranks(const TrainConfig& config, std::optional<int64_t> ranks) {
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
    Ranks joined(dist::init_process_group(*env, options), env->local_rank);
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
