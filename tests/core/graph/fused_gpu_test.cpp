#include <gtest/gtest.h>

#include "wick/core/cuda_graph.h"
#include "wick/core/graph/compile.h"
#include "wick/core/graph/executor.h"
#include "wick/core/graph/passes.h"
#include "wick/core/graph/trace.h"
#include "wick/core/ops/activation.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/divide.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/special.h"
#include "wick/core/stream.h"
#include "wick/tests/core/graph/expect_equal.h"
#include "wick/tests/harness/devices.h"

// On a GPU a fused node is one kernel, compiled at run time, with the bits of its ops.
namespace wick::testing {
namespace {

class FusedOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  }
};

// Runs `f` as a graph whose ops are fused, and expects its bits.
void expect_fused(const graph::Function& f, const Tensors& x) {
  graph::Graph graph = graph::trace(f, x);
  EXPECT_GT(graph::fuse_elementwise(graph), 0);
  graph::Executor executor(graph);
  for (int i = 0; i < 2; ++i) expect_equal(executor.run(x), f(x));
  EXPECT_EQ(executor.num_fused(), 1) << executor.why_unfused();
}

// Products that are added, which a compiler would join across ops; several results; shapes that
// broadcast; sizes that are no multiples of a pack.
TEST_F(FusedOnGpu, RoundsAsItsOps) {
  for (const Dtype dtype : {kFloat64, kFloat32, kFloat16, kBFloat16, kInt64, kInt32}) {
    for (const int64_t columns : {1, 31, 1025}) {
      SCOPED_TRACE(concat(dtype, " ", columns));
      const auto f = [](const Tensors& x) -> Tensors {
        const Tensor a = x[0] * x[1] + x[2];
        const Tensor b = maximum(a, x[3]) - x[1] * x[1];
        return {b * a + x[1] * x[1], (b + 1).to(kFloat32).square() * 0.5 + 0.1};
      };
      Tensors x = {rand({9, columns}, kFloat32, kGpu) * 8, rand({columns}, kFloat32, kGpu) * 8,
                   rand({9, 1}, kFloat32, kGpu) * 8, rand({}, kFloat32, kGpu) * 8};
      for (Tensor& t : x) t = t.to(dtype);
      expect_fused(f, x);
    }
  }
}

TEST_F(FusedOnGpu, TakesAnyLayout) {
  const auto f = [](const Tensors& x) -> Tensors { return {(x[0] * 3 + x[1]).sigmoid() * x[2]}; };
  const Tensor wide = randn({33, 80}, kFloat32, kGpu);
  expect_fused(f, {randn({33, 40}, kFloat32, kGpu), wide.slice(1, 0, 80, 2),
                   randn({40, 33}, kFloat32, kGpu).transpose(0, 1)});
  expect_fused(f, {randn({5, 4, 6}, kFloat32, kGpu).permute({2, 0, 1}),
                   randn({1, 5, 1}, kFloat32, kGpu), randn({6, 1, 4}, kFloat32, kGpu)});
  expect_fused(
      f, {zeros({0, 7}, kFloat32, kGpu), ones({7}, kFloat32, kGpu), ones({1}, kFloat32, kGpu)});
}

// Inputs of several dtypes, and constants of the ops.
TEST_F(FusedOnGpu, SelectsByTruthValues) {
  const auto f = [](const Tensors& x) -> Tensors {
    const Tensor filled = masked_fill(x[0] * 2, x[1], 7);
    const Tensor chosen = where(logical_and(lt(x[0], x[2]), ne(x[0], 0)), filled, x[0]);
    return {masked_fill(filled.exp() + x[2], logical_not(x[1]), -0.5), filled, chosen,
            isfinite(chosen), chosen.to(kInt32)};
  };
  for (const Dtype dtype : {kFloat64, kFloat32, kBFloat16}) {
    SCOPED_TRACE(dtype);
    const Tensor x = randn({7, 31}, kFloat32, kGpu).to(dtype);
    expect_fused(f, {x, gt(x, 0.2), arange(31, kInt32, kGpu)});
  }
}

// Inputs at other addresses than when the node was planned: 16-bit results are then computed by
// other functions.
TEST_F(FusedOnGpu, FollowsTheAlignmentOfItsInputs) {
  const auto f = [](const Tensors& x) -> Tensors { return {(gelu(x[0]) + 1).neg()}; };
  const Tensor all = randn({1001}, kFloat32, kGpu).to(kBFloat16);
  const Tensor aligned = all.slice(0, 0, 1000), shifted = all.slice(0, 1, 1001);
  graph::Graph graph = graph::trace(f, {aligned});
  graph::fuse_elementwise(graph);
  graph::Executor executor(graph);
  for (const Tensor& x : {aligned, shifted, aligned}) {
    expect_equal(executor.run({x}), f({x}));
    EXPECT_EQ(executor.num_fused(), 1) << executor.why_unfused();
  }
}

// Also functions that few ops have, and attributes.
TEST_F(FusedOnGpu, ChainsOfManyFunctions) {
  const auto f = [](const Tensors& x) -> Tensors {
    const Tensor a = leaky_relu(x[0], 0.2).tanh() * 1.5 + x[1];
    const Tensor b = elu(a, 0.7) * softplus(x[1], 2) - clamp(a, -0.5, 0.5);
    const Tensor c = hypot(b, x[0]).log1p() + silu(b) + lgamma(x[1].abs() + 1);
    return {pow(c.abs() + 1, 0.3) / 3, remainder(b, x[1].abs() + 0.5)};
  };
  for (const Dtype dtype : {kFloat64, kFloat32, kFloat16}) {
    SCOPED_TRACE(dtype);
    expect_fused(f,
                 {randn({257}, kFloat32, kGpu).to(dtype), randn({257}, kFloat32, kGpu).to(dtype)});
  }
}

// A training step with its gradients.
TEST_F(FusedOnGpu, RunsInACompiledStep) {
  const Tensor weight = randn({64, 64}, kFloat32, kGpu).requires_grad_();
  const auto step = [&](const Tensors& x) -> Tensors {
    weight.set_grad({});
    const Tensor loss = (gelu(x[0].matmul(weight)) * x[0] - 1).square().mean();
    loss.backward();
    return {loss.detach(), weight.grad()};
  };
  graph::CompiledFunction compiled = graph::compile_step(step);
  const Tensor x = randn({32, 64}, kFloat32, kGpu);
  const Tensors want = step({x});
  for (int i = 0; i < 4; ++i) expect_equal(compiled({x}), want);
  EXPECT_EQ(compiled.why_unfused(), "");
}

TEST_F(FusedOnGpu, IsCapturedInACudaGraph) {
  const auto f = [](const Tensors& x) -> Tensors { return {(x[0] * 2 + x[1]).relu() - x[0]}; };
  const Tensor a = randn({1025}, kFloat32, kGpu), b = randn({1025}, kFloat32, kGpu);
  graph::Graph graph = graph::trace(f, {a, b});
  graph::fuse_elementwise(graph);
  graph::Executor executor(graph);  // compiles within the capture
  Tensors y;
  CudaGraph captured(kGpu, [&] { y = executor.run({a, b}); });
  EXPECT_EQ(executor.num_fused(), 1) << executor.why_unfused();
  EXPECT_EQ(captured.num_nodes(), 1);
  for (int i = 0; i < 3; ++i) {
    a.copy_(randn({1025}, kFloat32, kGpu));
    captured.replay();
    expect_equal(y, f({a, b}));
  }
}

}  // namespace
}  // namespace wick::testing
