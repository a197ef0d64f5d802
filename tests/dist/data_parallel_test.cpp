#include "wick/dist/data_parallel.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "wick/core/core.h"
#include "wick/nn/models/registry.h"
#include "wick/nn/nn.h"
#include "wick/optim/sgd.h"
#include "wick/tests/dist/ranks.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/host_array.h"
#include "wick/tests/harness/sanitized.h"

namespace wick::dist {
namespace {

using wick::testing::bit_equal;
using wick::testing::error_of;
using ModulePtr = std::shared_ptr<nn::Module>;

// Simulated GPUs that several of the host's threads use have more threads than ThreadSanitizer,
// which then fails itself, tells apart.
bool has_gpus() { return cuda_is_available() && !wick::testing::kThreadSanitized; }

Device place_of(bool on_gpu, int rank) {
  return on_gpu ? cuda_device(rank % cuda_device_count()) : kCpu;
}

ModulePtr make_model(const std::string& name, Dtype dtype = kFloat32) {
  manual_seed(5);
  ModulePtr model = nn::find_model(name).make({3, 16, 16}, 10);
  model->to(dtype);
  return model;
}

struct Batch {
  Tensor images, labels;
};

Batch make_batch(int64_t size, Dtype dtype = kFloat32) {
  Generator generator(3);
  return {randn({size, 3, 16, 16}, kFloat64, kCpu, &generator).to(dtype),
          randint(0, 10, {size}, kInt64, kCpu, &generator)};
}

Batch part_of(const Batch& all, int rank, int size) {
  const int64_t n = all.images.size(0) / size;
  return {all.images.narrow(0, rank * n, n), all.labels.narrow(0, rank * n, n)};
}

Tensor loss_of(nn::Module& model, const Batch& batch, Device device = kCpu) {
  return cross_entropy(model(batch.images.to(device)), batch.labels.to(device));
}

std::vector<Tensor> gradients_of(nn::Module& model) {
  std::vector<Tensor> gradients;
  for (const Tensor& p : model.parameters()) {
    gradients.push_back(p.grad().defined() ? p.grad().cpu().clone() : Tensor());
  }
  return gradients;
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

double relative_difference(const Tensor& a, const Tensor& b) {
  const double size = b.to(kFloat64).norm().item();
  return (a.to(kFloat64) - b.to(kFloat64)).norm().item() / std::max(size, 1e-30);
}

void expect_close(const std::vector<Tensor>& got, const std::vector<Tensor>& wanted, double most) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_LE(relative_difference(got[i], wanted[i]), most) << "parameter " << i;
  }
}

void expect_same_bits(const std::vector<Tensor>& got, const std::vector<Tensor>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(bit_equal(got[i], wanted[i])) << "parameter " << i;
  }
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
  if (!has_gpus()) GTEST_SKIP() << "no GPU, or one that ThreadSanitizer cannot watch";
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

TEST(DataParallel, AgreesOnSimulatedGpus) {
  if (!has_gpus()) GTEST_SKIP() << "no GPU, or one that ThreadSanitizer cannot watch";
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

TEST(DataParallel, NamesParametersThatGetNoGradient) {
  on_ranks(2, [&](const Group& group) {
    DistributedDataParallel model(Branches(), group);
    model(ones({1, 3})).sum().backward();
    EXPECT_EQ(
        error_of([&] {
          model(ones({1, 3}));
        }),
        "DistributedDataParallel: the last backward did not reduce all gradients: none came for "
        "c.weight, c.bias; does the loss depend on them? If not, set find_unused_parameters");
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
