#include "wick/core/autograd.h"

#include <gtest/gtest.h>

#include "wick/core/apply.h"
#include "wick/core/memory/stats.h"
#include "wick/core/ops/elementwise.h"
#include "wick/tests/core/leaf.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/sanitized.h"

namespace wick {
namespace {

using wick::testing::error_of;

TEST(Backward, FillsTheGradientsOfLeaves) {
  const Tensor x = leaf({1, 2, 3});
  const Tensor w = leaf({4, 5, 6});
  EXPECT_FALSE(x.grad().defined());
  (x * w).sum().backward();
  EXPECT_EQ(values(x.grad()), (List{4, 5, 6}));
  EXPECT_EQ(values(w.grad()), (List{1, 2, 3}));
  EXPECT_FALSE(x.grad().requires_grad());
}

TEST(Backward, Accumulates) {
  const Tensor x = leaf({1, 2});
  (x * 2).sum().backward();
  const Tensor first = x.grad();
  (x * 3).sum().backward();
  EXPECT_EQ(values(x.grad()), (List{5, 5}));
  EXPECT_TRUE(x.grad().is_same(first));
  x.set_grad({});
  EXPECT_FALSE(x.grad().defined());
}

TEST(Backward, TakesTheGradientInTheLeafsOwnLayout) {
  const Tensor x = ones({2, 3}, kFloat64).t().detach().set_requires_grad();
  const Tensor given = arange(0, 6, 1, kFloat64).reshape({3, 2});
  x.backward(given);
  EXPECT_EQ(x.grad().strides(), x.strides());
  EXPECT_EQ(values(x.grad()), (List{0, 1, 2, 3, 4, 5}));
  x.grad().zero_();
  EXPECT_EQ(values(given)[5], 5) << "the caller's tensor was taken over";
}

TEST(Backward, WeighsWithAGivenGradient) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * x;
  EXPECT_NE(error_of([&] { y.backward(); }).find("needs a gradient to weight it: got shape [2]"),
            std::string::npos);
  EXPECT_THROW(y.backward(tensor<double>({1, 2, 3})), Error);
  EXPECT_THROW(y.backward(tensor<float>({1, 2})), Error);
  y.backward(tensor<double>({10, 100}));
  EXPECT_EQ(values(x.grad()), (List{20, 400}));
}

TEST(Backward, StartsFromSeveralOutputs) {
  const Tensor x = leaf({1, 2});
  const Tensor shared = x * x;
  backward({shared.sum(), (shared * 10).sum()});
  EXPECT_EQ(values(x.grad()), (List{22, 44}));
  EXPECT_THROW(backward({x.sum(), x.sum()}, {Tensor()}), Error);
}

TEST(Backward, AddsOverDiamonds) {
  const Tensor x = leaf({3});
  const Tensor a = x * 2;
  const Tensor b = a * a;
  const Tensor c = a + b + a * x + b;
  c.backward();
  EXPECT_EQ(values(x.grad()), (List{2 + 2 * 8 * 3 + 4 * 3}));
  Tensor y = x;  // 2^40 paths
  for (int i = 0; i < 40; ++i) y = y + y;
  x.set_grad({});
  y.backward();
  EXPECT_EQ(values(x.grad()), (List{1099511627776}));
}

TEST(Backward, FreesTheGraphUnlessToldNotTo) {
  const Tensor x = leaf({3});
  const Tensor y = x * x;
  y.backward({}, true);
  y.backward();
  EXPECT_EQ(values(x.grad()), (List{12}));
  const std::string error = error_of([&] { y.backward(); });
  EXPECT_NE(error.find("the graph was freed by an earlier backward at mul"), std::string::npos)
      << error;
}

TEST(Backward, NeedsAGraph) {
  EXPECT_NE(error_of([] { tensor<double>({1}).backward(); }).find("requires no gradient"),
            std::string::npos);
  const Tensor x = leaf({1});
  EXPECT_THROW((x * 2).detach().backward(), Error);
}

TEST(Backward, DifferentiatesGradients) {
  const Tensor x = leaf({2});
  const Tensor first = grad({x * x * x}, {x}, {}, false, true)[0];
  EXPECT_EQ(values(first), (List{12}));
  const Tensor second = grad({first}, {x}, {}, false, true)[0];
  EXPECT_EQ(values(second), (List{12}));
  EXPECT_EQ(values(grad({second}, {x})[0]), (List{6}));
  EXPECT_FALSE(x.grad().defined());
  (x * x).backward({}, false, true);
  EXPECT_TRUE(x.grad().requires_grad());
  x.set_grad({});
}

TEST(Backward, GivesLeavesGradientsOfTheirOwnWithCreateGraph) {
  const Tensor a = leaf({1, 2}), b = leaf({3, 4}), c = leaf({5, 6});
  (c * (a + b)).sum().backward({}, false, true);
  EXPECT_EQ(values(grad({a.grad().sum()}, {c}, {}, true)[0]), (List{1, 1}));
  for (const Tensor& x : {a, b, c}) x.set_grad({});
  (a + b).sum().backward({}, false, true);
  a.sum().backward();
  EXPECT_EQ(values(a.grad()), (List{2, 2}));
  EXPECT_EQ(values(b.grad()), (List{1, 1}));
  b.grad().detach().zero_();  // it came as one element, expanded
  b.sum().backward();
  EXPECT_EQ(values(b.grad()), (List{1, 1}));
}

TEST(Backward, SurvivesDeepGraphs) {
  constexpr int kDepth = testing::kSanitized ? 200'000 : 1'000'000;
  const Tensor x = leaf({1});
  {
    Tensor y = x;
    for (int i = 0; i < kDepth; ++i) y = y * x;  // keeps both inputs
    y.backward();
  }
  EXPECT_EQ(values(x.grad()), (List{kDepth + 1.0}));
  Tensor y = x;
  for (int i = 0; i < kDepth; ++i) y = y + 1;
  y = Tensor();  // never walked: destruction alone
}

TEST(Backward, GivesBackAllMemory) {
  const int64_t before = memory_allocated(kCpu);
  {
    const Tensor x = ones({1000}, kFloat64).set_requires_grad();
    for (int i = 0; i < 3; ++i) {
      const Tensor y = (x * x).exp() * x;
      y.sum().backward({}, i == 1, i == 2);
    }
    const Tensor unused = x.exp().exp();
    x.set_grad({});  // with create_graph it refers back to x
  }
  EXPECT_EQ(memory_allocated(kCpu), before);
}

TEST(Grad, LeavesTheLeavesAlone) {
  const Tensor x = leaf({2, 3});
  const Tensor w = leaf({5, 7});
  const std::vector<Tensor> found = grad({(x * w).sum()}, {w, x});
  EXPECT_EQ(values(found[0]), (List{2, 3}));
  EXPECT_EQ(values(found[1]), (List{5, 7}));
  EXPECT_FALSE(x.grad().defined());
  EXPECT_FALSE(w.grad().defined());
}

TEST(Grad, TakesIntermediateTensors) {
  const Tensor x = leaf({2});
  const Tensor y = x * 3;
  const Tensor z = y * y;
  const std::vector<Tensor> found = grad({z}, {y, x, z}, {}, true);
  EXPECT_EQ(values(found[0]), (List{12}));
  EXPECT_EQ(values(found[1]), (List{36}));
  EXPECT_EQ(values(found[2]), (List{1}));
}

TEST(Grad, StopsAtTheInputs) {
  const Tensor x = leaf({2});
  int calls = 0;
  const Tensor y = x * 3;
  y.register_hook([&](const Tensor&) { return ++calls, Tensor(); });
  const Tensor z = y * 5;
  EXPECT_EQ(values(grad({z * z}, {z})[0]), (List{60}));
  EXPECT_EQ(calls, 0) << "backward went on below the input";
}

TEST(Grad, SaysWhichInputIsUnused) {
  const Tensor x = leaf({2});
  const Tensor other = leaf({2});
  EXPECT_NE(error_of([&] {
              grad({x * 2}, {x, other});
            }).find("do not depend on input 1"),
            std::string::npos);
  const std::vector<Tensor> found = grad({x * 2}, {other, x}, {}, false, false, true);
  EXPECT_FALSE(found[0].defined());
  EXPECT_EQ(values(found[1]), (List{2}));
  EXPECT_NE(error_of([&] { grad({x * 2}, {tensor<double>({1})}); }).find("requires no gradient"),
            std::string::npos);
}

TEST(Hooks, SeeAndReplaceGradients) {
  const Tensor x = leaf({2});
  const Tensor y = x * 3;
  List seen;
  y.register_hook([&](const Tensor& g) {
    seen = values(g);
    return Tensor();
  });
  y.register_hook([](const Tensor& g) { return g * 10; });
  x.register_hook([](const Tensor& g) { return g + 1; });
  (y * 2).backward();
  EXPECT_EQ(seen, (List{2}));
  EXPECT_EQ(values(x.grad()), (List{61}));
  EXPECT_THROW(tensor<double>({1}).register_hook([](const Tensor& g) { return g; }), Error);
}

TEST(Hooks, OfOutputsThatDoNotExistAreRefused) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x.exp();
  const auto same = [](const Tensor& g) { return g; };
  testing::expect_error([&] { y.grad_fn()->add_hook(1, same); },
                        {"add_hook: exp", " has no such output: got 1, expected 0 to 0"});
  testing::expect_error([&] { x.split(1)[0].grad_fn()->add_hook(-1, same); },
                        {"add_hook: split", " has no such output: got -1, expected 0 to 1"});
  y.grad_fn()->add_hook(0, [](const Tensor& g) { return g * 0; });
  y.sum().backward();
  EXPECT_EQ(values(x.grad()), (List{0, 0}));
}

TEST(Hooks, RunOnceOnTheWholeGradient) {
  const Tensor x = leaf({2});
  const Tensor y = x * 1;
  int calls = 0;
  y.register_hook([&](const Tensor& g) { return ++calls, g; });
  (y * 2 + y * 3 + y).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(values(x.grad()), (List{6}));
}

TEST(Hooks, FollowAccumulation) {
  const Tensor x = leaf({2});
  std::vector<List> seen;
  x.register_post_accumulate_grad_hook([&](const Tensor& g) { seen.push_back(values(g)); });
  (x * 2 + x).backward();
  (x * 4).backward();
  EXPECT_EQ(seen, (std::vector<List>{{3}, {7}}));
  EXPECT_THROW((x * 2).register_post_accumulate_grad_hook([](const Tensor&) {}), Error);
}

TEST(Hooks, MayAddHooks) {
  const Tensor x = leaf({2});
  const Tensor y = x * 1;
  int calls = 0;
  y.register_hook([&](const Tensor&) {
    for (int i = 0; i < 100; ++i) y.register_hook([&](const Tensor& g) { return ++calls, g; });
    return Tensor();
  });
  x.register_post_accumulate_grad_hook([&](const Tensor&) {
    for (int i = 0; i < 100; ++i) {
      x.register_post_accumulate_grad_hook([&](const Tensor&) { ++calls; });
    }
  });
  y.backward({}, /*retain_graph=*/true);
  EXPECT_EQ(calls, 0);
  y.backward();
  EXPECT_EQ(calls, 200);
}

TEST(Gradients, ThatDoNotFitAreRefused) {
  const Tensor x = leaf({2, 3});
  EXPECT_EQ(error_of([&] { x.set_grad(ones({2})); }),
            "set_grad: the gradient does not match the tensor: got float32 [2] on cpu, expected "
            "float64 [2] on cpu");
  EXPECT_THROW(x.set_grad(ones({3}, kFloat64)), Error);
  EXPECT_FALSE(x.grad().defined());
  for (const Tensor& wrong : {ones({2}), ones({1}, kFloat64)}) {
    const auto fails_with_hook_on = [&](const Tensor& tensor, const Tensor& loss) {
      tensor.register_hook([=](const Tensor&) { return wrong; });
      return error_of([&] { loss.backward(); }).starts_with("hook: the gradient does not match");
    };
    const Tensor w = leaf({2, 3}), y = w * 1;
    EXPECT_TRUE(fails_with_hook_on(y, y.sum()));
    EXPECT_TRUE(fails_with_hook_on(w, (w * 2).sum()));
    EXPECT_FALSE(w.grad().defined());
  }
}

TEST(Recording, FollowsTheGuards) {
  const Tensor x = leaf({2});
  {
    const NoGrad off;
    EXPECT_FALSE(grad_enabled());
    EXPECT_FALSE((x * 2).requires_grad());
    {
      const EnableGrad on;
      EXPECT_TRUE((x * 2).requires_grad());
      const EnableGrad off_again(false);
      EXPECT_FALSE((x * 2).requires_grad());
    }
    EXPECT_FALSE(grad_enabled());
    EXPECT_TRUE(tensor<double>({1}).set_requires_grad().requires_grad());
  }
  EXPECT_TRUE((x * 2).requires_grad());
  try {
    const NoGrad off;
    throw Error("out of the scope");
  } catch (const Error&) {
  }
  EXPECT_TRUE(grad_enabled());
}

TEST(Recording, ExcludesInferenceTensors) {
  const Tensor x = leaf({2});
  Tensor made;
  {
    const InferenceMode inference;
    EXPECT_TRUE(inference_mode());
    made = x * 2;
    EXPECT_FALSE(made.requires_grad());
  }
  EXPECT_FALSE(inference_mode());
  EXPECT_EQ(values(made * 2), (List{8}));
  const std::string error = error_of([&] { x* made; });
  EXPECT_NE(error.find("mul: a tensor made in InferenceMode"), std::string::npos) << error;
  EXPECT_EQ(values(x * made.clone()), (List{8}));
}

// --- Ops of the tests' own
// ------------------------------------------------------------------------

// Sum and difference of two tensors.
struct SumAndDifference {
  static constexpr OpInfo info{.name = "sum_and_difference"};
  std::array<Tensor, 2> forward(Saved&, const Tensor& a, const Tensor& b) const {
    return {a + b, a - b};
  }
  Gradients backward(const Saved& saved, const Tensor& sum, const Tensor& difference) const {
    const Tensor s = sum.defined() ? sum : zeros_like(difference);
    const Tensor d = difference.defined() ? difference : zeros_like(sum);
    return {saved.needs(0) ? s + d : Tensor(), saved.needs(1) ? s - d : Tensor()};
  }
};

TEST(Ops, WithSeveralOutputs) {
  const Tensor a = leaf({1});
  const Tensor b = leaf({10});
  const auto [sum, difference] = apply(SumAndDifference{}, a, b);
  EXPECT_EQ(values(sum), (List{11}));
  EXPECT_EQ(values(difference), (List{-9}));
  difference.backward({}, true);  // the other output is unused
  EXPECT_EQ(values(a.grad()), (List{1}));
  EXPECT_EQ(values(b.grad()), (List{-1}));
  (sum * difference).backward();
  EXPECT_EQ(values(a.grad()), (List{1 + 2}));
  EXPECT_EQ(values(b.grad()), (List{-1 - 20}));
}

TEST(Ops, LearnWhichInputsWantGradients) {
  const Tensor a = leaf({1});
  const auto [sum, difference] = apply(SumAndDifference{}, tensor<double>({5}), a);
  sum.backward();
  EXPECT_EQ(values(a.grad()), (List{1}));
}

// Gives back a gradient that is wrong in a chosen way.
struct Faulty {
  enum Fault : int { kCount, kShape, kDtype };
  static constexpr OpInfo info{.name = "faulty"};
  int fault;
  static constexpr auto fields = std::tuple{field("fault", &Faulty::fault)};
  Tensor forward(Saved&, const Tensor& x) const { return x + 1; }
  Gradients backward(const Saved&, const Tensor& dy) const {
    if (fault == kCount) return {dy, dy};
    if (fault == kShape) return {dy.unsqueeze(0)};
    return {dy.to(kFloat32)};
  }
};

TEST(Ops, AreNamedWhenTheirGradientIsWrong) {
  const auto fails = [](int fault) {
    return error_of([&] { apply(Faulty{fault}, leaf({1, 2})).sum().backward(); });
  };
  EXPECT_EQ(fails(Faulty::kCount),
            "faulty: backward returned 2 gradients, expected 1, one per "
            "input");
  EXPECT_EQ(fails(Faulty::kShape),
            "faulty: backward returned shape [1, 2] for input 0, expected [2]");
  EXPECT_EQ(fails(Faulty::kDtype),
            "faulty: backward returned float32 for input 0, expected float64");
}

// Throws in forward, or has no gradient.
struct Throwing {
  static constexpr OpInfo info{.name = "throwing", .differentiable = false};
  bool now;
  Tensor forward(Saved& saved, const Tensor& x) const {
    WICK_CHECK(!now, "throwing: as asked");
    EXPECT_FALSE(saved.recording());
    return x + 1;
  }
};

TEST(Ops, WithoutGradientsGiveConstants) {
  const Tensor x = leaf({1});
  EXPECT_FALSE(apply(Throwing{false}, x).requires_grad());
}

TEST(Ops, MayThrow) {
  const Tensor x = leaf({1});
  EXPECT_EQ(error_of([&] { apply(Throwing{true}, x); }), "throwing: as asked");
  EXPECT_TRUE(grad_enabled());
  EXPECT_TRUE((x * 2).requires_grad());
}

TEST(Ops, AreRegisteredAndDescribed) {
  int found = 0;
  for (const OpType* type : registered_ops()) {
    const std::string name = type->info.name;
    if (name != "faulty" && name != "throwing" && name != "sum_and_difference") continue;
    ++found;
    EXPECT_EQ(type->backward == nullptr, name == "throwing");
  }
  EXPECT_EQ(found, 3);
  EXPECT_EQ(apply(Faulty{2}, leaf({1})).grad_fn()->name(), "faulty(fault=2)");
}

TEST(Ops, CountTheirWork) {
  FlopCounter outer;
  const Tensor x = ones({10});
  {
    FlopCounter inner;
    x.matmul(x);
    EXPECT_EQ(inner.flops(), 20);
  }
  EXPECT_EQ(outer.flops(), 20);
}

// --- Ops without second derivatives -------------------------------------------------------------

// Twice its input, as the gradient of something.
struct FirstOnly {
  static constexpr OpInfo info{.name = "first_only", .differentiable = false, .is_gradient = true};
  Tensor forward(Saved&, const Tensor& x) const { return x * 2; }
};

TEST(SecondDerivative, IsAnErrorWhereItIsMissing) {
  const Tensor x = leaf({3});
  const Tensor y = apply(FirstOnly{}, x);
  EXPECT_EQ(values(y), (List{6}));
  ASSERT_TRUE(y.requires_grad());
  EXPECT_EQ(error_of([&] { y.backward(); }),
            "first_only: it has no derivative: got create_graph = true (or gradients recorded) "
            "where a second derivative of it is needed, expected first derivatives only");
  const NoGrad no_grad;
  EXPECT_FALSE(apply(FirstOnly{}, x).requires_grad());
}

}  // namespace
}  // namespace wick
