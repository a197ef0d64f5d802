#include "wick/dist/data_parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "wick/core/core.h"
#include "wick/nn/nn.h"
#include "wick/optim/accumulate.h"
#include "wick/optim/sgd.h"
#include "wick/tests/dist/gradients.h"
#include "wick/tests/dist/ranks.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/host_array.h"
#include "wick/tests/harness/sanitized.h"

namespace wick::dist {
namespace {

using wick::testing::bit_equal;
using wick::testing::error_of;

Device place_of(bool on_gpu, int rank) {
  return on_gpu ? cuda_device(rank % cuda_device_count()) : kCpu;
}

struct Setting {
  std::string model = "resnet20";
  Dtype dtype = kFloat32;
  bool synchronized = false, on_gpu = false;
  int steps = 1;  // the gradients of the last one are returned
  int64_t images = 8;
  DataParallelOptions options = {};
};

// Gradients of a batch that `size` ranks share, of rank 0 once all were seen to be the same.
std::vector<Tensor> shared_gradients(int size, const Setting& setting) {
  std::vector<ModulePtr> models;
  for (int r = 0; r < size; ++r) models.push_back(make_model(setting.model, setting.dtype));
  std::vector<std::vector<Tensor>> gradients(models.size());
  const Batch batch = make_batch(setting.images, setting.dtype);
  on_ranks(size, [&](const Group& group) {
    const int rank = group->rank();
    const Device device = place_of(setting.on_gpu, rank);
    const ModulePtr& net = models[static_cast<size_t>(rank)];
    net->to(device);
    if (setting.synchronized) synchronize_batch_norms(*net, group);
    DistributedDataParallel model(net, group, setting.options);
    for (int i = 0; i < setting.steps; ++i) {
      model.zero_grad();
      loss_of(model, part_of(batch, rank, size), device).backward();
    }
    gradients[static_cast<size_t>(rank)] = gradients_of(model);
  });
  for (const auto& other : gradients) {
    for (size_t i = 0; i < other.size(); ++i) EXPECT_TRUE(bit_equal(other[i], gradients[0][i]));
  }
  return gradients[0];
}

void expect_gradients_of_the_whole_batch(Dtype dtype, bool on_gpu, const std::vector<int>& sizes) {
  Setting setting{.dtype = dtype, .synchronized = true, .on_gpu = on_gpu};
  if (!on_gpu && !wick::testing::kSanitized) setting.images = 32;
  const std::vector<Tensor> alone = shared_gradients(1, setting);
  const double most = dtype == kFloat64 ? 1e-10 : 2e-5;
  for (const int size : sizes) expect_close(shared_gradients(size, setting), alone, most);
}

TEST(DataParallel, HasTheGradientsOfTheWholeBatchForAnyNumberOfRanks) {
  expect_gradients_of_the_whole_batch(kFloat64, false, {2, 4});
  expect_gradients_of_the_whole_batch(kFloat32, false, {2, 4});
}

TEST(DataParallel, HasTheGradientsOfTheWholeBatchOnGpus) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  expect_gradients_of_the_whole_batch(kFloat32, true, {2});
}

TEST(DataParallel, AveragesTheGradientsOfPartsThatNormaliseAlone) {
  const Batch batch = make_batch(8);
  std::vector<Tensor> expected;
  for (int r = 0; r < 2; ++r) {
    const ModulePtr model = make_model("resnet20");
    loss_of(*model, part_of(batch, r, 2)).backward();
    const std::vector<Tensor> gradients = gradients_of(*model);
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (r == 0) {
        expected.push_back(gradients[i]);
      } else {
        expected[i] = (expected[i] + gradients[i]) / 2;
      }
    }
  }
  expect_same_bits(shared_gradients(2, {}), expected);
}

TEST(DataParallel, HasTheSameBitsForAnyBucketsAndInEveryRun) {
  const std::vector<Tensor> expected = shared_gradients(2, {.model = "lenet"});
  for (const int64_t bytes : {int64_t{1} << 10, int64_t{1} << 20, int64_t{1} << 40}) {
    for (const int steps : {1, 2}) {  // in the second step buckets follow the order of the first
      const Setting setting{.model = "lenet",
                            .steps = steps,
                            .options = {.bucket_bytes = bytes, .first_bucket_bytes = bytes}};
      expect_same_bits(shared_gradients(2, setting), expected);
    }
  }
}

TEST(DataParallel, AgreesOnGpus) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  const std::vector<Tensor> expected = shared_gradients(1, {.model = "lenet"});
  for (const int size : {2, 4, 8}) {
    const Setting setting{.model = "lenet", .on_gpu = true, .steps = 2};
    expect_close(shared_gradients(size, setting), expected, 2e-5);
  }
}

TEST(DataParallel, TravelsInSixteenBits) {
  const std::vector<Tensor> wide = shared_gradients(2, {.model = "lenet"});
  Setting setting{.model = "lenet"};
  setting.options.communication_dtype = kBFloat16;
  const std::vector<Tensor> narrow = shared_gradients(2, setting);
  expect_close(narrow, wide, 1e-2);
  EXPECT_EQ(narrow[0].dtype(), kFloat32);
  EXPECT_GT(relative_difference(narrow[0], wide[0]), 1e-5);
}

TEST(DataParallel, TrainsAllRanksToTheSameWeights) {
  std::vector<ModulePtr> models = {make_model("resnet20"), make_model("resnet20")};
  // Rank 1 starts elsewhere, and ends where rank 0 does.
  for (const Tensor& p : models[1]->parameters()) p.detach().mul_(3);
  const Batch batch = make_batch(8);
  on_ranks(2, [&](const Group& group) {
    DistributedDataParallel model(models[static_cast<size_t>(group->rank())], group);
    optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
    for (int i = 0; i < 3; ++i) {
      optimizer.zero_grad();
      loss_of(model, part_of(batch, group->rank(), 2)).backward();
      optimizer.step();
    }
    model.eval();
    model.train();
    model(part_of(batch, group->rank(), 2).images);  // its buffers are rank 0's of before
    group->barrier().wait();
  });
  const auto a = models[0]->named_parameters(), b = models[1]->named_parameters();
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(bit_equal(a[i].second, b[i].second)) << a[i].first;
}

TEST(DataParallel, BeginsEachPassWithTheBuffersOfRankZero) {
  on_ranks(2, [&](const Group& group) {
    DistributedDataParallel model(nn::BatchNorm1d(2), group);
    auto& norm = dynamic_cast<nn::BatchNorm1d&>(model.module());
    for (int i = 0; i < 2; ++i) {
      model(full({4, 2}, group->rank() == 0 ? 1 : 7)).sum().backward();
    }
    // Rank 1's own second batch on top of rank 0's first: 0.9 * 0.1 + 0.1 * x.
    const double own = group->rank() == 0 ? 1 : 7;
    EXPECT_NEAR(norm.running_mean[0].item(), 0.9 * 0.1 + 0.1 * own, 1e-6);
  });
}

// Buffers of two dtypes and parameters, small and large; what is small is together in one broadcast
// of each dtype.
TEST(DataParallel, BroadcastsSmallTensorsTogether) {
  struct Mixed : nn::Module {
    nn::Handle<nn::BatchNorm1d> a = add("a", nn::BatchNorm1d(3)), b = add("b", nn::BatchNorm1d(5));
    nn::Buffer image =
        add_buffer("image", zeros({2, 3, 4, 5}).contiguous(MemoryFormat::kChannelsLast));
    nn::Buffer columns = add_buffer("columns", zeros({7, 4}).transpose(0, 1));
    nn::Buffer large = add_buffer("large", zeros({1 << 18}));
    Tensor forward(const Tensor& x) override { return a(x) + b(ones({4, 5})).sum(); }
  };
  on_ranks(2, [&](const Group& group) {
    Mixed start;
    Generator generator(static_cast<uint64_t>(group->rank() + 1));
    for (const auto& [name, x] : start.named_buffers()) {
      x.copy_(randn(x.shape(), kFloat32, kCpu, &generator).mul(9).to(x.dtype()));
    }
    const auto broadcasts_of = [&](const auto& action) {
      const auto count = [&] {
        const std::vector<FlightRecord> all = group->flight_records();
        return std::count_if(all.begin(), all.end(), [](const FlightRecord& r) {
          return r.kind == CollectiveKind::kBroadcast;
        });
      };
      const auto before = count();
      action();
      return count() - before;
    };
    std::optional<DistributedDataParallel> model;
    // The large one, and those of float32 and of int64.
    EXPECT_EQ(broadcasts_of([&] { model.emplace(std::move(start), group); }), 3);
    const auto run = [&] { (*model)(full({4, 3}, group->rank())).sum().backward(); };
    run();
    run();  // and the order of the gradients, this once
    EXPECT_EQ(broadcasts_of(run), 3);
    model->eval();
    EXPECT_EQ(broadcasts_of([&] { (*model)(ones({4, 3})); }), 0);
    model->train();
    (*model)(ones({4, 3}));  // its inputs are the same on both ranks, and so are its buffers
    Generator first(1);
    for (const auto& [name, x] : model->named_buffers()) {
      const Tensor given = randn(x.shape(), kFloat32, kCpu, &first).mul(9).to(x.dtype());
      const Tensor all = empty({2, x.numel()}, x.dtype());
      group->all_gather(x.contiguous().view({-1}), all).wait();
      EXPECT_TRUE(bit_equal(all[0], all[1])) << name;
      const bool is_of_norm = name.find(".a.") != name.npos || name.find(".b.") != name.npos;
      EXPECT_TRUE(is_of_norm || bit_equal(x, given)) << name;
    }
  });
}

TEST(DataParallel, GathersAloneUntilItShallNot) {
  const Batch batch = make_batch(8);
  const ModulePtr whole = make_model("lenet");
  for (int r = 0; r < 2; ++r) (loss_of(*whole, part_of(batch, r, 2)) / 2).backward();
  std::vector<ModulePtr> models = {make_model("lenet"), make_model("lenet")};
  on_ranks(2, [&](const Group& group) {
    const auto rank = static_cast<size_t>(group->rank());
    DistributedDataParallel model(models[rank], group);
    const Batch mine = part_of(batch, group->rank(), 2);
    size_t before = 0;
    {
      const DistributedDataParallel::NoSync no_sync(model);
      before = group->flight_records().size();
      (loss_of(model, part_of(mine, 0, 2)) / 2).backward();
      EXPECT_EQ(group->flight_records().size(), before);
    }
    (loss_of(model, part_of(mine, 1, 2)) / 2).backward();
    EXPECT_GT(group->flight_records().size(), before);
  });
  expect_close(gradients_of(*models[0]), gradients_of(*whole), 1e-5);
  expect_same_bits(gradients_of(*models[0]), gradients_of(*models[1]));
}

// Steps of three batches, the last of the epoch of two: the gradients of all ranks' examples.
TEST(DataParallel, AccumulatesBatchesOfALoader) {
  constexpr int64_t kBatches = 5;
  const Batch batch = make_batch(4 * kBatches);
  const ModulePtr whole = make_model("lenet");
  optim::SGD all(whole->parameters(), {.lr = 0.1});
  std::vector<ModulePtr> models = {make_model("lenet"), make_model("lenet")};
  on_ranks(2, [&](const Group& group) {
    const ModulePtr& module = models[static_cast<size_t>(group->rank())];
    DistributedDataParallel model(module, group);
    optim::SGD sgd(module->parameters(), {.lr = 0.1});
    optim::GradAccumulator steps(sgd, {.every = 3});
    std::vector<int> taken;
    for (int i = 0; i < kBatches; ++i) {
      const Batch mine = part_of(part_of(batch, i, kBatches), group->rank(), 2);
      const bool is_end = i + 1 == kBatches;
      std::optional<DistributedDataParallel::NoSync> gathering;
      if (!steps.next_completes_step(is_end)) gathering.emplace(model);
      steps.backward(loss_of(model, mine), 2);
      if (steps.step(is_end)) taken.push_back(i);
    }
    EXPECT_EQ(taken, (std::vector<int>{2, 4}));
  });
  for (const auto& [begin, end] : {std::pair{0, 3}, std::pair{3, 5}}) {
    all.zero_grad();
    for (int i = begin; i < end; ++i) {
      (loss_of(*whole, part_of(batch, i, kBatches)) / (end - begin)).backward();
    }
    all.step();
  }
  const auto weights_of = [](const ModulePtr& module) {
    std::vector<Tensor> weights;
    for (const Tensor& parameter : module->parameters()) weights.push_back(parameter.detach());
    return weights;
  };
  expect_close(weights_of(models[0]), weights_of(whole), 1e-5);
  expect_same_bits(weights_of(models[0]), weights_of(models[1]));
}

// Two layers, of which each rank uses those that it is told to.
struct Branches : nn::Module {
  nn::Handle<nn::Linear> a = add("a", nn::Linear(3, 1)), b = add("b", nn::Linear(3, 1)),
                         c = add("c", nn::Linear(3, 1));
  bool use_b = true;
  Tensor forward(const Tensor& x) override { return use_b ? a(x) + b(x) : a(x); }
};

TEST(DataParallel, FindsParametersThatALossDoesNotUse) {
  for (const bool is_static : {false, true}) {
    on_ranks(2, [&](const Group& group) {
      DataParallelOptions options{
          .first_bucket_bytes = 1, .find_unused_parameters = !is_static, .static_graph = is_static};
      options.bucket_bytes = 1;
      DistributedDataParallel model(Branches(), group, options);
      auto& net = dynamic_cast<Branches&>(model.module());
      net.use_b = group->rank() == 0;
      net.c->weight.set_grad(ones({1, 3}));
      for (int i = 0; i < 2; ++i) {
        net.a->weight.set_grad({});
        net.b->weight.set_grad({});
        model(full({1, 3}, 2)).sum().backward();
        EXPECT_EQ(net.a->weight.grad().to_vector<float>(), std::vector<float>(3, 2));
        // Only rank 0 used it, so half of its gradient.
        EXPECT_EQ(net.b->weight.grad().to_vector<float>(), std::vector<float>(3, 1));
        // Nobody did: left as it was.
        EXPECT_EQ(net.c->weight.grad().to_vector<float>(), std::vector<float>(3, 1));
      }
    });
  }
}

// Of several tensors, and with several for a result.
struct TwoHeads : nn::Module {
  struct Scores {
    Tensor first;
    int64_t count = 0;
    std::optional<Tensor> second;
  };
  nn::Handle<nn::Linear> a = add("a", nn::Linear(3, 1)), b = add("b", nn::Linear(3, 1)),
                         c = add("c", nn::Linear(3, 1));

  Scores forward(const Tensor& x, const Tensor& y, bool use_b) {
    return {a(x), x.numel(), use_b ? std::optional(b(y)) : std::nullopt};
  }
  using nn::Module::forward;
};

TEST(DataParallel, TakesAnyForward) {
  on_ranks(2, [&](const Group& group) {
    DataParallelOptions options{.first_bucket_bytes = 1, .find_unused_parameters = true};
    DistributedDataParallel model(TwoHeads(), group, options);
    auto& net = dynamic_cast<TwoHeads&>(model.module());
    const Tensor x = full({1, 3}, 1 + group->rank()), y = full({1, 3}, 4);
    for (int i = 0; i < 2; ++i) {
      model.zero_grad();
      const auto scores = model.forward_as<TwoHeads>(x, y, group->rank() == 0);
      EXPECT_EQ(scores.count, 3);
      EXPECT_EQ(scores.second.has_value(), group->rank() == 0);
      Tensor loss = scores.first.sum();
      if (scores.second) loss = loss + scores.second->sum();
      loss.backward();
      EXPECT_EQ(net.a->weight.grad().to_vector<float>(), std::vector<float>(3, 1.5f));
      EXPECT_EQ(net.b->weight.grad().to_vector<float>(),
                std::vector<float>(3, 2));  // rank 0's half
      EXPECT_FALSE(net.c->weight.grad().defined());
    }
    EXPECT_EQ(error_of([&] { model.forward_as<Branches>(x); }),
              concat("DistributedDataParallel: forward_as: the module is of another class: got ",
                     net.description()));
  });
}

// Two calls of the module before one backward, with a list of both results.
TEST(DataParallel, TakesSeveralCallsForOnePass) {
  on_ranks(2, [&](const Group& group) {
    DistributedDataParallel model(nn::Linear(3, 1), group, {.find_unused_parameters = true});
    const std::vector<Tensor> both = model.pass([&] {
      return std::vector<Tensor>{model.module()(full({1, 3}, 1 + group->rank())),
                                 model.module()(full({1, 3}, 3))};
    });
    (both[0].sum() + both[1].sum()).backward();
    const Tensor weight = model.parameters()[0];
    EXPECT_EQ(weight.grad().to_vector<float>(), std::vector<float>(3, 4.5f));
  });
}

TEST(TensorsIn, FindsThoseOfContainersTuplesAndStructs) {
  struct Inner {
    std::pair<Tensor, int> pair;
    std::map<std::string, Tensor> by_name;
  };
  struct Outer {
    std::vector<Inner> parts;
    std::tuple<double, std::optional<Tensor>, Tensor> others;
    std::string text;
  };
  const auto value_of = [](const Tensor& x) { return x.item(); };
  const Outer outer = {{{{full({1}, 1), 0}, {{"a", full({1}, 2)}, {"b", full({1}, 3)}}}},
                       {0.5, full({1}, 4), Tensor()},
                       "text"};
  std::vector<double> found;
  visit_tensors(outer, [&](const Tensor& x) { found.push_back(value_of(x)); });
  EXPECT_EQ(found, (std::vector<double>{1, 2, 3, 4}));
}

// What passes that are not reduced leave is part of the sum, also where the last pass does not use
// it.
TEST(DataParallel, ReducesWhatOnlyEarlierPassesUsed) {
  on_ranks(2, [&](const Group& group) {
    DistributedDataParallel model(Branches(), group, {.find_unused_parameters = true});
    auto& net = dynamic_cast<Branches&>(model.module());
    for (int i = 0; i < 2; ++i) {
      net.a->weight.set_grad({});
      net.b->weight.set_grad({});
      {
        const DistributedDataParallel::NoSync no_sync(model);
        net.use_b = true;
        model(full({1, 3}, 2 + 2 * group->rank())).sum().backward();
      }
      net.use_b = i == 0 && group->rank() == 1;
      model(full({1, 3}, 1)).sum().backward();
      EXPECT_EQ(net.a->weight.grad().to_vector<float>(), std::vector<float>(3, 4));
      const float mean = i == 0 ? 3.5f : 3;  // of 2 and 4, and of 0 and 1 in the last pass
      EXPECT_EQ(net.b->weight.grad().to_vector<float>(), std::vector<float>(3, mean));
    }
  });
}

TEST(DataParallel, NamesParametersThatGetNoGradient) {
  on_ranks(2, [&](const Group& group) {
    DistributedDataParallel model(Branches(), group);
    model(ones({1, 3})).sum().backward();
    for (const bool is_training : {true, false}) {
      model.train(is_training);
      EXPECT_EQ(
          error_of([&] {
            model(ones({1, 3}));
          }),
          "DistributedDataParallel: the last backward did not reduce all gradients: none came for "
          "c.weight, c.bias; does the loss depend on them? If not, set find_unused_parameters");
    }
  });
}

TEST(DataParallel, RejectsASecondBackward) {
  on_ranks(2, [&](const Group& group) {
    DistributedDataParallel model(nn::Linear(3, 1), group);
    const Tensor loss = model(ones({1, 3})).sum();
    loss.backward({}, true);
    EXPECT_NE(
        error_of([&] { loss.backward(); }).find("got a second gradient since the last forward"),
        std::string::npos);
  });
}

TEST(DataParallel, RejectsSparseGradients) {
  on_ranks(2, [&](const Group& group) {
    DistributedDataParallel model(nn::Embedding(6, 3, {.sparse = true}), group);
    const Tensor loss = model(tensor<int64_t>({1, 4})).sum();
    EXPECT_EQ(error_of([&] { loss.backward(); }),
              "DistributedDataParallel: weight has a sparse gradient: got 2 rows of [6, 3], "
              "expected a dense one: make the embedding without sparse");
  });
}

TEST(DataParallel, RejectsDifferentModulesAndBadOptions) {
  on_ranks(2, [&](const Group& group) {
    EXPECT_EQ(
        error_of([&] { DistributedDataParallel model(nn::Linear(3, 1 + group->rank()), group); }),
        "DistributedDataParallel: ranks have different modules: rank 0 has weight float32 "
        "[1, 3], rank 1 has weight float32 [2, 3]");
    EXPECT_EQ(
        error_of(
            [&] { DistributedDataParallel model(nn::Linear(3, 1), group, {.bucket_bytes = 0}); }),
        "DistributedDataParallel: buckets must have a positive size: got 0 and 1048576 bytes");
    EXPECT_EQ(
        error_of([&] {
          DistributedDataParallel model(nn::Linear(3, 1), group, {.communication_dtype = kInt32});
        }),
        "DistributedDataParallel: communication_dtype must be float16 or bfloat16: got int32");
  });
}

TEST(DataParallel, ExchangesWhileBackwardGoesOn) {
  on_ranks(2, [&](const Group& group) {
    nn::Sequential net(nn::Linear(8, 8), nn::Linear(8, 8), nn::Linear(8, 8));
    DistributedDataParallel model(std::move(net), group,
                                  {.bucket_bytes = 1, .first_bucket_bytes = 1});
    const Tensor x = ones({4, 8});
    x.set_requires_grad();
    bool was_over = false;
    // The gradient of the input is the last one. All ranks come here, and nobody goes on before the
    // first reduction is over, which nothing after backward can do.
    const size_t before = group->flight_records().size();
    x.register_hook([&](const Tensor&) {
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (!was_over && std::chrono::steady_clock::now() < deadline) {
        const std::vector<FlightRecord> records = group->flight_records();
        was_over = records.size() > before && records[before].kind == CollectiveKind::kAllReduce &&
                   records[before].state == FlightRecord::State::kDone;
        std::this_thread::yield();
      }
      return Tensor();
    });
    model(x).sum().backward();
    EXPECT_TRUE(was_over);
  });
}

}  // namespace
}  // namespace wick::dist
