// What a traced step reads of the program, and sets there, beside elements of tensors.
#include <gtest/gtest.h>

#include "wick/core/autograd.h"
#include "wick/core/graph/compile.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/loss.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/reduce.h"
#include "wick/nn/nn.h"
#include "wick/optim/optim.h"
#include "wick/tests/core/graph/expect_equal.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

using Step = std::function<Tensors(nn::Sequential& net, optim::SGD& optimizer, const Tensor& x)>;
using Before = std::function<void(int call, nn::Sequential& net)>;

void expect_same_state(const nn::Sequential& got, const nn::Sequential& want) {
  for (size_t p = 0; p < want.parameters().size(); ++p) {
    const Tensor a = got.parameters()[p], b = want.parameters()[p];
    EXPECT_TRUE(bit_equal(a, b)) << "parameter " << p;
    ASSERT_EQ(a.grad().defined(), b.grad().defined()) << "gradient " << p;
    EXPECT_TRUE(!b.grad().defined() || bit_equal(a.grad(), b.grad())) << "gradient " << p;
  }
}

// Runs a step eagerly and compiled; the parameters and gradients are the same after each call.
void expect_live(const Step& step, const Before& before, int64_t graphs) {
  manual_seed(1);
  nn::Sequential eager{nn::Linear(4, 5), nn::Tanh(), nn::Linear(5, 3)}, traced = nn::clone(eager);
  optim::SGD eager_sgd(eager.parameters(), {.lr = 0.1, .momentum = 0.9}),
      traced_sgd(traced.parameters(), {.lr = 0.1, .momentum = 0.9});
  graph::CompiledFunction compiled =
      graph::compile_step([&](const Tensors& in) { return step(traced, traced_sgd, in[0]); });
  for (int i = 0; i < 14; ++i) {
    SCOPED_TRACE(i);
    const Tensor x = randn({2, 4});
    before(i, eager);
    before(i, traced);
    expect_equal(compiled({x}), step(eager, eager_sgd, x));
    expect_same_state(traced, eager);
  }
  EXPECT_EQ(compiled.num_graphs(), graphs);
}

Tensors backward_alone(nn::Sequential& net, optim::SGD&, const Tensor& x) {
  const Tensor loss = net(x).square().sum();
  loss.backward();
  return {loss.detach()};
}

// One graph makes gradients, the other adds to them.
TEST(StepGuards, GradientsAddUpAcrossCalls) {
  const auto each_third = [](int call, nn::Sequential& net) {
    if (call % 3 == 0) net.zero_grad();
  };
  expect_live(backward_alone, each_third, 2);
  const auto zeros_each_third = [](int call, nn::Sequential& net) {
    if (call % 3 == 0) net.zero_grad(/*set_to_none=*/false);
  };
  expect_live(backward_alone, zeros_each_third, 1);
}

// The order of zero_grad() and what reads gradients.
TEST(StepGuards, GradientsAreDroppedWhereTheStepDropsThem) {
  const auto nothing = [](int, nn::Sequential&) {};
  const auto drops_last = [](nn::Sequential& net, optim::SGD& sgd, const Tensor& x) {
    const Tensors loss = backward_alone(net, sgd, x);
    sgd.step();
    sgd.zero_grad();
    return loss;
  };
  expect_live(drops_last, nothing, 1);
  const auto steps_first = [](nn::Sequential& net, optim::SGD& sgd, const Tensor& x) {
    sgd.step();
    sgd.zero_grad();
    return backward_alone(net, sgd, x);
  };
  expect_live(steps_first, nothing, 1);
  // The second layer alone has gradients of its own; those of the first come from elsewhere.
  const auto half = [](nn::Sequential& net, optim::SGD& sgd, const Tensor& x) -> Tensors {
    sgd.zero_grad();
    const Tensor loss = linear(x, net.parameters()[2].slice(1, 0, 4)).square().sum();
    loss.backward();
    sgd.step();
    return {loss.detach()};
  };
  const auto other_loss = [](int, nn::Sequential& net) { net(ones({1, 4})).sum().backward(); };
  expect_live(half, other_loss, 1);
}

// A step that looks at the gradients of the step before.
TEST(StepGuards, OldGradientsAreReadAnew) {
  const auto step = [](nn::Sequential& net, optim::SGD& sgd, const Tensor& x) -> Tensors {
    const Tensor old = net.parameters()[0].grad();
    const Tensor norm = old.defined() ? old.square().sum() : zeros({});
    sgd.zero_grad();
    const Tensors loss = backward_alone(net, sgd, x);
    sgd.step();
    return {loss[0], norm};
  };
  expect_live(
      step, [](int, nn::Sequential&) {}, 1);
  const auto forgets = [](int call, nn::Sequential& net) {
    if (call % 4 == 0) net.zero_grad();
  };
  expect_live(step, forgets, 2);
}

TEST(StepGuards, ParametersAreFrozenAndThawed) {
  const auto step = [](nn::Sequential& net, optim::SGD& sgd, const Tensor& x) {
    sgd.zero_grad();
    const Tensors loss = backward_alone(net, sgd, x);
    sgd.step();
    return loss;
  };
  const auto alternate = [](int call, nn::Sequential& net) {
    net.parameters()[0].set_requires_grad(call % 4 < 2);
  };
  expect_live(step, alternate, 2);
  const auto toggles = [&](nn::Sequential& net, optim::SGD& sgd, const Tensor& x) {
    net.parameters()[1].set_requires_grad(false);
    const Tensors loss = step(net, sgd, x);
    net.parameters()[1].set_requires_grad(true);
    return loss;
  };
  expect_live(
      toggles, [](int, nn::Sequential&) {}, 1);
  const Tensor weight = randn({4}).set_requires_grad();
  graph::CompiledFunction freezes([&](const Tensors& in) -> Tensors {
    const Tensor y = in[0] * weight;
    weight.set_requires_grad(false);
    return {y};
  });
  expect_error([&] { freezes({ones({4})}); },
               {"trace: the function changes whether a tensor of shape [4] requires a gradient"});
}

}  // namespace
}  // namespace wick::testing
