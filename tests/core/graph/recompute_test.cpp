#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "wick/core/graph/executor.h"
#include "wick/core/graph/host_call.h"
#include "wick/core/graph/passes.h"
#include "wick/core/graph/trace.h"
#include "wick/core/ops/conv.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/norm.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/reduce.h"
#include "wick/tests/core/graph/expect_equal.h"
#include "wick/tests/core/graph/ops_of.h"

namespace wick::testing {
namespace {

// A stem, four residual blocks and a head. Its step returns the loss and all that it changed.
struct ResidualNet {
  std::array<Tensor, 6> filters;
  std::array<Tensor, 5> weights, biases, means, variances;
  size_t looked_at = 0;  // of this block: a host call may change what it normalises

  ResidualNet() {
    for (Tensor& filter : filters) {
      filter = randn({16, &filter == filters.data() ? 4 : 16, 3, 3}).set_requires_grad(true);
    }
    for (size_t i = 0; i < 5; ++i) {
      weights[i] = rand({16}).set_requires_grad(true);
      biases[i] = randn({16}).set_requires_grad(true);
      means[i] = zeros({16});
      variances[i] = ones({16});
    }
  }

  Tensors step(const Tensor& x) {
    for (const Tensor& leaf : leaves()) leaf.set_grad(Tensor());
    Tensor y = batch_norm_relu(conv2d(x, filters[0], {}, {1, 1}, {1, 1}), weights[0], biases[0],
                               means[0], variances[0], {.training = true});
    for (size_t i = 1; i < 5; ++i) {
      const Tensor z = conv2d(y, filters[i], {}, {1, 1}, {1, 1});
      y = batch_norm_add_relu(z, y, weights[i], biases[i], means[i], variances[i],
                              {.training = true});
      if (i == looked_at) {
        graph::host_call("look", [](const Tensors&) { return Tensor(); }, {}, {z.detach()});
      }
    }
    const Tensor loss = conv2d(y, filters[5]).square().mean();
    loss.backward();
    Tensors results = {loss.detach()};
    for (const Tensor& leaf : leaves()) results.push_back(leaf.grad());
    for (size_t i = 0; i < 5; ++i) {
      results.push_back(means[i].clone());
      results.push_back(variances[i].clone());
      means[i].fill_(0);
      variances[i].fill_(1);
    }
    return results;
  }

  Tensors leaves() const {
    Tensors all(filters.begin(), filters.end());
    all.insert(all.end(), weights.begin(), weights.end());
    all.insert(all.end(), biases.begin(), biases.end());
    return all;
  }
};

int64_t count(const graph::Graph& graph, std::string_view name) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                       [&](const graph::Node& node) { return name == node.op.info().name; });
}

TEST(RecomputeCheapNodes, KeepsEveryBit) {
  const Tensor x = randn({2, 4, 12, 12});
  for (size_t looked_at = 0; looked_at < 5; ++looked_at) {
    SCOPED_TRACE(looked_at);
    ResidualNet net;
    net.looked_at = looked_at;
    const auto step = [&](const Tensors& in) { return net.step(in[0]); };
    graph::Graph made = graph::trace(step, {x});
    const Tensors want = run(made, {x});
    const int64_t norms = count(made, "batch_norm_recompute"), nodes = std::ssize(made.nodes);
    const int64_t added = graph::recompute_cheap_nodes(made);
    check(made);
    EXPECT_EQ(std::ssize(made.nodes) - nodes, added);
    EXPECT_GE(count(made, "batch_norm_recompute") - norms, looked_at == 0 ? 3 : 1) << ops_of(made);
    EXPECT_GT(count(made, "conv2d"), 6);  // the first layer's, again
    EXPECT_NE(to_string(made).find("masks=true"), std::string::npos);
    EXPECT_EQ(graph::recompute_cheap_nodes(made), 0);
    // Nothing is recomputed from what a host call may have changed.
    const auto changed = std::find_if(made.nodes.begin(), made.nodes.end(), graph::is_host_call);
    EXPECT_EQ(changed != made.nodes.end(), looked_at > 0);
    for (auto node = changed; node != made.nodes.end(); ++node) {
      if (node->op.info().name != std::string_view("batch_norm_recompute")) continue;
      EXPECT_NE(node->inputs[0], changed->inputs[0]);
    }
    expect_equal(run(made, {x}), want);
    expect_equal(step({x}), want);
  }
}

// Inference keeps its speed.
TEST(RecomputeCheapNodes, LeavesGraphsWithoutBackward) {
  const Tensor narrow = randn({4, 4, 1, 1}), wide = randn({64, 4, 1, 1}),
               back = randn({4, 64, 1, 1});
  const auto skip = [&](const Tensors& x) -> Tensors {
    const Tensor y = conv2d(x[0], narrow);  // held while the wide ones are
    return {conv2d(conv2d(y, wide).exp(), back) + y};
  };
  graph::Graph made = graph::trace(skip, {randn({2, 4, 8, 8})});
  EXPECT_EQ(graph::recompute_cheap_nodes(made), 0);
}

}  // namespace
}  // namespace wick::testing
