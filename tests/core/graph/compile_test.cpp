#include "wick/core/graph/compile.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "wick/core/amp.h"
#include "wick/core/graph/detail/packed_weights.h"
#include "wick/core/graph/host_call.h"
#include "wick/core/graph/passes.h"
#include "wick/core/memory/stats.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/loss.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/random.h"
#include "wick/nn/compile.h"
#include "wick/nn/models/resnet.h"
#include "wick/nn/nn.h"
#include "wick/optim/optim.h"
#include "wick/tests/core/graph/expect_equal.h"
#include "wick/tests/core/graph/ops_of.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/temporary_folder.h"

namespace wick::testing {
namespace {

TEST(Compile, TracesEachKindOnce) {
  int calls = 0;
  graph::CompiledFunction f(
      [&](const Tensors& x) -> Tensors {
        ++calls;
        return {x[0].exp() * 2 - 1};
      },
      {.recompile_limit = 3});
  const auto g = [&](const Tensor& x) { expect_equal(f({x}), {x.exp() * 2 - 1}); };
  expect_error([&] { f.graph(); }, {"compile: no graph yet"});
  for (int i = 0; i < 3; ++i) g(randn({4, 5}));
  EXPECT_EQ(calls, 1);
  g(randn({5, 4}).transpose(0, 1));
  g(randn({4, 5}, kFloat64));
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(f.why_eager(), "");
  g(randn({7}));  // one kind too many
  g(randn({7}));
  EXPECT_EQ(calls, 5);
  EXPECT_EQ(f.num_graphs(), 3);
  EXPECT_NE(f.why_eager().find("compile: 3 kinds of calls were traced"), std::string::npos);
  g(randn({4, 5}));
  EXPECT_EQ(calls, 5);
}

// Exits with 0 if calls of two functions that run eagerly print the reason once.
[[noreturn]] void fall_back_twice() {
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) {
    graph::CompiledFunction f([](const Tensors& x) { return x; }, {.recompile_limit = 0});
    for (int k = 0; k < 2; ++k) f({ones({2, 3})});
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  const std::string begin = "wick: compile: 0 kinds of calls were traced";
  const bool is_once =
      text.find(begin) == 0 && text.rfind(begin) == 0 && text.find('\n') == text.size() - 1;
  std::exit(is_once ? 0 : 1);
}

TEST(Compile, SaysOnceWhyItRunsEagerly) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // in a process of its own
  EXPECT_EXIT(fall_back_twice(), ::testing::ExitedWithCode(0), "");
}

TEST(Compile, FollowsModesAutocastAndParameters) {
  manual_seed(1);
  nn::Sequential net{nn::Linear(6, 8), nn::Dropout(0.5), nn::Linear(8, 3)};
  graph::CompiledModule fast = graph::compile(net);
  const Tensor x = randn({4, 6});
  const auto same = [&](bool autocast) {
    const amp::Autocast scope(kCpu, kBFloat16, autocast);
    const NoGrad no_grad;
    manual_seed(3);
    const Tensor want = net(x);
    for (int i = 0; i < 3; ++i) {
      manual_seed(3);
      const Tensor got = fast(x);
      expect_equal({got}, {want});
      EXPECT_FALSE(got.requires_grad());
    }
  };
  same(false);
  net.eval();
  same(false);
  same(true);
  EXPECT_EQ(fast.function().num_graphs(), 3);
  {
    const NoGrad no_grad;
    for (const Tensor& p : net.parameters()) p.mul_(0.5);
  }
  same(false);
  same(true);
  EXPECT_EQ(fast.function().num_graphs(), 3);
  net.to(kFloat64);  // not what the graph was traced for
  EXPECT_THROW(fast(x), Error);
  EXPECT_EQ(fast(x.to(kFloat64)).dtype(), kFloat64);
}

TEST(Compile, ChangesItsInputsInEachCall) {
  graph::CompiledFunction f(
      [](const Tensors& x) -> Tensors {
        return {x[0].add_(1) * 2, x[1] + 1};
      },
      {});
  const Tensor x = zeros({3}), other = zeros({3});
  for (int i = 1; i <= 4; ++i) {
    expect_equal(f({x, other}), {full({3}, 2 * i), ones({3})});
    expect_equal({x, other}, {full({3}, i), zeros({3})});
  }
  graph::CompiledFunction again([](const Tensors& in) -> Tensors { return {in[0].add_(in[1])}; },
                                {});
  expect_error(
      [&] {
        again({x, x});
      },
      {"compile: inputs 0 and 1 share memory, and the function changes input 0"});
}

struct TwoLayers : nn::Module {
  nn::Handle<nn::Linear> a = add("a", nn::Linear(3, 4)), b = add("b", nn::Linear(4, 2));
  Tensor forward(const Tensor& x) override { return b(a(x).tanh()); }
};

TEST(Compile, FollowsReplacedParametersAndChildren) {
  manual_seed(1);
  const NoGrad no_grad;
  for (const bool freeze : {false, true}) {
    TwoLayers net;
    graph::CompiledModule fast = graph::compile(net, {.freeze = freeze});
    const Tensor x = randn({5, 3});
    const auto same = [&] {
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(allclose(fast(x), net(x), 1e-6, 1e-6));
    };
    same();
    net.a->weight = nn::Parameter(randn({4, 3}));
    same();
    net.replace("b", nn::Linear(4, 2));
    same();
  }
}

TEST(CompileStep, FollowsTheModesOfItsModule) {
  manual_seed(1);
  nn::Sequential net{nn::Linear(3, 4), nn::BatchNorm1d(4)};
  const Tensor x = randn({5, 3});
  const auto step = [&net](const Tensors& in) -> Tensors {
    const Tensor loss = net(in[0]).square().sum();
    return {loss.detach()};
  };
  graph::CompiledFunction compiled = graph::compile_step(net, step);
  for (const bool training : {true, false, true, false}) {
    net.train(training);
    for (int i = 0; i < 3; ++i) {
      nn::Sequential alike = nn::clone(net);
      expect_equal(compiled({x}), {alike(x).square().sum().detach()});
    }
  }
  EXPECT_EQ(compiled.num_graphs(), 2);
}

TEST(Compile, AResnetForInference) {
  manual_seed(1);
  nn::ResNet20 net;
  net.eval();
  const Tensor x = randn({2, 3, 32, 32});
  graph::CompiledModule fast = graph::compile(net);
  const NoGrad no_grad;
  for (int i = 0; i < 4; ++i) expect_equal({fast(x)}, {net(x)});
}

bool has_norm(const graph::Graph& graph) {
  return to_string(graph).find("batch_norm") != std::string::npos;
}

// Frozen graphs fold norms, and follow what changes parameters and statistics: an optimizer, ops,
// a state dict, a conversion.
TEST(Compile, FrozenGraphsFollowChanges) {
  manual_seed(1);
  nn::ResNet20 net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  const Tensor x = randn({2, 3, 32, 32});
  graph::CompiledModule fast = graph::compile(net, {.recompile_limit = 20, .freeze = true});
  int64_t graphs = 0;
  const auto same = [&](const Tensor& input) {
    const NoGrad no_grad;
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(allclose(fast(input), net(input), 1e-4, 1e-5));
    EXPECT_EQ(fast.function().num_graphs(), ++graphs);
    EXPECT_FALSE(has_norm(fast.function().graph())) << fast.function().graph();
  };
  for (int i = 0; i < 3; ++i) {
    net.train();
    optimizer.zero_grad();
    cross_entropy(net(x), zeros({2}, kInt64)).backward();
    optimizer.step();
    net.eval();
    same(x);
  }
  {
    const NoGrad no_grad;
    net.parameters()[0].mul_(0.5);
  }
  same(x);
  nn::ResNet20 other;
  net.load_state_dict(other.state_dict());
  same(x);
  net.to(kFloat64);
  same(x.to(kFloat64));
  expect_error([&] { graph::compile(net, {.mode = graph::CompileMode::kFuse, .freeze = true}); },
               {"compile: freeze needs the mode kFull"});
  expect_error([&] { graph::compile_step([](const Tensors& in) { return in; }, {.freeze = true}); },
               {"compile_step: a step changes its parameters"});
}

// Products of 33 to 192 rows read the weight of a linear layer as the graph has laid it out.
TEST(Compile, FrozenLinearsPackTheirWeights) {
  manual_seed(1);
  nn::Linear net(48, 70);
  net.eval();
  const NoGrad no_grad;
  for (const int64_t rows : {1, 32, 33, 192, 193}) {
    const Tensor x = randn({rows, 48});
    graph::CompiledModule fast = graph::compile(net, {.freeze = true});
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(fast(x).equal(net(x))) << rows;
    const graph::Graph& made = fast.function().graph();
    std::vector<graph::Node> nodes = made.nodes;
    const std::vector<Tensor> packed = graph::pack_weights(made, nodes);
    ASSERT_EQ(packed.size(), rows > 32 && rows <= 192 ? 1u : 0u) << rows;
    for (const Tensor& weight : packed) EXPECT_EQ(weight.strides(), (Shape{1, 70}));
  }
}

TEST(Compile, FrozenLinearWithoutColumns) {
  const Tensor weight = zeros({0, 8}), x = randn({40, 8});
  graph::Graph made =
      graph::trace([&](const Tensors& in) -> Tensors { return {linear(in[0], weight)}; }, {x});
  graph::optimize_for_inference(made);
  graph::Executor executor(made);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(executor.run({x})[0].shape(), (Shape{40, 0}));
}

// Autocast's casts of weights are folded first.
TEST(Compile, FrozenUnderAutocast) {
  manual_seed(1);
  nn::ResNet20 net;
  net.eval();
  const Tensor x = randn({2, 3, 32, 32});
  graph::CompiledModule fast = graph::compile(net, {.freeze = true});
  const amp::Autocast scope(kCpu, kBFloat16);
  const NoGrad no_grad;
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(allclose(fast(x), net(x), 0.1, 0.1));
  EXPECT_FALSE(has_norm(fast.function().graph())) << fast.function().graph();
}

struct Trained {
  nn::Sequential net;
  optim::AdamW optimizer;
  explicit Trained(nn::Sequential&& given)
      : net(std::move(given)), optimizer(net.parameters(), {.lr = 0.01}) {}

  Tensors step(const Tensors& batch) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(net(batch[0]), batch[1]);
    loss.backward();
    optimizer.step({.max_norm = 1.0});
    return {loss.detach()};
  }
};

nn::Sequential small_net() {
  manual_seed(1);
  return nn::Sequential{nn::Conv2d(2, 4, 3), nn::BatchNorm2d(4), nn::ReLU(),
                        nn::Dropout(0.2),    nn::Flatten(),      nn::Linear(64, 3)};
}

// 50 steps with a schedule, dropout and clipping: the bits of the same steps as they are.
TEST(CompileStep, DoesWhatTheStepDoes) {
  Trained eager(small_net()), compiled(small_net());
  graph::CompiledFunction step =
      graph::compile_step([&](const Tensors& batch) { return compiled.step(batch); });
  for (int i = 0; i < 50; ++i) {
    Generator data(static_cast<uint64_t>(i) + 1);
    const Tensors batch = {randn({4, 2, 6, 6}, kFloat32, kCpu, &data),
                           randint(0, 3, {4}, kInt64, kCpu, &data)};
    for (Trained* each : {&eager, &compiled}) each->optimizer.set_lr(0.01 / (i + 1));
    manual_seed(static_cast<uint64_t>(i));
    const Tensors want = eager.step(batch);
    manual_seed(static_cast<uint64_t>(i));
    expect_equal(step(batch), want);
  }
  EXPECT_EQ(step.num_graphs(), 1);
  const TensorMap want = eager.net.state_dict(), got = compiled.net.state_dict();
  for (const auto& [name, tensor] : want) EXPECT_TRUE(bit_equal(got.at(name), tensor)) << name;
  for (size_t i = 0; i < eager.net.parameters().size(); ++i) {
    EXPECT_TRUE(bit_equal(compiled.net.parameters()[i].grad(), eager.net.parameters()[i].grad()));
  }
  const TemporaryFolder folder;
  expect_error([&] { save(step.graph(), folder.path("step.json")); },
               {"graph: host_call: attribute work has no written form"});
}

// Steps whose gradients somebody else uses: left in the leaves, or added to.
TEST(CompileStep, LeavesGradients) {
  for (const bool sums_up : {false, true}) {
    SCOPED_TRACE(sums_up);
    nn::Sequential eager{nn::Linear(4, 3), nn::Tanh()}, traced = nn::clone(eager);
    const auto step_of = [sums_up](nn::Sequential& net) {
      return [&net, sums_up](const Tensors& x) -> Tensors {
        net.zero_grad(!sums_up);
        const Tensor loss = net(x[0]).square().sum();
        loss.backward();
        return {loss.detach()};
      };
    };
    graph::CompiledFunction step = graph::compile_step(step_of(traced));
    for (int i = 0; i < 5; ++i) {
      const Tensor x = randn({2, 4});
      expect_equal(step({x}), step_of(eager)({x}));
      for (size_t p = 0; p < 2; ++p) {
        EXPECT_TRUE(bit_equal(traced.parameters()[p].grad(), eager.parameters()[p].grad()));
      }
    }
    EXPECT_EQ(step.num_graphs(), 1);
    // A leaf takes its gradient over as it does eagerly.
    EXPECT_EQ(ops_of(step.graph()).find("copy_"), std::string::npos) << ops_of(step.graph());
  }
}

// Outputs that are cheap to recompute are freed after forward, as in an eager step.
TEST(CompileStep, RecomputesBatchNorms) {
  const Tensor x = randn({8, 3, 16, 16});
  const auto peak_of = [&](bool recomputes) {
    set_recompute(recomputes);
    manual_seed(1);
    nn::Sequential eager{nn::Conv2d(3, 32, 3), nn::BatchNorm2d(32), nn::Conv2d(32, 16, 3),
                         nn::BatchNorm2d(16), nn::Conv2d(16, 4, 3)};
    nn::Sequential traced = nn::clone(eager);
    const auto step_of = [](nn::Sequential& net) {
      return [&net](const Tensors& in) -> Tensors {
        net.zero_grad();
        const Tensor loss = net(in[0]).square().mean();
        loss.backward();
        return {loss.detach()};
      };
    };
    graph::CompiledFunction step = graph::compile_step(step_of(traced));
    for (int i = 0; i < 5; ++i) expect_equal(step({x}), step_of(eager)({x}));
    for (size_t p = 0; p < eager.parameters().size(); ++p) {
      EXPECT_TRUE(bit_equal(traced.parameters()[p].grad(), eager.parameters()[p].grad())) << p;
    }
    const bool recomputed = ops_of(step.graph()).find("batch_norm_recompute") != std::string::npos;
    EXPECT_EQ(recomputed, recomputes) << ops_of(step.graph());
    reset_peak_memory_stats(kCpu);
    step({x});
    set_recompute(true);
    return max_memory_allocated(kCpu);
  };
  EXPECT_LT(peak_of(true), peak_of(false));
}

// Gradients of the step before are freed first, as zero_grad() does.
TEST(CompileStep, HoldsGradientsOnce) {
  const size_t bytes = 1024 * 1024 * sizeof(float), before = memory_allocated(kCpu);
  nn::Linear layer(1024, 1024);
  graph::CompiledFunction step = graph::compile_step([&](const Tensors& in) -> Tensors {
    layer.zero_grad();
    const Tensor loss = layer(in[0]).square().mean();
    loss.backward();
    return {loss.detach()};
  });
  const Tensor x = randn({2, 1024});
  for (int i = 0; i < 4; ++i) step({x});
  Tensor held = layer.parameters()[0].grad();
  const Tensor copy = held.clone();
  step({x * 2});
  EXPECT_FALSE(layer.parameters()[0].grad().is_same(held));
  EXPECT_TRUE(bit_equal(held, copy));
  held = Tensor();
  reset_peak_memory_stats(kCpu);
  step({x});
  EXPECT_LT(max_memory_allocated(kCpu) - before, bytes * 7 / 2);  // weight, gradient, `copy`
}

TEST(CompileStep, RecomputesResidualBlocksAndAllocatesNothing) {
  const Tensor x = randn({8, 3, 16, 16});
  const auto peak_of = [&](bool recomputes) {
    set_recompute(recomputes);
    manual_seed(1);
    nn::ResNet eager({.classes = 10, .width = 8, .small_input = true}), traced = nn::clone(eager);
    const auto step_of = [](nn::ResNet& net, optim::SGD& sgd) {
      return [&net, &sgd](const Tensors& in) -> Tensors {
        sgd.zero_grad();
        const Tensor loss = net(in[0]).square().mean();
        loss.backward();
        sgd.step();
        return {loss.detach()};
      };
    };
    optim::SGD eager_sgd(eager.parameters(), {.lr = 0.1, .momentum = 0.9}),
        traced_sgd(traced.parameters(), {.lr = 0.1, .momentum = 0.9});
    graph::CompiledFunction step = graph::compile_step(step_of(traced, traced_sgd));
    for (int i = 0; i < 6; ++i) expect_equal(step({x}), step_of(eager, eager_sgd)({x}));
    for (size_t p = 0; p < eager.parameters().size(); ++p) {
      EXPECT_TRUE(bit_equal(traced.parameters()[p], eager.parameters()[p])) << p;
    }
    const int64_t allocations = memory_stats(kCpu).all.allocation.allocated;
    reset_peak_memory_stats(kCpu);
    step({x});
    EXPECT_EQ(memory_stats(kCpu).all.allocation.allocated, allocations);
    set_recompute(true);
    return max_memory_allocated(kCpu);
  };
  EXPECT_LT(peak_of(true), peak_of(false));
}

TEST(HostCall, RunsInItsPlaceWithWhatItReads) {
  std::vector<float> seen;
  const auto f = [&](const Tensors& x) -> Tensors {
    const Tensor y = x[0] * 2;
    const Tensor counted =
        graph::host_call("look",
                         [&seen](const Tensors& given) {
                           seen.push_back(given[0].item<float>());
                           given[0].add_(1);
                           return tensor<float>({static_cast<float>(seen.size())});
                         },
                         {}, {y});
    return {y * 10, counted};
  };
  graph::Graph made = graph::trace(f, {tensor<float>({1})});
  graph::optimize(made);
  expect_equal(run(made, {tensor<float>({3})}), {tensor<float>({70}), tensor<float>({2})});
  expect_equal(run(made, {tensor<float>({4})}), {tensor<float>({90}), tensor<float>({3})});
  EXPECT_EQ(seen, (std::vector<float>{2, 6, 8}));
}

}  // namespace
}  // namespace wick::testing
