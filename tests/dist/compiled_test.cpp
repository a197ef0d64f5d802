#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "wick/core/core.h"
#include "wick/core/graph/compile.h"
#include "wick/dist/all_reduce.h"
#include "wick/dist/data_parallel.h"
#include "wick/dist/join.h"
#include "wick/dist/zero.h"
#include "wick/nn/nn.h"
#include "wick/optim/optim.h"
#include "wick/tests/dist/ranks.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/host_array.h"

// Collectives within graphs, beside eager ones.
namespace wick::dist {
namespace {

using Tensors = std::vector<Tensor>;
using wick::testing::bit_equal;
using wick::testing::error_of;

Tensor random(const Shape& shape, int call, const Group& group, Device device = kCpu) {
  Generator generator(static_cast<uint64_t>(100 * call + group->rank()));
  return randn(shape, kFloat32, kCpu, &generator).to(device);
}

// Calls `exchange` as it is and as a graph, with other tensors each time.
void expect_live(int size, const std::function<Tensors(const Group&, const Tensor&)>& exchange,
                 Device device = kCpu) {
  on_ranks(size, [&](const Group& group) {
    graph::CompiledFunction compiled([&](const Tensors& in) { return exchange(group, in[0] * 2); });
    for (int call = 0; call < 4; ++call) {
      const Tensor x = random({4, 3}, call, group, device);
      const Tensors got = compiled({x}), expected = exchange(group, x * 2);
      ASSERT_EQ(got.size(), expected.size());
      for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(bit_equal(got[i], expected[i])) << call;
    }
    EXPECT_EQ(compiled.num_graphs(), 1);
  });
}

Tensors all_kinds(const Group& group, const Tensor& x) {
  const int64_t size = group->size();
  const Tensor sum = x + 1, largest = x * 3, first = x - 1;
  const Work summing = group->all_reduce(sum);
  group->all_reduce(largest, ReduceOp::kMax).wait();
  group->broadcast(first, 1).wait();
  const Tensor all = empty({size, 4, 3}, kFloat32, x.device());
  const Tensor part = empty({4, 3}, kFloat32, x.device());
  const Tensor received = empty({4, 3}, kFloat32, x.device());
  group->all_gather(first * x, all).wait();
  group->reduce_scatter(all + 1, part, ReduceOp::kAverage).wait();
  group->barrier().wait();
  pass_around_at_once(group, {part * 2}, {received});
  summing.wait();
  return {sum * x, largest + 0.5, first, all * 2, received + x};
}

TEST(CompiledCollectives, OfAllKindsExchangeWhatEachRunHas) {
  for (const int size : {2, 3}) expect_live(size, all_kinds);
}

TEST(CompiledCollectives, SendAndReceiveWhatEachRunHas) {
  expect_live(2, [](const Group& group, const Tensor& x) -> Tensors {
    const Tensor mine = x + 1, received = empty({4, 3});
    pass_around(group, mine, received);
    return {received * x};
  });
}

// A rank takes part in sums of which it uses nothing itself.
TEST(CompiledCollectives, StayWhereOneRankDropsTheirResult) {
  expect_live(2, [](const Group& group, const Tensor& x) -> Tensors {
    const Tensor sum = all_reduce_sum(x, group);
    all_reduce_sum(x, group);
    return {group->rank() == 0 ? sum : x};
  });
}

TEST(CompiledCollectives, ExchangeOnGpus) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  expect_live(2, all_kinds, cuda_device(0));
}

TEST(CompiledCollectives, RefuseWhatAGraphCannotRepeat) {
  on_ranks(2, [](const Group& group) {
    const Tensor early = ones({2});
    const Work before = group->all_reduce(early);
    graph::CompiledFunction waits([&](const Tensors& in) -> Tensors {
      before.wait();
      return {in[0] * early};
    });
    EXPECT_EQ(error_of([&] { waits({ones({2})}); }),
              "wait: the collective began before the trace: a graph cannot wait for it in each "
              "run, expected one that began within");
    before.wait();
    graph::CompiledFunction asks([&](const Tensors& in) -> Tensors {
      const Tensor x = in[0] * 2;
      const Work work = group->all_reduce(x);
      while (!work.is_done()) continue;
      return {x};
    });
    EXPECT_EQ(error_of([&] { asks({ones({2})}); }),
              "is_done: the host asks within a trace: a graph would keep the answer, expected "
              "wait()");
  });
}

// --- Steps of DistributedDataParallel
// -------------------------------------------------------------

struct Run {
  int ranks = 2, steps = 7;
  int64_t accumulate = 1;
  bool synchronized = false, zero = false, scaled = false, on_gpu = false;
  bool uneven = false;       // batches of two sizes, which ranks see in steps of their own
  bool has_unused = false;   // a parameter that no loss depends on
  bool steps_apart = false;  // zero_grad() and the optimizer's step are outside of the graph
  graph::CompileMode mode = graph::CompileMode::kFull;
  DataParallelOptions options = {.bucket_bytes = 1 << 9, .first_bucket_bytes = 1 << 8};
};

struct Net : nn::Module {
  nn::Handle<nn::Conv2d> conv = add("conv", nn::Conv2d(2, 8, 3));
  nn::Handle<nn::BatchNorm2d> norm = add("norm", nn::BatchNorm2d(8));
  nn::Handle<nn::Linear> unused = add("unused", nn::Linear(3, 3));
  nn::Handle<nn::Linear> head = add("head", nn::Linear(32, 16, {.bias = false}));

  Tensor forward(const Tensor& x) override {
    const Tensor y = relu(norm(conv(x))).flatten(1);
    return head(wick::dropout(y, 0.2, is_training()));
  }
};

// What a rank is left with.
struct RankResults {
  Tensors losses, parameters, buffers;
  std::vector<double> scales;
};

// A step of `model` and what it needs.
struct Trainee {
  Trainee(const Group& group, const Run& given) : run(given) {
    manual_seed(7);
    if (!run.has_unused) net->unused->requires_grad_(false);
    net->to(device);
    if (run.synchronized) synchronize_batch_norms(*net, group);
    model.emplace(net, group, run.options);
    Tensors trained;
    for (const Tensor& p : net->parameters()) {
      if (p.requires_grad()) trained.push_back(p);
    }
    optimizer.emplace(trained, optim::AdamWOptions{.lr = 0.01});
    if (run.zero) shard_optimizer(*optimizer, *model);
  }

  Tensors step(const Tensors& batch) {
    if (!run.steps_apart) optimizer->zero_grad();
    Tensor last;
    const int64_t size = batch[0].size(0);
    optim::accumulate(size, run.accumulate, [&](int64_t begin, int64_t end, double) {
      std::optional<DistributedDataParallel::NoSync> gathering;
      if (end < size) gathering.emplace(*model);
      const Tensor y = (*model)(batch[0].slice(0, begin, end));
      const Tensor loss = cross_entropy(y, batch[1].slice(0, begin, end));
      scaler.scale(loss).backward();
      last = loss.detach();
    });
    if (!run.steps_apart) update();
    return {last};
  }
  void update() {
    scaler.step(*optimizer, 1.0);
    scaler.update();
  }

  Run run;
  Device device = run.on_gpu ? cuda_device(0) : kCpu;
  std::shared_ptr<Net> net = std::make_shared<Net>();
  std::optional<DistributedDataParallel> model;
  std::optional<optim::AdamW> optimizer;
  amp::GradScaler scaler{{.init_scale = 1024, .growth_interval = 2, .enabled = run.scaled}};
};

RankResults train(const Group& group, const Run& run, bool compiled) {
  const RandomScope scope(static_cast<uint64_t>(group->rank()) + 1);
  Trainee trainee(group, run);
  graph::CompiledFunction step = graph::compile_step(
      [&](const Tensors& batch) { return trainee.step(batch); }, {.mode = run.mode});
  RankResults result;
  for (int i = 0; i < run.steps; ++i) {
    Generator generator(static_cast<uint64_t>(100 * i + group->rank()));
    const int64_t size = run.uneven && (i + group->rank()) % 3 == 0 ? 6 : 8;
    const Tensors batch{randn({size, 2, 4, 4}, kFloat32, kCpu, &generator).to(trainee.device),
                        randint(0, 16, {size}, kInt64, kCpu, &generator).to(trainee.device)};
    // One rank's infinity skips the step of all.
    if (run.scaled && i % 4 == 3 && group->rank() == 1) batch[0].fill_(HUGE_VAL);
    trainee.optimizer->set_lr(0.01 / (i + 1));
    if (run.steps_apart) trainee.optimizer->zero_grad();
    const Tensors losses = compiled ? step(batch) : trainee.step(batch);
    if (run.steps_apart) trainee.update();
    result.losses.push_back(losses[0].cpu());
    if (run.scaled) result.scales.push_back(trainee.scaler.get_scale());
  }
  const int kinds = run.uneven ? 2 : 1;
  EXPECT_EQ(step.num_graphs(), compiled ? kinds : 0) << step.why_eager();
  for (const Tensor& x : trainee.net->parameters()) result.parameters.push_back(x.detach().cpu());
  for (const auto& [name, x] : trainee.net->named_buffers()) result.buffers.push_back(x.cpu());
  return result;
}

void expect_same(const Tensors& got, const Tensors& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(bit_equal(got[i], expected[i])) << i;
}

// By rank, once all were seen to have the same parameters.
std::vector<RankResults> train_all(const Run& run, bool compiled) {
  std::vector<RankResults> all(static_cast<size_t>(run.ranks));
  on_ranks(run.ranks, [&](const Group& group) {
    all[static_cast<size_t>(group->rank())] = train(group, run, compiled);
  });
  for (const RankResults& other : all) expect_same(other.parameters, all[0].parameters);
  return all;
}

std::vector<RankResults> expect_steps_of_eager(const Run& run) {
  std::vector<RankResults> eager = train_all(run, false), compiled = train_all(run, true);
  for (size_t r = 0; r < eager.size(); ++r) {
    expect_same(compiled[r].losses, eager[r].losses);
    EXPECT_EQ(compiled[r].scales, eager[r].scales);
    expect_same(compiled[r].parameters, eager[r].parameters);
    expect_same(compiled[r].buffers, eager[r].buffers);
  }
  return eager;
}

TEST(CompiledDataParallel, HasTheStepsOfEagerRanks) {
  for (const int ranks : {2, 3}) expect_steps_of_eager({.ranks = ranks});
  expect_steps_of_eager({.mode = graph::CompileMode::kFuse});
  expect_steps_of_eager({.options = {}});  // one bucket
}

// One rank traces while the other runs a graph.
TEST(CompiledDataParallel, HasThemWhereRanksTraceInOtherSteps) {
  expect_steps_of_eager({.uneven = true});
}

TEST(CompiledDataParallel, HasThemOnGpus) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  expect_steps_of_eager({.on_gpu = true});
}

TEST(CompiledDataParallel, HasThemWithEachOption) {
  expect_steps_of_eager({.accumulate = 2});
  expect_steps_of_eager({.synchronized = true});
  expect_steps_of_eager({.options = {.communication_dtype = kBFloat16}});
  expect_steps_of_eager({.has_unused = true, .options = {.find_unused_parameters = true}});
  expect_steps_of_eager({.has_unused = true, .options = {.static_graph = true}});
}

TEST(CompiledDataParallel, HasThemWithSharedState) {
  for (const int ranks : {2, 3}) expect_steps_of_eager({.ranks = ranks, .zero = true});
}

TEST(CompiledDataParallel, HasThemWithSkippedSteps) {
  for (const bool zero : {false, true}) {
    const std::vector<double> scales =
        expect_steps_of_eager({.steps = 12, .zero = zero, .scaled = true})[0].scales;
    EXPECT_TRUE(std::adjacent_find(scales.begin(), scales.end(), std::less<>()) != scales.end());
    EXPECT_TRUE(std::adjacent_find(scales.begin(), scales.end(), std::greater<>()) != scales.end());
  }
}

TEST(CompiledDataParallel, LeavesGradientsForStepsOutsideOfTheGraph) {
  expect_steps_of_eager({.steps_apart = true});
  // Each parameter is a whole bucket.
  expect_steps_of_eager(
      {.steps_apart = true, .options = {.bucket_bytes = 1, .first_bucket_bytes = 1}});
}

// A bucket's reduction begins while nodes of backward are still to run.
TEST(CompiledDataParallel, ReducesBucketsWhileBackwardGoesOn) {
  on_ranks(2, [](const Group& group) {
    Trainee trainee(group, {});
    graph::CompiledFunction step =
        graph::compile_step([&](const Tensors& batch) { return trainee.step(batch); });
    for (int i = 0; i < 2; ++i) step({ones({8, 2, 4, 4}), zeros({8}, kInt64)});
    const std::string text = to_string(step.graph());
    EXPECT_LT(text.find("name=all_reduce"), text.rfind("batch_norm_backward")) << text;
    EXPECT_GT(text.find("name=wait"), text.rfind("conv2d_backward_weight")) << text;
  });
}

TEST(CompiledDataParallel, RefusesWhatAGraphCannotRepeat) {
  on_ranks(2, [](const Group& group) {
    Trainee trainee(group, {});
    graph::CompiledFunction step =
        graph::compile_step([&](const Tensors& batch) { return trainee.step(batch); });
    const Tensors batch{ones({8, 2, 4, 4}), zeros({8}, kInt64)};
    for (int i = 0; i < 3; ++i) step(batch);
    {
      const DistributedDataParallel::NoSync gathering(*trainee.model);
      EXPECT_EQ(error_of([&] { step(batch); }),
                "NoSync: around a step that was traced without it: expected NoSync within the "
                "step");
    }
    EXPECT_EQ(error_of([&] {
                join(
                    *trainee.model, [&] { step(batch); }, [] {});
              }),
              "join: a step within a graph: got a compiled one, expected an eager one, as ranks "
              "agree in each pass on who has inputs");
    step(batch);
  });
}

}  // namespace
}  // namespace wick::dist
