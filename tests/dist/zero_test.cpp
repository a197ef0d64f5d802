#include "wick/dist/zero.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "wick/core/core.h"
#include "wick/nn/nn.h"
#include "wick/optim/optim.h"
#include "wick/tests/dist/gradients.h"
#include "wick/tests/dist/ranks.h"
#include "wick/tests/harness/deterministic.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/host_array.h"

namespace wick::dist {
namespace {

using wick::testing::bit_equal;
using wick::testing::error_of;
using MakeOptimizer =
    std::function<std::unique_ptr<optim::Optimizer>(const std::vector<Tensor>& parameters)>;

template <class O>
MakeOptimizer maker(const typename O::Options& options) {
  return [options](const std::vector<Tensor>& p) { return std::make_unique<O>(p, options); };
}

// 3,471 parameters: a kernel that is stored channels-last, and a matrix that parts cut amid rows.
std::shared_ptr<nn::Sequential> make_shared_net(Dtype dtype) {
  manual_seed(7);
  auto net = std::make_shared<nn::Sequential>(nn::Conv2d(3, 7, 3), nn::ReLU(), nn::Flatten(),
                                              nn::Linear(7 * 36, 11), nn::Linear(11, 41));
  net->to(dtype);
  return net;
}

struct SharedRun {
  MakeOptimizer make = maker<optim::AdamW>({.lr = 1e-2});
  Dtype dtype = kFloat32;
  int steps = 3;
  std::optional<double> max_norm = {};
  bool accumulates = false, on_gpu = false;
  DataParallelOptions options = {.bucket_bytes = 1 << 11, .first_bucket_bytes = 1 << 10};
};

struct Trained {
  std::vector<Tensor> weights, averages;  // of rank 0; the others have been compared
  optim::StateDict state;
  Tensor norm;
  std::vector<int64_t> state_bytes;  // of each rank
};

std::vector<Tensor> on_host(std::vector<Tensor> tensors) {
  for (Tensor& x : tensors) x = x.detach().cpu();
  return tensors;
}

Trained train_shared(int size, const SharedRun& run, bool sharded,
                     const optim::StateDict& begin = {}) {
  std::vector<std::shared_ptr<nn::Sequential>> nets;
  for (int r = 0; r < size; ++r) nets.push_back(make_shared_net(run.dtype));
  Trained result;
  result.state_bytes.resize(nets.size());
  std::vector<std::vector<Tensor>> averages(nets.size());
  Generator generator(3);
  const Tensor x = randn({6, 3, 8, 8}, kFloat64, kCpu, &generator).to(run.dtype);
  const Tensor y = randint(0, 41, {6}, kInt64, kCpu, &generator);
  on_ranks(size, [&](const Group& group) {
    const int rank = group->rank();
    const Device device = run.on_gpu ? cuda_device(rank % cuda_device_count()) : kCpu;
    const auto& net = nets[static_cast<size_t>(rank)];
    net->to(device);
    DistributedDataParallel model(net, group, run.options);
    const auto optimizer = run.make(model.parameters());
    if (!begin.empty()) optimizer->load_state_dict(begin);
    if (sharded) shard_optimizer(*optimizer, model);
    optim::Ema ema(model.parameters(), 0.9);
    const int64_t n = 6 / size;
    const Tensor own_x = x.narrow(0, rank * n, n).to(device), own_y = y.narrow(0, rank * n, n);
    Tensor norm;
    for (int i = 0; i < run.steps; ++i) {
      optimizer->zero_grad();
      const auto backward = [&] { cross_entropy(model(own_x), own_y.to(device)).backward(); };
      if (run.accumulates) {
        const DistributedDataParallel::NoSync no_sync(model);
        backward();
      }
      backward();
      norm = optimizer->step({.max_norm = run.max_norm});
      ema.update();
    }
    averages[static_cast<size_t>(rank)] = on_host(ema.averages());
    optim::StateDict state = optimizer->state_dict();
    result.state_bytes[static_cast<size_t>(rank)] = optimizer->state_bytes();
    if (rank != 0) {
      EXPECT_EQ(state.empty(), sharded);
      return;
    }
    for (auto& [name, tensor] : state) tensor = tensor.cpu().clone();
    result.state = state;
    if (norm.defined()) result.norm = norm.cpu();
  });
  result.weights = on_host(nets[0]->parameters());
  result.averages = averages[0];
  for (size_t r = 1; r < nets.size(); ++r) {
    expect_same_bits(on_host(nets[r]->parameters()), result.weights);
    expect_same_bits(averages[r], result.averages);
  }
  return result;
}

void expect_same_state(const optim::StateDict& got, const optim::StateDict& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (const auto& [name, tensor] : wanted) {
    const auto found = got.find(name);
    ASSERT_NE(found, got.end()) << name;
    EXPECT_TRUE(bit_equal(found->second, tensor)) << name;
  }
}

void expect_same_run(int size, const SharedRun& run) {
  const Trained wanted = train_shared(size, run, false), got = train_shared(size, run, true);
  expect_same_bits(got.weights, wanted.weights);
  expect_same_bits(got.averages, wanted.averages);
  EXPECT_FALSE(bit_equal(got.averages[0], got.weights[0].to(got.averages[0].dtype())));
  expect_same_state(got.state, wanted.state);
}

TEST(Zero, TrainsToTheBitsOfTheUnshardedOptimizer) {
  // With the states that options ask for.
  const MakeOptimizer with_options[] = {
      maker<optim::SGD>({.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-2, .nesterov = true}),
      maker<optim::Adam>({.lr = 1e-2, .amsgrad = true}),
      maker<optim::RMSprop>({.lr = 1e-3, .momentum = 0.5, .centered = true}),
  };
  for (const MakeOptimizer& make : with_options) expect_same_run(3, {.make = make});
  for (const std::string& name : optim::optimizer_names()) {
    SCOPED_TRACE(name);
    const auto make = optim::find_optimizer(name).make_default;
    if (make({ones({2, 2})})->is_elementwise()) expect_same_run(3, {.make = make});
  }
}

TEST(Zero, RefusesOptimizersOfWholeParameters) {
  on_ranks(2, [&](const Group& group) {
    DistributedDataParallel model(nn::Linear(3, 2), group);
    for (const std::string& name : optim::optimizer_names()) {
      const auto optimizer = optim::find_optimizer(name).make_default(model.parameters());
      if (optimizer->is_elementwise()) continue;
      EXPECT_EQ(error_of([&] { shard_optimizer(*optimizer, model); }),
                concat("shard_optimizer: the optimizer needs whole parameters, of which each rank "
                       "would have a part: got ",
                       name, ", expected one that updates each element by itself, such as adamw"));
    }
  });
}

TEST(Zero, TrainsToTheSameBitsInOtherSettings) {
  expect_same_run(2, {.dtype = kFloat64});
  expect_same_run(2, {.dtype = kBFloat16});  // with a float32 master
  expect_same_run(3, {.accumulates = true});
  SharedRun narrow;
  narrow.options.communication_dtype = kBFloat16;
  expect_same_run(3, narrow);
  expect_same_run(2, {.options = {}});  // a single bucket
}

TEST(Zero, TrainsToTheSameBitsOnGpus) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  const testing::Deterministic same_bits;  // of convolutions, too
  expect_same_run(2, {.steps = 2, .on_gpu = true});
}

TEST(Zero, ClipsByTheNormOfAllParts) {
  const SharedRun run{.max_norm = 1e-2};
  const Trained wanted = train_shared(3, run, false), got = train_shared(3, run, true);
  EXPECT_NEAR(got.norm.item(), wanted.norm.item(), 1e-9 * wanted.norm.item());
  EXPECT_GT(wanted.norm.item(), 1e-2);
  for (size_t i = 0; i < wanted.weights.size(); ++i) {
    EXPECT_TRUE(got.weights[i].allclose(wanted.weights[i], 1e-5, 1e-7)) << "parameter " << i;
  }
}

TEST(Zero, KeepsAPartOfTheStateOnEachRank) {
  const Trained whole = train_shared(3, {.steps = 1}, false);
  const Trained parts = train_shared(3, {.steps = 1}, true);
  const int64_t numbers = 16 * static_cast<int64_t>(whole.weights.size());  // kept by every rank
  const int64_t all = whole.state_bytes[0] - numbers;
  int64_t sum = 0;
  for (const int64_t bytes : parts.state_bytes) {
    EXPECT_LT(bytes - numbers, all / 3 * 11 / 10);
    sum += bytes - numbers;
  }
  EXPECT_EQ(sum, all);
}

TEST(Zero, GoesOnFromTheStateOfAnyNumberOfRanks) {
  const Trained three = train_shared(3, {}, true);
  // Shared out anew, and gathered again.
  for (const int size : {1, 2, 3}) {
    expect_same_state(train_shared(size, {.steps = 0}, true, three.state).state, three.state);
  }
  const Trained wanted = train_shared(2, {.steps = 2}, false, three.state);
  const Trained got = train_shared(2, {.steps = 2}, true, three.state);
  expect_same_state(got.state, wanted.state);
  EXPECT_TRUE(bit_equal(got.weights[0], wanted.weights[0]));
}

// One element of the gradient of one rank is infinite in the second of three steps: on no rank do
// weights, state, running statistics or the schedule move on.
void expect_skipped_on_all_ranks(bool sharded) {
  std::vector<std::shared_ptr<nn::Sequential>> nets;
  for (int r = 0; r < 3; ++r) {
    manual_seed(7);
    nets.push_back(std::make_shared<nn::Sequential>(nn::Conv2d(3, 7, 3), nn::BatchNorm2d(7),
                                                    nn::ReLU(), nn::Flatten(),
                                                    nn::Linear(7 * 36, 11)));
  }
  on_ranks(3, [&](const Group& group) {
    const auto& net = nets[static_cast<size_t>(group->rank())];
    DistributedDataParallel model(net, group, {.bucket_bytes = 1 << 11});
    optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
    if (sharded) shard_optimizer(optimizer, model);
    optim::StepLR schedule(optimizer, 1, 0.5);
    optim::DeviceSchedule counted(schedule, 3);
    std::vector<Tensor> buffers;
    for (const auto& [name, buffer] : net->named_buffers()) buffers.push_back(buffer);
    optim::Rollback rollback(buffers);
    amp::GradScaler scaler({.init_scale = 1024});
    Generator generator(static_cast<uint64_t>(group->rank()));
    bool spoils = false;
    net->parameters()[1].register_hook([&](const Tensor& g) {
      if (!spoils) return Tensor();
      const Tensor spoilt = g.clone();
      spoilt[3].fill_(std::numeric_limits<double>::infinity());
      return spoilt;
    });
    const auto weights = [&] {
      std::vector<Tensor> all;
      for (const Tensor& p : net->parameters()) all.push_back(p.detach().clone());
      for (const Tensor& buffer : buffers) all.push_back(buffer.clone());
      return all;
    };
    const auto state_of = [&] {
      optim::StateDict state = optimizer.state_dict();
      for (auto& [name, tensor] : state) tensor = tensor.clone();
      return state;
    };
    const auto step = [&] {
      optimizer.zero_grad();
      rollback.remember();
      const Tensor x = randn({2, 3, 8, 8}, kFloat32, kCpu, &generator);
      scaler.scale(model(x).square().mean()).backward();
      scaler.step(optimizer);
      const Tensor found = scaler.found_inf(optimizer);
      rollback.restore(found);
      counted.step(found);
      counted.settle();
      scaler.update();
    };
    step();
    EXPECT_EQ(optimizer.lr(), 0.05);
    const std::vector<Tensor> before = weights();
    const optim::StateDict state = state_of();
    spoils = group->rank() == 1;
    step();
    const std::vector<Tensor> after = weights();
    for (size_t i = 0; i < after.size(); ++i) EXPECT_TRUE(bit_equal(after[i], before[i]));
    expect_same_state(state_of(), state);
    EXPECT_EQ(optimizer.lr(), 0.05);
    EXPECT_EQ(scaler.get_scale(), 512);
    spoils = false;
    step();
    EXPECT_FALSE(bit_equal(net->parameters()[0], before[0]));
    EXPECT_FALSE(bit_equal(buffers[0], before[net->parameters().size()]));
    EXPECT_EQ(optimizer.lr(), 0.025);
    EXPECT_EQ(scaler.get_scale(), 512);
  });
  for (size_t i = 0; i < nets[0]->parameters().size(); ++i) {
    EXPECT_TRUE(bit_equal(nets[0]->parameters()[i], nets[2]->parameters()[i]));
  }
}

TEST(DataParallel, SkipsAStepOnAllRanksForAnInfinityOnOne) { expect_skipped_on_all_ranks(false); }

TEST(Zero, SkipsAStepOnAllRanksForAnInfinityOnOne) { expect_skipped_on_all_ranks(true); }

TEST(Zero, LeavesParametersAloneThatNoRankUses) {
  struct Halves : nn::Module {
    nn::Handle<nn::Linear> a = add("a", nn::Linear(3, 5)), b = add("b", nn::Linear(3, 5));
    Tensor forward(const Tensor& x) override { return a(x); }
  };
  on_ranks(2, [&](const Group& group) {
    DistributedDataParallel model(Halves(), group, {.find_unused_parameters = true});
    auto& net = dynamic_cast<Halves&>(model.module());
    optim::AdamW optimizer(model.parameters());
    shard_optimizer(optimizer, model);
    const Tensor a = net.a->weight.detach().clone(), b = net.b->weight.detach().clone();
    model(ones({1, 3})).sum().backward();
    optimizer.step();
    EXPECT_FALSE(bit_equal(net.a->weight, a));
    EXPECT_TRUE(bit_equal(net.b->weight, b));
    const optim::StateDict state = optimizer.state_dict();
    EXPECT_EQ(state.count("state.0.0.step"), group->rank() == 0 ? 1U : 0U);
    EXPECT_EQ(state.count("state.0.2.step"), 0U);
  });
}

TEST(Zero, SharesAParameterSmallerThanTheNumberOfRanks) {
  on_ranks(4, [&](const Group& group) {
    DistributedDataParallel model(nn::Linear(1, 1), group);
    optim::AdamW optimizer(model.parameters(), {.lr = 0.5, .weight_decay = 0});
    shard_optimizer(optimizer, model);
    amp::GradScaler scaler;
    scaler.scale(model(ones({1, 1})).sum()).backward();
    const Tensor before = model.parameters()[0].detach().clone();
    EXPECT_NEAR(scaler.step(optimizer, 10.0).item(), std::sqrt(2.0), 1e-6);
    EXPECT_NEAR((before - model.parameters()[0]).item(), 0.5, 1e-4);
  });
}

TEST(Zero, RefusesWhatItCannotShare) {
  on_ranks(2, [&](const Group& group) {
    DistributedDataParallel model(nn::Linear(3, 2), group);
    const Tensor other = ones({4}).set_requires_grad();
    optim::AdamW stranger({other});
    EXPECT_EQ(error_of([&] { shard_optimizer(stranger, model); }),
              "shard_optimizer: a parameter of shape [4] is none of the model's");
    optim::AdamW frozen({ones({4})});
    EXPECT_EQ(error_of([&] { shard_optimizer(frozen, model); }),
              "shard_optimizer: a parameter is frozen: got one of shape [4], expected an optimizer "
              "without what ranks do not exchange");
    optim::AdamW optimizer(model.parameters());
    shard_optimizer(optimizer, model);
    EXPECT_NE(error_of([&] { shard_optimizer(optimizer, model); }), "no error");
    EXPECT_EQ(error_of([&] { optimizer.add_param_group({ones({4})}); }),
              "adamw: add_param_group: the state is sharded: add the group before");
  });
}

}  // namespace
}  // namespace wick::dist
