// Reductions at the end of fused nodes: the bits of the ops one by one.
#include <gtest/gtest.h>

#include <algorithm>

#include "wick/core/base/parallel.h"
#include "wick/core/graph/executor.h"
#include "wick/core/graph/passes.h"
#include "wick/core/graph/trace.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/reduce.h"
#include "wick/tests/core/graph/expect_equal.h"
#include "wick/tests/core/graph/ops_of.h"

namespace wick::testing {
namespace {

using Reduce = std::function<Tensor(const Tensor&)>;

// Fused nodes that end with one of these ops.
int64_t ended_chains(const graph::Graph& graph) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(), [](const graph::Node& node) {
    return !node.body.empty() && !node.op.info().elementwise;
  });
}

// The graph of `f` has one node that ends with a reduction, and gives the bits of the ops for any
// number of threads.
void expect_ended(const graph::Function& f, const Tensors& x) {
  graph::Graph made = graph::trace(f, x);
  graph::fuse_elementwise(made);
  check(made);
  EXPECT_EQ(ended_chains(made), 1) << made;
  const Tensors want = f(x);
  const int before = num_threads();
  for (const int threads : {1, 2, 3}) {
    set_num_threads(threads);
    graph::Executor executor(made);
    for (int i = 0; i < 3; ++i) expect_equal(executor.run(x), want);
    EXPECT_EQ(executor.num_fused(), 1);
  }
  set_num_threads(before);
}

const std::vector<Reduce> kReductions = {
    [](const Tensor& x) { return x.sum(); },
    [](const Tensor& x) { return x.mean(); },
    [](const Tensor& x) { return x.amax(); },
    [](const Tensor& x) { return x.sum(Shape{-1}); },
    [](const Tensor& x) { return x.mean(Shape{-1}, true); },
    [](const Tensor& x) { return x.amin(Shape{1}, true); },
    [](const Tensor& x) { return x.sum(Shape{0}); },
    [](const Tensor& x) {
      return x.mean(Shape{0, 2});
    },
    [](const Tensor& x) {
      return x.amax(Shape{0, 1});
    },
    [](const Tensor& x) { return sum(x, {}, false, kFloat64); },
};

// Rows over several blocks, many rows, and wide columns; in each dtype.
TEST(ChainReduction, KeepsEveryBit) {
  for (const Shape& shape : {Shape{3, 2, 9000}, Shape{40, 3, 1030}, Shape{2, 300, 1100}}) {
    for (const Dtype dtype : {kFloat32, kFloat64, kBFloat16, kFloat16}) {
      const Tensor x = randn(shape).to(dtype), y = randn(shape).to(dtype);
      for (size_t i = 0; i < kReductions.size(); ++i) {
        SCOPED_TRACE(concat(shape, " ", dtype, " reduction ", i));
        expect_ended(
            [&](const Tensors& in) -> Tensors {
              return {kReductions[i]((in[0] - in[1]).square() * 0.5)};
            },
            {x, y});
      }
    }
  }
}

// Inputs are broadcast, or lie in another layout.
TEST(ChainReduction, OfOtherLayouts) {
  const Tensor large = randn({70, 1030}), row = randn({1030}), column = randn({70, 1});
  for (const Shape& axes : {Shape{0}, Shape{1}, Shape{}}) {
    SCOPED_TRACE(axes);
    expect_ended(
        [&](const Tensors& x) -> Tensors { return {((x[0].exp() + x[1]) * x[2]).sum(axes)}; },
        {large, row, column});
    expect_ended([&](const Tensors& x) -> Tensors { return {(x[0] * x[1]).neg().mean(axes)}; },
                 {large, randn({1030, 70}).transpose(0, 1)});
  }
  const Tensor images = randn({4, 1040, 3, 2}).contiguous(MemoryFormat::kChannelsLast);
  for (const Shape& axes : {Shape{0, 2, 3}, Shape{1}, Shape{2, 3}, Shape{0}, Shape{}}) {
    SCOPED_TRACE(axes);
    expect_ended([&](const Tensors& x) -> Tensors { return {x[0].tanh().relu().sum(axes)}; },
                 {images});
  }
}

// Short rows, integers, products, and chains of which something else is read.
TEST(ChainReduction, LeavesOthers) {
  const auto f = [](const Tensors& x) -> Tensors {
    const Tensor a = x[2].exp(), b = x[2].tanh();
    return {x[0].exp().sum(Shape{-1}),
            x[1].square().sum(),
            (x[2] * 2).exp().prod(),
            a,
            a.sum(),
            b.sum(),
            b.neg()};
  };
  const Tensors x = {randn({5000, 3}), ones({4000}, kInt64), randn({4000})};
  graph::Graph made = graph::trace(f, x);
  graph::fuse_elementwise(made);
  check(made);
  EXPECT_EQ(ended_chains(made), 0) << made;
  expect_equal(run(made, x), f(x));
}

// The gradient of a bias.
TEST(ChainReduction, InBackward) {
  const Tensor bias = randn({1030}).set_requires_grad();
  const auto step = [&](const Tensors& in) -> Tensors {
    return {grad({((in[0] + bias).tanh() * in[1]).sum()}, {bias})[0]};
  };
  const Tensors x = {randn({300, 1030}), randn({300, 1030})};
  graph::Graph made = graph::trace(step, x);
  graph::optimize(made);
  EXPECT_EQ(ended_chains(made), 1) << made;
  expect_equal(run(made, x), step(x));
}

}  // namespace
}  // namespace wick::testing
