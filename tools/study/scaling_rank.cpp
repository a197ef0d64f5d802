#include "wick/tools/study/scaling_rank.h"

#include <fmt/core.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <thread>

#include "wick/core/base/threads.h"
#include "wick/core/core.h"
#include "wick/core/file.h"
#include "wick/core/ops/random.h"
#include "wick/dist/dist.h"
#include "wick/optim/optim.h"
#include "wick/tools/common/exit_codes.h"
#include "wick/tools/study/compare.h"
#include "wick/tools/study/training.h"

namespace wick::study {

namespace {

using Clock = std::chrono::steady_clock;
using Group = std::shared_ptr<dist::ProcessGroup>;
constexpr int kClasses = 10;
constexpr int kWarmUpSteps = 2;
constexpr uint64_t kMostResultBytes = 1 << 20;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// A group whose messages come later, as they would from afar: each collective begins as much later
// as those of its messages that wait for each other add up to.
class DelayedGroup final : public dist::ProcessGroup {
 public:
  DelayedGroup(Group group, double delay)
      : ProcessGroup(group->rank(), group->size(), group->options()),
        group_(std::move(group)),
        delay_(delay) {}
  ~DelayedGroup() override { stop(); }

 protected:
  void run(const dist::Collective& c) override {
    std::this_thread::sleep_for(std::chrono::duration<double>(delay_ * rounds(c)));
    carry_out(c).wait();
  }
  void on_abort(const std::string& reason) override { group_->abort(reason); }

 private:
  static double rounds(const dist::Collective& c) {
    constexpr int64_t kMostBytesAtOnce = 1 << 13;
    if (c.kind == dist::CollectiveKind::kBarrier) return 1;
    const bool in_parts = c.kind == dist::CollectiveKind::kAllReduce &&
                          c.tensor.numel() * size_of(c.tensor.dtype()) > kMostBytesAtOnce;
    return in_parts ? 3 : 2;  // one of them tells what is asked for
  }

  dist::Work carry_out(const dist::Collective& c) {
    switch (c.kind) {
      case dist::CollectiveKind::kAllReduce: return group_->all_reduce(c.tensor, c.op);
      case dist::CollectiveKind::kBroadcast: return group_->broadcast(c.tensor, c.peer);
      case dist::CollectiveKind::kAllGather: return group_->all_gather(c.tensor, c.result);
      case dist::CollectiveKind::kReduceScatter:
        return group_->reduce_scatter(c.tensor, c.result, c.op);
      case dist::CollectiveKind::kBarrier: return group_->barrier();
      case dist::CollectiveKind::kSend:
      case dist::CollectiveKind::kReceive:
      case dist::CollectiveKind::kBatch: return group_->batch(c.transfers);
    }
    throw Error("study: no such collective");
  }

  Group group_;
  double delay_;
};

class Rank {
 public:
  Rank(const RankTask& task, Group group) : task_(task), group_(std::move(group)) {
    result_.ranks = group_->size();
  }

  RankResult run() {
    measure_messages();
    measure_reductions();
    measure_parts();
    measure_steps();
    return result_;
  }

 private:
  // Half of a round trip; and what each of many messages takes that do not wait for each other. A
  // send is two messages: what is asked for, and the tensor.
  void measure_messages() {
    const Tensor big = ones({1 << 20}), other = ones({1 << 20});
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < 8; ++i) big.add_(other);
    result_.add_seconds_per_byte = seconds_since(begin) / (8 * 4 << 20);
    if (group_->size() < 2) return;
    constexpr int kTrips = 50, kBurst = 100;
    const Tensor x = zeros({2});
    const int rank = group_->rank();
    std::vector<double> trips, bursts;
    for (int i = 0; i < kTrips; ++i) {
      group_->barrier().wait();
      if (rank > 1) continue;
      const Clock::time_point start = Clock::now();
      if (rank == 0) group_->send(x, 1).wait();
      group_->recv(x, 1 - rank).wait();
      if (rank == 1) group_->send(x, 0).wait();
      trips.push_back(seconds_since(start) / 2);
    }
    for (int i = 0; i < 5; ++i) {
      group_->barrier().wait();
      if (rank > 1) continue;
      const Clock::time_point start = Clock::now();
      std::vector<dist::Work> works;
      for (int k = 0; k < kBurst; ++k) {
        works.push_back(rank == 0 ? group_->send(x, 1) : group_->recv(x, 0));
      }
      for (const dist::Work& work : works) work.wait();
      bursts.push_back(seconds_since(start) / (2 * kBurst));
    }
    if (rank > 1) return;
    result_.overhead = median(bursts);
    result_.latency = std::max(0.0, median(trips) - 2 * result_.overhead);
  }

  void measure_reductions() {
    for (const int64_t bytes : task_.bytes) {
      const Tensor x = ones({bytes / 4});
      std::vector<double> seconds;
      for (int64_t i = 0; i <= task_.repeats; ++i) {
        group_->barrier().wait();
        const Clock::time_point begin = Clock::now();
        group_->all_reduce(x, dist::ReduceOp::kAverage).wait();
        if (i > 0) seconds.push_back(seconds_since(begin));
      }
      result_.reduce_seconds.push_back(median(seconds));
    }
  }

  std::shared_ptr<nn::Module> new_model() const {
    Settings settings;
    settings.model = task_.model;
    manual_seed(0);
    auto model = make_model(settings, {3, task_.image, task_.image}, kClasses);
    model->train();
    return model;
  }
  Tensor images() const {
    return randn({task_.batch, 3, task_.image, task_.image})
        .contiguous(MemoryFormat::kChannelsLast);
  }
  Tensor labels() const { return randint(0, kClasses, {task_.batch}, kInt64); }

  void measure_parts() {
    const std::shared_ptr<nn::Module> model = new_model();
    optim::SGD optimizer(model->parameters(), {.lr = 0.01, .momentum = 0.9});
    const Tensor x = images(), y = labels();
    std::vector<std::pair<double, double>> sums;  // of ready times; bytes
    std::vector<size_t> order;
    Clock::time_point begin_backward;
    int step = 0;
    for (const Tensor& parameter : model->parameters()) {
      const size_t p = sums.size();
      const int64_t padded = (parameter.numel() * size_of(parameter.dtype()) + 63) / 64 * 64;
      sums.emplace_back(0, static_cast<double>(padded));
      parameter.register_post_accumulate_grad_hook([&, p](const Tensor&) {
        if (step == 0) order.push_back(p);
        if (step >= kWarmUpSteps) sums[p].first += seconds_since(begin_backward);
      });
    }
    std::vector<double> totals;
    const int64_t steps = kWarmUpSteps + task_.steps;
    for (; step < steps; ++step) {
      optimizer.zero_grad();
      group_->barrier().wait();
      const Clock::time_point begin = Clock::now();
      const Tensor loss = cross_entropy((*model)(x), y);
      begin_backward = Clock::now();
      loss.backward();
      const double backward = seconds_since(begin_backward);
      optimizer.step();
      const double total = seconds_since(begin);
      if (step < kWarmUpSteps) continue;
      const double forward = std::chrono::duration<double>(begin_backward - begin).count();
      totals.push_back(total);
      result_.forward += forward;
      result_.backward += backward;
      result_.update += total - forward - backward;
    }
    for (const size_t p : order) result_.gradients.push_back({sums[p].first, sums[p].second});
    average_parts(totals);
    // Small as batch norm's are, those of a type are broadcast together.
    std::map<Dtype, int64_t> buffers;
    for (const auto& [name, buffer] : model->named_buffers()) {
      buffers[buffer.dtype()] += buffer.numel() * size_of(buffer.dtype());
    }
    for (const auto& [dtype, bytes] : buffers) {
      result_.buffers.push_back(static_cast<double>(bytes));
    }
  }

  // Over the steps and the ranks.
  void average_parts(const std::vector<double>& totals) {
    double squares = 0;
    for (const double total : totals) squares += total * total;
    std::vector<double> values = {result_.forward, result_.backward, result_.update, squares};
    for (const dist::TimedGradient& gradient : result_.gradients) values.push_back(gradient.ready);
    const Tensor sum = tensor<double>(values);
    group_->all_reduce(sum).wait();
    values = sum.to_vector<double>();
    const double count = static_cast<double>(task_.steps) * group_->size();
    for (double& value : values) value /= count;
    result_.forward = values[0];
    result_.backward = values[1];
    result_.update = values[2];
    const double mean = values[0] + values[1] + values[2];
    result_.deviation = std::sqrt(std::max(0.0, values[3] - mean * mean));
    for (size_t i = 0; i < result_.gradients.size(); ++i) {
      result_.gradients[i].ready = values[4 + i];
    }
  }

  void measure_steps() {
    Group group = group_;
    if (task_.delay > 0) group = std::make_shared<DelayedGroup>(group_, task_.delay);
    dist::DistributedDataParallel model(
        new_model(), group,
        {.bucket_bytes = kBucketBytes, .first_bucket_bytes = kFirstBucketBytes});
    model.train();
    optim::SGD optimizer(model.parameters(), {.lr = 0.01, .momentum = 0.9});
    const Tensor x = images(), y = labels();
    std::vector<double> seconds;
    group->barrier().wait();
    for (int64_t step = 0; step < kWarmUpSteps + task_.steps; ++step) {
      const Clock::time_point begin = Clock::now();
      optimizer.zero_grad();
      cross_entropy(model(x), y).backward();
      optimizer.step();
      if (step >= kWarmUpSteps) seconds.push_back(seconds_since(begin));
    }
    group->barrier().wait();
    result_.step_seconds = median(seconds);
  }

  const RankTask& task_;
  Group group_;
  RankResult result_;
};

}  // namespace

RankResult read_result(const std::string& path) {
  return nlohmann::json::parse(read_file(path, kMostResultBytes)).get<RankResult>();
}

int serve_rank(const std::string& text) {
  try {
    const auto task = nlohmann::json::parse(text).get<RankTask>();
    const auto env = dist::launch_env();
    WICK_CHECK(env, "study: a rank that nobody launched");
    set_num_threads(1);
    // What goes between hosts is to be measured, not memory.
    const Group group = dist::init_process_group(
        *env, {.timeout = std::chrono::minutes(2), .shared_memory = false});
    const RankResult result = Rank(task, group).run();
    if (env->rank == 0) write_file(task.result, nlohmann::json(result).dump());
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "wick: {}\n", error.what());
    return tool::kFailedExit;
  }
}

}  // namespace wick::study
