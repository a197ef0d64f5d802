// DataParallel: one process, a replica of the module on each further device.
#include "wick/dist/replicas.h"

#include <gtest/gtest.h>

#include <vector>

#include "wick/core/core.h"
#include "wick/nn/nn.h"
#include "wick/optim/sgd.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/host_array.h"

namespace wick::dist {
namespace {

using wick::testing::error_of;
using ReplicaDevices = std::vector<Device>;

// Three of the host, and three GPUs where they are.
std::vector<ReplicaDevices> replica_places() {
  std::vector<ReplicaDevices> all = {{kCpu, kCpu, kCpu}};
  if (cuda_device_count() >= 3) all.push_back({cuda_device(0), cuda_device(1), cuda_device(2)});
  return all;
}

std::shared_ptr<nn::Module> small_net() {
  return std::make_shared<nn::Sequential>(nn::Linear(4, 6), nn::Tanh(), nn::Linear(6, 3));
}

Tensor rows_for_replicas(int64_t count) {
  Generator generator(11);
  return randn({count, 4}, kFloat32, kCpu, &generator);
}

double largest_difference_of(const Tensor& a, const Tensor& b) {
  return (a.cpu() - b.cpu()).abs().max().item();
}

TEST(Replicas, HaveTheResultsAndGradientsOfTheWholeBatch) {
  for (const ReplicaDevices& devices : replica_places()) {
    DataParallel model(small_net, devices);
    const auto alone = small_net();
    TensorMap state;
    for (const auto& [name, x] : model.module().state_dict()) state[name] = x.cpu();
    alone->load_state_dict(state);
    optim::SGD optimizer(model.parameters(), {.lr = 0.1}), other(alone->parameters(), {.lr = 0.1});
    for (const int64_t count : {5, 6, 2, 1}) {
      const Tensor x = rows_for_replicas(count);
      optimizer.zero_grad();
      other.zero_grad();
      const Tensor y = model(x), expected = (*alone)(x);
      EXPECT_EQ(y.device(), devices[0]);
      EXPECT_LE(largest_difference_of(y, expected), 1e-6);
      y.square().mean().backward();
      expected.square().mean().backward();
      const std::vector<Tensor> parameters = model.parameters();
      for (size_t i = 0; i < parameters.size(); ++i) {
        EXPECT_LE(largest_difference_of(parameters[i].grad(), alone->parameters()[i].grad()), 1e-6);
      }
      optimizer.step();  // what the replicas have to learn of
      other.step();
    }
  }
}

TEST(Replicas, AccumulateOverPassesAndLeaveFrozenParametersAlone) {
  for (const ReplicaDevices& devices : replica_places()) {
    DataParallel model(small_net, devices);
    const std::vector<Tensor> parameters = model.parameters();
    const Tensor x = rows_for_replicas(6);
    model(x).sum().backward();
    const Tensor once = parameters[0].grad().cpu().clone();
    const Tensor first = model(x).sum(), second = model(x).sum();  // two passes, then backward
    first.backward();
    second.backward();
    EXPECT_LE(largest_difference_of(parameters[0].grad(), once * 3), 1e-5);
    parameters[0].set_requires_grad(false);
    model.zero_grad();
    model(x).sum().backward();
    EXPECT_FALSE(parameters[0].grad().defined());
    EXPECT_TRUE(parameters[1].grad().defined());
  }
}

TEST(Replicas, FollowTheModuleInModesAndBuffers) {
  for (const ReplicaDevices& devices : replica_places()) {
    const auto make = [] { return std::make_shared<nn::Sequential>(nn::BatchNorm1d(4)); };
    DataParallel model(make, devices);
    const Tensor x = cat({rows_for_replicas(2), rows_for_replicas(2) + 5, rows_for_replicas(2)});
    model(x);
    const Tensor mean = model.named_buffers()[0].second.cpu();
    EXPECT_LE(largest_difference_of(mean, rows_for_replicas(2).mean({0}) * 0.1), 1e-6);
    model.eval();
    const Tensor parts = model(x), whole = model.module()(x.to(devices[0]));
    EXPECT_LE(largest_difference_of(parts, whole), 1e-6);
  }
}

TEST(Replicas, JoinResultsWithoutAnAxis) {
  struct Total : nn::Module {
    Tensor forward(const Tensor& x) override { return x.sum(); }
  };
  DataParallel model([] { return std::make_shared<Total>(); }, {kCpu, kCpu});
  EXPECT_EQ(model(ones({3, 2})).to_vector<float>(), (std::vector<float>{4, 2}));
}

TEST(Replicas, RejectWhatDoesNotFit) {
  EXPECT_EQ(error_of([] { DataParallel model(small_net, {}); }),
            "DataParallel: there is no device: expected at least one");
  int64_t width = 3;
  EXPECT_EQ(
      error_of([&] {
        DataParallel model([&] { return std::make_shared<nn::Linear>(2, ++width); }, {kCpu, kCpu});
      }),
      "DataParallel: make gives different modules: got weight [4, 2] and weight [5, 2]");
  DataParallel model(small_net, {kCpu, kCpu});
  EXPECT_EQ(error_of([&] { model(ones({})); }),
            "DataParallel: the batch has no axis to be split along: got []");
}

}  // namespace
}  // namespace wick::dist
