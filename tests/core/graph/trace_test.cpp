#include "wick/core/graph/trace.h"

#include <gtest/gtest.h>

#include "wick/core/graph/executor.h"
#include "wick/core/graph/host_call.h"
#include "wick/core/ops/arrange.h"
#include "wick/core/ops/attention.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/count.h"
#include "wick/core/ops/divide.h"
#include "wick/core/ops/einsum.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/ops/norm.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/random.h"
#include "wick/nn/nn.h"
#include "wick/tests/core/graph/expect_equal.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

TEST(Trace, IsReadable) {
  const Tensor weight = ones({3, 2});
  const graph::Graph made = graph::trace(
      [&](const Tensors& x) -> Tensors { return {(x[0].matmul(weight) + 0.5).softmax(1)}; },
      {zeros({4, 3})}, {{"weight", weight}});
  EXPECT_EQ(to_string(made),
            "graph(%0: float32[4, 3]) {\n"
            "  %1: float32[3, 2] = constant(weight)\n"
            "  %2: float32[4, 2] = matmul(%0, %1)\n"
            "  %3: float32[4, 2] = add_scalar(%2; other=0.5)\n"
            "  %4: float32[4, 2] = softmax(%3; axis=1)\n"
            "  return %4\n"
            "}\n");
  const std::string dot = to_dot(made);
  EXPECT_NE(dot.find("label=\"softmax\""), dot.npos) << dot;
  EXPECT_NE(dot.find("v1 -> n0"), dot.npos) << dot;
}

TEST(Trace, RunsOnOtherInputsAndSeesParametersChange) {
  const Tensor weight = ones({3, 2});
  const auto f = [&](const Tensors& x) -> Tensors { return {x[0].matmul(weight).tanh()}; };
  graph::Executor executor(graph::trace(f, {zeros({4, 3})}));
  const Tensor x = randn({4, 3});
  expect_equal(executor.run({x}), f({x}));
  weight.fill_(0.25);
  expect_equal(executor.run({x}), f({x}));
  const Tensor turned = randn({3, 4}).transpose(0, 1);
  expect_equal(executor.run({turned}), f({turned.contiguous()}));
}

TEST(Trace, TakesTheInputsItWasMadeFor) {
  const graph::Graph made =
      graph::trace([](const Tensors& x) -> Tensors { return {x[0] * 2}; }, {zeros({4, 3})});
  expect_error([&] { run(made, {}); }, {"graph: wrong number of inputs: got 0, expected 1"});
  expect_error(
      [&] {
        run(made, {zeros({3, 4})});
      },
      {"graph: input 0 is not as it was traced: got float32[3, 4]", "float32[4, 3]"});
  expect_error([&] { run(made, {zeros({4, 3}, kInt64)}); }, {"got int64[4, 3]"});
  expect_error([&] { run(made, {Tensor()}); }, {"got none"});
}

// What the host reads, a graph would not compute for other inputs.
TEST(Trace, RefusesHostReadsWithTheirPlace) {
  const auto refused = [](const graph::Function& f, const std::string& what) {
    expect_error(
        [&] {
          graph::trace(f, {ones({2, 2})});
        },
        {"trace: the host reads a traced tensor: got " + what});
  };
  refused([](const Tensors& x) -> Tensors { return {x[0] * x[0].sum().item()}; },
          "item of float32[] after the op sum");
  refused([](const Tensors& x) -> Tensors { return {x[0] * x[0].to_vector<float>()[0]}; },
          "data of float32[2, 2]");
  refused([](const Tensors& x) -> Tensors { return {x[0] * x[0].data<float>()[0]}; },
          "data of float32[2, 2] before the first op");
  refused(
      [](const Tensors& x) -> Tensors {
        return {x[0] * static_cast<const float*>(x[0].exp().raw_data())[0]};
      },
      "raw_data of float32[2, 2] after the op exp");
  refused(
      [](const Tensors& x) -> Tensors {
        return {x[0] * static_cast<const float*>(x[0].view_for_kernel().data)[0]};
      },
      "view_for_kernel of float32[2, 2] before the first op");
  refused([](const Tensors& x) -> Tensors { return {x[0].nonzero()}; }, "nonzero of float32[2, 2]");
  refused([](const Tensors& x) -> Tensors { return {x[0].masked_select(gt(x[0], 0))}; },
          "nonzero of bool[4]");

  struct Reads : nn::Module {
    Tensor forward(const Tensor& x) override { return x.relu() * x.sum().item(); }
  };
  nn::Sequential net{nn::Linear(2, 2), Reads()};
  expect_error(
      [&] {
        graph::trace([&](const Tensors& x) -> Tensors { return {net(x[0])}; }, {ones({2, 2})});
      },
      {"in module 1 after the op sum"});
  // Tensors that no input flows into may be read.
  const Tensor table = ones({2});
  EXPECT_NO_THROW(graph::trace(
      [&](const Tensors& x) -> Tensors {
        const float first = *static_cast<const float*>(table.raw_data());
        return {x[0] * table.to_vector<float>()[0] * first};
      },
      {ones({2, 2})}));
}

// Ops that look where elements are, or ask a library about them, read none.
TEST(Trace, TakesOpsThatAskForAddresses) {
  const auto f = [](const Tensors& x) -> Tensors {
    const Tensor y = x[0].exp();
    return {repeat(y, {1, 1, 1, 1}), einsum("abcd->abcd", {y}),
            scaled_dot_product_attention(y, y, y)};
  };
  const Dtype dtype = cuda_is_available() ? kFloat16 : kFloat32;
  const Tensor x = randn({1, 2, 16, 64}).to(dtype).to(cuda_is_available() ? kGpu : kCpu);
  expect_equal(run(graph::trace(f, {x}), {x}), f({x}));
}

TEST(Trace, RefusesWhatARunCannotRepeat) {
  Generator own(3);
  expect_error(
      [&] {
        graph::trace([&](const Tensors& x) -> Tensors { return {dropout(x[0], 0.5, true, &own)}; },
                     {ones({8})});
      },
      {"trace: dropout draws from a generator of its own"});
  expect_error(
      [&] {
        graph::trace(
            [](const Tensors& x) -> Tensors {
              return {graph::trace([](const Tensors& y) { return y; }, x).outputs.empty() ? x[0]
                                                                                          : x[0]};
            },
            {ones({8})});
      },
      {"trace: a trace within a trace"});
  EXPECT_FALSE(graph::is_tracing());
}

TEST(Trace, EachRunChecksItsIndices) {
  const graph::Graph made = graph::trace(
      [](const Tensors& x) -> Tensors {
        return {ones({3, 2}).index_select(0, x[0])};
      },
      {tensor<int64_t>({0, 2})});
  expect_error(
      [&] {
        run(made, {tensor<int64_t>({1, 3})});
      },
      {"index_select: index out of range: got 3, expected one in [0, 2]"});
}

// Outputs that an op makes only where gradients are recorded: GELU's argument.
TEST(Trace, KeepsOutputsForBackwardAsFarAsTheyAreRead) {
  const Tensor x = randn({4, 3});
  nn::Linear layer(3, 5);
  const auto forward = [&](const Tensors& in) -> Tensors {
    return {linear(in[0], layer.parameters()[0], layer.parameters()[1], Activation::kGeluTanh)};
  };
  const auto gradient = [&](const Tensors& in) -> Tensors {
    return grad({forward(in)[0].sum()}, layer.parameters());
  };
  expect_equal(run(graph::trace(forward, {x}), {x}), {forward({x})[0].detach()});
  expect_equal(run(graph::trace(gradient, {x}), {x}), gradient({x}));
}

TEST(Trace, DrawsRandomNumbersAnewInEachRun) {
  const auto f = [](const Tensors& x) -> Tensors {
    const Tensor leaf = x[0].detach().set_requires_grad();
    const Tensor y = dropout(leaf, 0.5) * rand({64}) + randn({64});
    return {y, grad({y.sum()}, {leaf})[0]};
  };
  const Tensor x = ones({64});
  graph::Executor executor(graph::trace(f, {x}));
  EXPECT_EQ(executor.graph().draws, 3);
  manual_seed(5);
  const Tensors first = executor.run({x}), second = executor.run({x});
  EXPECT_FALSE(bit_equal(first[0], second[0]));
  manual_seed(5);
  expect_equal(first, f({x}));
  expect_equal(second, f({x}));
}

TEST(Trace, GivesEachRunItsOwnMemory) {
  const auto f = [](const Tensors& x) -> Tensors {
    Tensor sums = zeros({3});
    sums += x[0];
    Tensor counted = tensor<float>({1, 2, 3});
    counted.add_(x[0]);
    Tensor part = empty({2, 3});
    part[0].copy_(x[0]);
    part[1].fill_(7);
    return {sums, counted, part};
  };
  const Tensor x = tensor<float>({1, 10, 100}), y = tensor<float>({2, 20, 200});
  graph::Executor executor(graph::trace(f, {zeros({3})}));
  const Tensors first = executor.run({x}), second = executor.run({y});
  expect_equal(first, f({x}));
  expect_equal(second, f({y}));
}

TEST(Trace, KeepsViewsViews) {
  const auto f = [](const Tensors& x) -> Tensors {
    const Tensor y = x[0] * 1;
    y.transpose(0, 1).narrow(0, 1, 1).add_(5);
    const Tensor z = y.detach().reshape({6});
    z.mul_(2);
    return {y, z.unsqueeze(0)};
  };
  const Tensor x = randn({2, 3});
  expect_equal(run(graph::trace(f, {zeros({2, 3})}), {x}), f({x}));
}

// What passes no door shows as a view of what did, wherever that lies in the run.
TEST(Trace, FindsViewsMadeElsewhere) {
  const auto f = [](const Tensors& x) -> Tensors {
    const auto aside = [](const Tensor& whole, int64_t start) {
      const graph::Untraced untraced;
      return whole.narrow(0, start, 2);
    };
    const Tensor y = x[0] * 3, z = y.narrow(0, 2, 3);
    return {aside(x[0], 1) * 2, aside(z, 1) + 1, aside(y, 0) + 1};
  };
  const Tensor x = arange(12, kFloat32).narrow(0, 4, 6);
  expect_equal(run(graph::trace(f, {zeros({6})}), {x}), f({x}));
}

// A host call that reads a gradient, but gives no leaf its own.
TEST(Trace, LeavesGradientsThatHostCallsRead) {
  const Tensor w = ones({3}).set_requires_grad();
  std::vector<double> seen;
  const auto f = [&](const Tensors& x) -> Tensors {
    w.set_grad({});
    (x[0] * w).sum().backward();
    const auto look = [&](const Tensors& given) {
      seen.push_back(given[0].sum().item());
      return Tensor();
    };
    graph::host_call("look", look, {}, {w.grad()});
    return {};
  };
  graph::Executor executor(graph::trace(f, {ones({3})}, {}, {.leaves_gradients = true}));
  for (const double value : {2.0, 5.0}) {
    executor.run({full({3}, value)});
    EXPECT_EQ(seen.back(), 3 * value);
    EXPECT_EQ(w.grad().sum().item(), 3 * value);
  }
}

TEST(Trace, UpdatesRunningStatisticsAndParameters) {
  const auto step = [](nn::Module& net, const Tensors& x) -> Tensors {
    const Tensor loss = net(x[0]).square().mean();
    net.zero_grad();
    loss.backward();
    const NoGrad no_grad;
    for (const Tensor& p : net.parameters()) p.sub_(p.grad(), 0.1);
    return {loss.detach()};
  };
  manual_seed(1);
  nn::Sequential eager{nn::Conv2d(2, 4, 3), nn::BatchNorm2d(4), nn::ReLU(), nn::Conv2d(4, 1, 1)};
  nn::Sequential traced = nn::clone(eager);
  const Tensor warm = randn({2, 2, 6, 6});
  step(eager, {warm});
  graph::Executor executor(
      graph::trace([&](const Tensors& x) { return step(traced, x); }, {warm}, traced.state_dict()));
  for (int i = 0; i < 3; ++i) {
    const Tensor x = randn({2, 2, 6, 6});
    expect_equal(executor.run({x}), step(eager, {x}));
  }
  const TensorMap want = eager.state_dict(), got = traced.state_dict();
  for (const auto& [name, tensor] : want) {
    EXPECT_TRUE(bit_equal(got.at(name), tensor)) << name;
  }
}

TEST(Trace, GoesThroughCheckpointedRegions) {
  manual_seed(2);
  nn::Sequential net{nn::Linear(4, 8), nn::Tanh(), nn::Dropout(0.3), nn::Linear(8, 2)};
  const auto f = [&](const Tensors& x) -> Tensors {
    net.zero_grad();
    net(x[0]).sum().backward();
    return {net.parameters()[0].grad(), net.parameters()[2].grad()};
  };
  net.set_checkpointed({{0, 3}});
  const Tensor x = randn({5, 4});
  graph::Executor executor(graph::trace(f, {x}));
  manual_seed(9);
  const Tensors got = executor.run({x});
  manual_seed(9);
  expect_equal(got, f({x}));
}

TEST(Trace, DividesIntegersByANumber) {
  const auto divide = [](const Tensors& x) -> Tensors {
    return {remainder(x[0], 4), floor_divide(x[0], 2), fmod(x[0], 3),
            div(x[0], 3, Rounding::kTrunc)};
  };
  const graph::Graph made = graph::trace(divide, {tensor<int64_t>({1, 2})});
  for (int64_t i = 0; i < 3; ++i) {
    expect_equal(run(made, {tensor<int64_t>({-7 - i, 9 + i})}),
                 {tensor<int64_t>({(-7 - i) & 3, (9 + i) & 3}),
                  tensor<int64_t>({(-7 - i) >> 1, (9 + i) >> 1}),
                  tensor<int64_t>({(-7 - i) % 3, (9 + i) % 3}),
                  tensor<int64_t>({(-7 - i) / 3, (9 + i) / 3})});
  }
  expect_error([] { remainder(tensor<int64_t>({1}), 0); },
               {"remainder: division of integers by 0"});
  expect_error([] { fmod(ones({1}, kUint8), 256); }, {"fmod: division of integers by 0"});
}

}  // namespace
}  // namespace wick::testing
