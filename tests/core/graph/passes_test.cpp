#include "wick/core/graph/passes.h"

#include <gtest/gtest.h>

#include "wick/core/graph/executor.h"
#include "wick/core/graph/trace.h"
#include "wick/core/ops/activation.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/random.h"
#include "wick/tests/core/graph/expect_equal.h"

namespace wick::testing {
namespace {

std::string ops_of(const graph::Graph& graph) {
  std::string text;
  for (const graph::Node& node : graph.nodes) {
    text += (text.empty() ? "" : " ") + std::string(node.op.info().name);
    if (node.body.empty()) continue;
    text += "{";
    for (const graph::Node& part : node.body) text += std::string(" ") + part.op.info().name;
    text += " }";
  }
  return text;
}

TEST(Passes, RemoveDeadNodes) {
  const Tensor count = zeros({3});
  const auto f = [&](const Tensors& x) -> Tensors {
    const Tensor unused = (x[0] * 3).exp();
    Tensor scratch = zeros({3});
    scratch.add_(unused);  // nobody reads it
    const NoGrad no_grad;
    count.add_(1);  // the program's own
    return {x[0] + 1, rand({3})};
  };
  graph::Graph graph = graph::trace(f, {ones({3})});
  EXPECT_EQ(ops_of(graph), "mul_scalar exp empty fill_ add_ add_scalar_ add_scalar empty uniform_");
  EXPECT_EQ(graph::remove_dead_nodes(graph), 5);
  EXPECT_EQ(ops_of(graph), "add_scalar_ add_scalar empty uniform_");
  EXPECT_EQ(graph::remove_dead_nodes(graph), 0);
  manual_seed(1);
  const Tensors got = run(graph, {ones({3})});
  manual_seed(1);
  expect_equal(got, f({ones({3})}));
  EXPECT_EQ(count.to_vector<float>(), std::vector<float>(3, 3));  // traced, run, called
}

TEST(Passes, MergeCommonNodes) {
  const auto f = [](const Tensors& x) -> Tensors {
    const Tensor a = x[0].exp() * 2, b = x[0].exp() * 2;
    const Tensor c = x[0] * 0.0, d = x[0] * -0.0;
    const Tensor changed = x[0].exp();
    changed.add_(1);
    return {a + b, c / d, dropout(x[0], 0.5) + dropout(x[0], 0.5), changed, x[0].sin(), x[0].sin()};
  };
  graph::Graph graph = graph::trace(f, {ones({64})});
  const size_t before = graph.nodes.size();
  // Not those of other zeros, of other random numbers, changed in place, or given to the caller.
  EXPECT_EQ(graph::merge_common_nodes(graph), 2);
  EXPECT_EQ(graph.nodes.size(), before - 2);
  check(graph);
  const Tensor x = rand({64});
  manual_seed(1);
  const Tensors got = run(graph, {x});
  manual_seed(1);
  expect_equal(got, f({x}));
  EXPECT_NE(got[4].raw_data(), got[5].raw_data());
}

TEST(Passes, FoldConstants) {
  const Tensor weight = rand({3, 2});
  const auto f = [&](const Tensors& x) -> Tensors {
    return {x[0].matmul(weight.transpose(0, 1) * 2 + tensor<float>({1, 2, 3})).neg()};
  };
  graph::Graph graph = graph::trace(f, {ones({4, 2})});
  EXPECT_EQ(ops_of(graph), "permute mul_scalar add matmul neg");
  EXPECT_EQ(graph::fold_constants(graph), 0) << "the weight is the program's, and may change";
  graph::freeze_constants(graph);
  EXPECT_EQ(graph::fold_constants(graph), 2);
  graph::remove_dead_nodes(graph);
  EXPECT_EQ(ops_of(graph), "matmul neg");
  const Tensor x = rand({4, 2});
  expect_equal(run(graph, {x}), f({x}));
}

TEST(Passes, FuseElementwise) {
  const auto f = [](const Tensors& x) -> Tensors {
    const Tensor a = (x[0] + x[1]).tanh(), b = x[0] * x[2];
    const Tensor sum = a.sum();
    return {(a * b - 0.5).sigmoid() * sum, b};
  };
  const Tensors x = {rand({40, 300}), rand({300}), rand({40, 1})};
  graph::Graph graph = graph::trace(f, x);
  EXPECT_EQ(ops_of(graph), "add tanh mul sum mul add_scalar sigmoid mul");
  EXPECT_EQ(graph::fuse_elementwise(graph), 5);
  EXPECT_EQ(ops_of(graph), "tanh{ add tanh } sum mul{ mul mul add_scalar sigmoid mul }");
  check(graph);
  graph::Executor executor(graph);
  for (int i = 0; i < 4; ++i) expect_equal(executor.run(x), f(x));
  EXPECT_EQ(executor.num_fused(), 2);
  EXPECT_NE(to_string(graph).find("fused("), std::string::npos);
}

// Every dtype, rounding where the ops round, layouts and shapes that broadcast, short rows and
// long.
TEST(Passes, FusedChainsRoundAsTheirOps) {
  for (const Dtype dtype : {kFloat64, kFloat32, kFloat16, kBFloat16, kInt64, kInt32, kUint8}) {
    for (const int64_t columns : {1, 7, 100, 1025, 5000}) {
      SCOPED_TRACE(concat(dtype, " ", columns));
      const auto f = [](const Tensors& x) -> Tensors {
        const Tensor a = x[0] * x[1] + x[2];
        const Tensor b = maximum(a, x[3]) - x[1];
        return {b * a, (b + 1).to(kFloat32).square() * 0.5};
      };
      Tensors x = {rand({9, columns}) * 8, rand({columns}) * 8, rand({9, 1}) * 8, rand({}) * 8};
      for (Tensor& t : x) t = t.to(dtype);
      x[0] = x[0].transpose(0, 1).contiguous().transpose(0, 1);
      graph::Graph graph = graph::trace(f, x);
      EXPECT_GT(graph::fuse_elementwise(graph), 0);
      graph::Executor executor(graph);
      expect_equal(executor.run(x), f(x));
      EXPECT_GT(executor.num_fused(), 0);
    }
  }
}

// A result of some MiB goes past the caches, in pieces of several threads.
TEST(Passes, FusedChainsOfLargeTensors) {
  const auto f = [](const Tensors& x) -> Tensors {
    const Tensor a = x[0] * 2 + 1;
    return {a, a.square() - x[1], x[0].exp().to(kBFloat16).mul(x[1].to(kBFloat16)).neg()};
  };
  const Tensors x = {randn({1100, 1023}), randn({1023})};
  graph::Graph graph = graph::trace(f, x);
  graph::optimize(graph);
  graph::Executor executor(graph);
  expect_equal(executor.run(x), f(x));
  EXPECT_GE(executor.num_fused(), 1);
}

}  // namespace
}  // namespace wick::testing
