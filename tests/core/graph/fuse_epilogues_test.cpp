#include <gtest/gtest.h>

#include "wick/core/graph/executor.h"
#include "wick/core/graph/passes.h"
#include "wick/core/graph/trace.h"
#include "wick/core/ops/activation.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/conv.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/ops/random.h"
#include "wick/core/stream.h"
#include "wick/nn/models/registry.h"
#include "wick/nn/nn.h"
#include "wick/tests/core/graph/expect_equal.h"
#include "wick/tests/core/graph/ops_of.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/temporary_folder.h"

namespace wick::testing {
namespace {

Tensor conv(const Tensor& x, const Tensor& weight, const Tensor& bias = {}) {
  return conv2d(x, weight, bias, {1, 1}, {1, 1});
}

TEST(FuseEpilogues, JoinsWhatFollowsConvolutions) {
  const Tensor weight = randn({16, 16, 3, 3}), bias = randn({16});
  const auto f = [&](const Tensors& x) -> Tensors {
    const Tensor a = conv(x[0], weight, bias).relu();
    const Tensor b = (a + conv(a, weight)).relu();
    const Tensor c = conv(b, weight, bias) + b;
    return {(conv(c, weight) + conv(c, weight, bias)).relu().exp()};
  };
  const Tensor x = randn({2, 16, 9, 7}).contiguous(MemoryFormat::kChannelsLast);
  graph::Graph graph = graph::trace(f, {x});
  EXPECT_EQ(ops_of(graph), "conv2d relu conv2d add relu conv2d add conv2d conv2d add relu exp");
  EXPECT_EQ(graph::fuse_epilogues(graph), 6);
  EXPECT_EQ(ops_of(graph), "conv2d_fused conv2d_fused conv2d_fused conv2d conv2d_fused exp");
  check(graph);
  graph::Executor executor(graph);
  for (int i = 0; i < 4; ++i) expect_equal(executor.run({x}), f({x}));
  EXPECT_EQ(graph::fuse_epilogues(graph), 0);
}

// Sums that something else reads, other layouts, shapes and dtypes, factors, and changes in place.
TEST(FuseEpilogues, LeavesTheRest) {
  const Tensor weight = randn({16, 16, 3, 3});
  const Tensor x = randn({1, 16, 6, 5}).contiguous(MemoryFormat::kChannelsLast);
  const auto stays = [&](const char* what, const graph::Function& f, const Tensor& input) {
    SCOPED_TRACE(what);
    graph::Graph graph = graph::trace(f, {input});
    const std::string before = ops_of(graph);
    EXPECT_EQ(graph::fuse_epilogues(graph), 0);
    EXPECT_EQ(ops_of(graph), before);
    expect_equal(run(graph, {input}), f({input}));
  };
  stays(
      "read twice",
      [&](const Tensors& in) -> Tensors {
        const Tensor y = conv(in[0], weight);
        return {y.relu(), y};
      },
      x);
  stays(
      "a residual laid out otherwise",
      [&](const Tensors& in) -> Tensors {
        return {conv(in[0], weight) + in[0].contiguous(MemoryFormat::kContiguous)};
      },
      x);
  stays(
      "a residual that broadcasts",
      [&](const Tensors& in) -> Tensors {
        return {conv(in[0], weight) + in[0].mean({2, 3}, true)};
      },
      x);
  stays(
      "a factor",
      [&](const Tensors& in) -> Tensors { return {add(conv(in[0], weight), in[0], 2)}; }, x);
  stays(
      "twice itself",
      [&](const Tensors& in) -> Tensors {
        const Tensor y = conv(in[0], weight);
        return {y + y};
      },
      x);
  stays(
      "an input that changes in between",
      [&](const Tensors& in) -> Tensors {
        const Tensor scratch = in[0] * 1;
        const Tensor y = conv(scratch, weight);
        scratch.add_(1);
        return {y.relu(), scratch};
      },
      x);
  const Tensor lower = weight.to(kBFloat16);
  stays(
      "bfloat16", [&](const Tensors& in) -> Tensors { return {conv(in[0], lower).relu()}; },
      x.to(kBFloat16));
}

TEST(FuseEpilogues, JoinsLinearLayersAndActivations) {
  for (const Dtype dtype : {kFloat32, kBFloat16, kFloat16}) {
    const Tensor weight = randn({33, 20}).to(dtype), last = randn({5, 33}).to(dtype);
    const Tensor bias = randn({33}).to(dtype);
    const auto f = [&](const Tensors& x) -> Tensors {
      const Tensor a = linear(x[0], weight, bias).relu();
      const Tensor b = gelu(linear(x[0], weight, bias), GeluApproximation::kTanh);
      const Tensor c = linear(x[0], weight).relu();
      return {linear(a + b + c, last).sigmoid()};
    };
    const bool joins_gelu = dtype == kFloat32;  // which is of rounded results in other dtypes
    for (const int64_t rows : {1, 7, 64}) {
      const Tensor x = randn({rows, 20}).to(dtype);
      graph::Graph graph = graph::trace(f, {x});
      EXPECT_EQ(graph::fuse_epilogues(graph), joins_gelu ? 3 : 2);
      EXPECT_EQ(ops_of(graph),
                concat("linear_relu ", joins_gelu ? "linear_gelu" : "linear gelu_tanh",
                       " linear_relu add add linear sigmoid"));
      expect_equal(run(graph, {x}), f({x}));
    }
  }
}

TEST(FuseEpilogues, JoinsFactorsOfProducts) {
  const auto f = [&](const Tensors& x) -> Tensors {
    const Tensor scores = matmul(x[0], x[0].transpose(-2, -1)) * 0.3;
    const Tensor z = matmul(scores, x[1]) / 4;  // the same as times 0.25
    return {z.exp(), matmul(scores, x[1]) / 5, matmul(scores, x[0]) * 1e-60};
  };
  for (const int64_t batch : {1, 6}) {
    const Tensors x = {randn({batch, 17, 33}), randn({batch, 17, 20})};
    graph::Graph graph = graph::trace(f, x);
    EXPECT_EQ(graph::fuse_epilogues(graph), 2);
    EXPECT_EQ(ops_of(graph),
              "permute matmul_scaled matmul_scaled exp matmul div_scalar matmul mul_scalar");
    graph::Executor executor(graph);
    for (int i = 0; i < 3; ++i) expect_equal(executor.run(x), f(x));
    graph::Graph lower =
        graph::trace([&](const Tensors& in) -> Tensors { return {matmul(in[0], in[1].t()) * 0.3}; },
                     {randn({4, 5}).to(kBFloat16), randn({3, 5}).to(kBFloat16)});
    EXPECT_EQ(graph::fuse_epilogues(lower), 0);  // both results are rounded
  }
}

// cuBLASLt may choose another algorithm for a product with something behind it.
TEST(FuseEpilogues, JoinsOnAGpuWhereResultsMayBeRounded) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  for (const Dtype dtype : {kFloat64, kFloat32, kBFloat16, kFloat16}) {
    SCOPED_TRACE(dtype);
    const auto on_gpu = [&](const Shape& shape) { return randn(shape).to(dtype).to(kGpu); };
    const Tensor w[] = {on_gpu({24, 20}), on_gpu({24, 20}), on_gpu({24, 20})};
    const Tensor bias = on_gpu({24}), one = on_gpu({1});
    const Tensor row = on_gpu({1, 20}), kernel = on_gpu({2, 2, 3, 3});
    const auto f = [&](const Tensors& x) -> Tensors {
      const Tensor a = linear(x[0], w[0], bias).relu();
      const Tensor b = gelu(linear(x[0], w[1], bias), GeluApproximation::kTanh);
      const Tensor c = linear(x[0], w[2], bias) + x[1];
      return {a.square(),           b.square(),
              c.square(),           linear(x[0], row, one) + x[1].select(1, 0).unsqueeze(1),
              matmul(c, c.t()) / 5, conv(x[2], kernel).relu()};
    };
    const Tensors x = {on_gpu({7, 20}), on_gpu({7, 24}), on_gpu({1, 2, 5, 5})};
    graph::Graph graph = graph::trace(f, x);
    EXPECT_EQ(graph::fuse_epilogues(graph), 0);
    graph::Graph fused = graph;
    graph::optimize_for_inference(fused);
    const std::string ops = ops_of(fused);
    for (const char* op : {"linear_relu", "linear_gelu", "linear_sum", "matmul_scaled"}) {
      EXPECT_NE(ops.find(op), ops.npos) << ops;
    }
    EXPECT_EQ(ops.find("conv2d_fused"), ops.npos) << ops;
    graph::Executor executor(fused);
    const Tensors want = f(x);
    const double most = dtype == kBFloat16 ? 0.05 : dtype == kFloat16 ? 0.01 : 1e-5;
    for (int i = 0; i < 2; ++i) {
      const Tensors got = executor.run(x);
      for (size_t k = 0; k < want.size(); ++k) {
        EXPECT_TRUE(allclose(got[k], want[k], most, most)) << k;
      }
    }
  }
}

// What changes a weight later, as an optimizer does, is no reason to stay apart; what changes it
// between the two is one.
TEST(FuseEpilogues, MindsWhenWeightsChange) {
  const Tensor weight = randn({6, 20});
  const auto f = [&](const Tensors& x) -> Tensors {
    const NoGrad no_grad;
    const Tensor a = linear(x[0], weight).relu();
    weight.add_(1);
    const Tensor between = linear(x[0], weight);
    weight.add_(-1);
    return {a, between.relu()};
  };
  const Tensor x = randn({7, 20});
  graph::Graph graph = graph::trace(f, {x});
  EXPECT_EQ(graph::fuse_epilogues(graph), 1);
  EXPECT_EQ(ops_of(graph), "linear_relu add_scalar_ linear add_scalar_ relu");
  expect_equal(run(graph, {x}), f({x}));
}

// ReLU's gradient needs its result alone, GELU's what is between.
TEST(FuseEpilogues, KeepsWhatGradientsNeed) {
  const Tensor weight = randn({16, 16, 3, 3}).set_requires_grad();
  const auto f = [&](const Tensors& x) -> Tensors {
    weight.set_grad({});
    const Tensor y = conv(x[0], weight).relu();
    const Tensor a = conv(y, weight).relu(), b = gelu(conv(y, weight));
    const Tensor loss = (a + b).sum();
    loss.backward();
    return {loss, weight.grad()};
  };
  const Tensor x = randn({2, 16, 5, 5}).contiguous(MemoryFormat::kChannelsLast);
  graph::Graph graph = graph::trace(f, {x});
  EXPECT_EQ(graph::fuse_epilogues(graph), 2);
  EXPECT_EQ(ops_of(graph).find("conv2d_fused conv2d_fused conv2d gelu"), 0u) << ops_of(graph);
  graph::Executor executor(graph);
  for (int i = 0; i < 3; ++i) expect_equal(executor.run({x}), f({x}));
}

// An executor packs weights for itself: its graph has them as they were, also in a file.
TEST(FuseEpilogues, GraphsKeepTheirWeights) {
  const Tensor weight = randn({32, 16, 3, 3});
  const auto f = [&](const Tensors& x) -> Tensors { return {conv(x[0], weight).relu()}; };
  const Tensor x = randn({1, 16, 40, 40}).contiguous(MemoryFormat::kChannelsLast);
  graph::Graph graph = graph::trace(f, {x});
  graph::optimize_for_inference(graph);
  const std::string before = to_string(graph);
  graph::Executor executor(graph);
  for (int i = 0; i < 3; ++i) expect_equal(executor.run({x}), f({x}));
  EXPECT_EQ(to_string(executor.graph()), before);
  const TemporaryFolder folder;
  save(executor.graph(), folder.path("net.graph.json"));
  expect_equal(run(graph::load(folder.path("net.graph.json")), {x}), f({x}));
}

// As models are frozen: what is folded before the pass is the reference, so that bits are equal.
TEST(FuseEpilogues, KeepsTheBitsOfModels) {
  struct Model {
    const char* name;
    std::shared_ptr<nn::Module> net;
    Shape shape;
  };
  const auto resnet = [](const nn::ResNetOptions& options) {
    return std::make_shared<nn::ResNet>(options);
  };
  const std::vector<Model> models = {
      {"resnet18", resnet({.classes = 10}), {2, 3, 72, 72}},
      {"of odd images", resnet({.classes = 10, .small_input = true}), {1, 3, 33, 31}},
      {"bottlenecks", resnet({.blocks = {1, 1, 1, 1}, .bottleneck = true}), {1, 3, 64, 64}},
      {"resnet20", nn::find_model("resnet20").make({3, 32, 32}, 10), {7, 3, 32, 32}},
      {"mlp",
       std::make_shared<nn::Sequential>(nn::Linear(40, 70), nn::ReLU(), nn::Linear(70, 5)),
       {3, 40}}};
  for (const Model& model : models) {
    SCOPED_TRACE(model.name);
    const Tensor x = randn(model.shape);
    const auto call = [&](const Tensor& in) { return model.net->forward(in); };
    {
      const NoGrad no_grad;
      for (int i = 0; i < 2; ++i) call(x);  // statistics
    }
    model.net->eval();
    const auto f = [&](const Tensors& in) -> Tensors { return {call(in[0])}; };
    const Tensor want = call(x).detach();
    graph::Graph folded = graph::trace(f, {x});
    graph::freeze_constants(folded);
    graph::fold_constants(folded);
    graph::fold_batch_norms(folded);
    graph::Graph fused = folded;
    graph::optimize(fused);
    EXPECT_LT(fused.nodes.size(), folded.nodes.size());
    // The reference has constants that are not private, whose weights are not packed.
    for (graph::Constant& constant : folded.constants) constant.is_private = false;
    graph::Executor plain(folded), fast(fused);
    for (int i = 0; i < 4; ++i) expect_equal(fast.run({x}), plain.run({x}));
    EXPECT_TRUE(allclose(fast.run({x})[0], want, 1e-3, 1e-3));
  }
}

}  // namespace
}  // namespace wick::testing
