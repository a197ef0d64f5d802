#include "wick/dist/join.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "wick/core/core.h"
#include "wick/dist/zero.h"
#include "wick/nn/nn.h"
#include "wick/optim/optim.h"
#include "wick/tests/dist/ranks.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/host_array.h"

namespace wick::dist {
namespace {

using wick::testing::bit_equal;
using wick::testing::error_of;

std::shared_ptr<nn::Sequential> make_join_net() {
  manual_seed(11);
  return std::make_shared<nn::Sequential>(nn::Linear(5, 9), nn::ReLU(), nn::Linear(9, 3));
}

// The i-th input of a rank.
Tensor join_input(int rank, int i) {
  Generator generator(static_cast<uint64_t>(100 * rank + i));
  return randn({4, 5}, kFloat32, kCpu, &generator);
}

Tensor join_loss(nn::Module& model, int rank, int i) {
  return model(join_input(rank, i)).square().mean();
}

// The weights after one process did what the ranks shall do: `counts` inputs on each.
std::vector<Tensor> weights_by_hand(const std::vector<int>& counts, bool over_all) {
  const auto net = make_join_net();
  optim::SGD optimizer(net->parameters(), {.lr = 0.1, .momentum = 0.9});
  for (int i = 0; i < *std::max_element(counts.begin(), counts.end()); ++i) {
    int active = 0;
    for (const int count : counts) active += count > i ? 1 : 0;
    optimizer.zero_grad();
    for (size_t r = 0; r < counts.size(); ++r) {
      if (counts[r] <= i) continue;
      const auto ranks =
          static_cast<double>(over_all ? counts.size() : static_cast<size_t>(active));
      (join_loss(*net, static_cast<int>(r), i) / ranks).backward();
    }
    optimizer.step();
  }
  return net->parameters();
}

std::vector<Tensor> weights_by_join(const std::vector<int>& counts, const JoinOptions& options,
                                    bool sharded = false,
                                    DataParallelOptions parallel = {.bucket_bytes = 1,
                                                                    .first_bucket_bytes = 1}) {
  std::vector<std::shared_ptr<nn::Sequential>> nets;
  for (size_t r = 0; r < counts.size(); ++r) nets.push_back(make_join_net());
  on_ranks(static_cast<int>(counts.size()), [&](const Group& group) {
    const auto rank = static_cast<size_t>(group->rank());
    DistributedDataParallel model(nets[rank], group, parallel);
    optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
    if (sharded) shard_optimizer(optimizer, model);
    const auto step = [&] {
      optimizer.step();
      optimizer.zero_grad();
    };
    const auto train = [&] {
      for (int i = 0; i < counts[rank]; ++i) {
        join_loss(model, group->rank(), i).backward();
        step();
      }
    };
    join(model, train, step, options);
  });
  for (const auto& net : nets) {
    for (size_t i = 0; i < net->parameters().size(); ++i) {
      EXPECT_TRUE(bit_equal(net->parameters()[i], nets[0]->parameters()[i])) << i;
    }
  }
  return nets[0]->parameters();
}

void expect_close_weights(const std::vector<Tensor>& got, const std::vector<Tensor>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].allclose(wanted[i], 1e-5, 1e-6)) << i;
}

TEST(Join, TakesPartInTheOthersPasses) {
  const std::vector<int> all[] = {{3, 1, 2}, {1, 4}, {0, 3}, {2, 2}, {3, 0, 0}};
  for (const std::vector<int>& counts : all) {
    expect_close_weights(weights_by_join(counts, {}), weights_by_hand(counts, true));
    expect_close_weights(weights_by_join(counts, {.divide_by_initial_world_size = false}),
                         weights_by_hand(counts, false));
  }
}

TEST(Join, SharesAnOptimizerToo) {
  const std::vector<int> counts = {1, 3, 0};
  const std::vector<Tensor> whole = weights_by_join(counts, {}),
                            parts = weights_by_join(counts, {}, /*sharded=*/true);
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_TRUE(bit_equal(parts[i], whole[i])) << i;
  expect_close_weights(
      weights_by_join(counts, {.divide_by_initial_world_size = false}, /*sharded=*/true),
      weights_by_hand(counts, false));
}

TEST(Join, FindsUnusedParameters) {
  const std::vector<int> counts = {1, 2};
  expect_close_weights(weights_by_join(counts, {}, false, {.find_unused_parameters = true}),
                       weights_by_hand(counts, true));
  expect_close_weights(weights_by_join(counts, {}, false, {.static_graph = true}),
                       weights_by_hand(counts, true));
}

TEST(Join, CanBeFollowedByEvenPassesAndAnotherOne) {
  std::vector<std::shared_ptr<nn::Sequential>> nets = {make_join_net(), make_join_net()};
  on_ranks(2, [&](const Group& group) {
    const auto rank = static_cast<size_t>(group->rank());
    DistributedDataParallel model(nets[rank], group, {.bucket_bytes = 1, .first_bucket_bytes = 1});
    optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
    const auto step = [&] {
      optimizer.step();
      optimizer.zero_grad();
    };
    const auto passes = [&](int count) {
      for (int i = 0; i < count; ++i) {
        join_loss(model, group->rank(), i).backward();
        step();
      }
    };
    join(
        model, [&] { passes(group->rank() == 0 ? 0 : 2); }, step);
    passes(2);
    join(
        model, [&] { passes(group->rank() == 0 ? 3 : 1); }, step);
  });
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(bit_equal(nets[0]->parameters()[i], nets[1]->parameters()[i]));
  }
}

TEST(Join, EndsWithTheBuffersOfWhoWasInTheLastPass) {
  on_ranks(2, [&](const Group& group) {
    DistributedDataParallel model(nn::BatchNorm1d(2), group);
    const auto step = [&] { model.zero_grad(); };
    join(
        model,
        [&] {
          for (int i = 0; i < (group->rank() == 0 ? 1 : 2); ++i) {
            model(full({4, 2}, group->rank() == 0 ? 1 : 7)).sum().backward();
          }
        },
        step);
    // The first pass leaves each its own mean; in the second rank 1 goes on from its own.
    const auto& norm = dynamic_cast<nn::BatchNorm1d&>(model.module());
    EXPECT_NEAR(norm.running_mean[0].item(), 0.9 * 0.7 + 0.7, 1e-6);
  });
}

TEST(Join, CanThrowWhereARankRunsOut) {
  on_ranks(3, [&](const Group& group) {
    DistributedDataParallel model(make_join_net(), group);
    synchronize_batch_norms(model, group);
    int passes = 0;
    const auto train = [&] {
      for (int i = 0; i < (group->rank() == 1 ? 1 : 3); ++i) {
        join_loss(model, group->rank(), i).backward();
        ++passes;
      }
    };
    EXPECT_EQ(error_of([&] { join(model, train, [] {}, {.throw_on_early_termination = true}); }),
              "join: a rank has run out of inputs: 2 of 3 ranks have more");
    EXPECT_EQ(passes, 1);
    group->barrier().wait();  // the group is as good as before
  });
}

TEST(Join, RefusesSynchronisedBatchNorms) {
  on_ranks(2, [&](const Group& group) {
    DistributedDataParallel model(nn::Sequential(nn::BatchNorm1d(2)), group);
    synchronize_batch_norms(model, group);
    EXPECT_EQ(error_of([&] {
                join(
                    model, [] {}, [] {});
              }),
              "join: batch norm module.0 is synchronised over the ranks, of which some would have "
              "no batch: set throw_on_early_termination");
  });
}

}  // namespace
}  // namespace wick::dist
