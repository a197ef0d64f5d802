#include "wick/train/ranks.h"

#include <algorithm>

#include "wick/dist/processes.h"

namespace wick::train {

namespace {

// Fowler, Noll, Vo: FNV-1a.
int64_t hash_of(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return static_cast<int64_t>(hash);
}

}  // namespace

Ranks Ranks::join(const dist::ProcessGroupOptions& options) {
  const std::optional<dist::LaunchEnv> env = dist::launch_env();
  if (!env || env->world_size == 1) return {};
  return Ranks(dist::init_process_group(*env, options), env->local_rank);
}

data::DataLoaderOptions Ranks::share(data::DataLoaderOptions options, int64_t samples) const {
  if (alone()) return options;
  WICK_CHECK(options.batch_size && *options.batch_size % size() == 0, "train: batch_size: got ",
             options.batch_size.value_or(0), ", expected a multiple of the ", size(),
             " ranks, which share each batch evenly");
  std::shared_ptr<const data::Sampler> order = options.sampler;
  if (!order && options.shuffle) order = std::make_shared<data::RandomSampler>(samples);
  if (!order) order = std::make_shared<data::SequentialSampler>(samples);
  options.batch_sampler = std::make_shared<data::DistributedBatchSampler>(
      std::move(order), *options.batch_size, size(), rank(), options.drop_last);
  // The batch sampler decides these.
  options.batch_size = 1;
  options.sampler = nullptr;
  options.shuffle = options.drop_last = false;
  return options;
}

data::DataLoaderOptions Ranks::evaluation_share(data::DataLoaderOptions options,
                                                int64_t samples) const {
  if (alone()) return options;
  const auto begin_of = [&](int64_t rank) { return (samples * rank + size() - 1) / size(); };
  const int64_t begin = begin_of(rank()), end = begin_of(rank() + 1);
  options.sampler = std::make_shared<data::SequentialSampler>(end - begin, begin);
  options.batch_size = std::max<int64_t>(options.batch_size.value_or(1) / size(), 1);
  return options;
}

std::vector<double> Ranks::sum(const std::vector<double>& values) const {
  if (alone()) return values;
  const Tensor total = tensor<double>(values);
  group_->all_reduce(total).wait();
  return total.to_vector<double>();
}

int64_t Ranks::max(int64_t value) const {
  if (alone()) return value;
  const Tensor most = tensor<int64_t>({value});
  group_->all_reduce(most, dist::ReduceOp::kMax).wait();
  return most.item<int64_t>();
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

OptionFields fields(RankOptions& options) {
  return {
      OptionField("sync_batch_norm", &options.sync_batch_norm,
                  "batch normalisation by the batches of all ranks together")
          .lasting(),
      OptionField("zero", &options.zero,
                  "share the optimizer's state out among the ranks (ZeRO stage 1)"),
      OptionField("rank_timeout", &options.timeout,
                  "seconds that ranks wait for one of them before all give up")
          .between(0.1, 1e6),
      OptionField("backend", &options.backend,
                  "what carries tensors between the GPUs of ranks (gloo: through the host; auto: "
                  "nccl where each rank has a real GPU of its own)")
          .one_of({"auto", "nccl", "gloo"}),
  };
}

dist::ProcessGroupOptions group_options(const RankOptions& options, Device device) {
  dist::ProcessGroupOptions group;
  group.timeout =
      std::chrono::milliseconds(static_cast<int64_t>(std::max(1.0, 1e3 * options.timeout)));
  group.backend = dist::parse_backend(options.backend);
  group.device = device;
  return group;
}

}  // namespace wick::train
