// What compiled functions share with the program: tensors that it keeps, and inputs as results.
#include <gtest/gtest.h>

#include <utility>

#include "wick/core/core.h"
#include "wick/core/graph/compile.h"
#include "wick/tests/core/graph/expect_equal.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

TEST(Kept, RunsEagerlyIfTheFunctionKeepsWhatItComputes) {
  Tensor state;
  const std::vector<graph::Function> keep = {
      [&](const Tensors& x) -> Tensors {
        state = state + x[0];
        return {state * 1};
      },
      [&](const Tensors& x) -> Tensors { return {state = state + x[0]}; },
      [&](const Tensors& x) -> Tensors {
        const Tensor last = std::exchange(state, x[0]);
        return {last + x[0]};
      },
      [&](const Tensors& x) -> Tensors {
        const Tensor last = std::exchange(state, x[0].detach());
        return {last + x[0]};
      },
  };
  for (size_t k = 0; k < keep.size(); ++k) {
    SCOPED_TRACE(k);
    const auto run_all = [&](const graph::Function& f) {
      state = zeros({2});
      Tensors results;
      for (int i = 0; i < 4; ++i) results.push_back(f({full({2}, i + 1)})[0].clone());
      return results;
    };
    graph::CompiledFunction fast(keep[k]);
    expect_equal(run_all([&](const Tensors& x) { return fast(x); }), run_all(keep[k]));
    EXPECT_NE(fast.why_eager().find("compile: the function assigns a tensor"), std::string::npos);
    EXPECT_EQ(fast.num_graphs(), 0);
  }
}

TEST(Kept, RunsAGraphThatKeepsGradientsAndConstantsOfItsOwn) {
  Tensor table, total = zeros({3});
  const Tensor weight = ones({3}).set_requires_grad();
  graph::CompiledFunction fast([&](const Tensors& x) -> Tensors {
    if (!table.defined()) table = arange(3).to(kFloat32) * 2;  // depends on nothing
    total.add_(x[0]);
    const Tensor loss = (weight * x[0] * table).sum();
    loss.backward();
    return {loss, loss.detach(), x[0]};
  });
  for (int i = 0; i < 4; ++i) fast({ones({3})});
  EXPECT_EQ(fast.why_eager(), "");
  EXPECT_TRUE(total.equal(full({3}, 4)));
  EXPECT_TRUE(weight.grad().equal(tensor<float>({0, 8, 16})));
}

TEST(Kept, ResultsThatAreInputsAreTheProgramsOwnInEachCall) {
  graph::CompiledFunction fast([](const Tensors& x) -> Tensors {
    return {x[0], x[0].slice(0, 1, 3), x[0] * 2};
  });
  for (int i = 0; i < 4; ++i) {
    const Tensor x = arange(8).to(kFloat32).slice(0, 2, 6);
    const Tensors results = fast({x});
    x.fill_(9);
    expect_equal(results, {x, x.slice(0, 1, 3), tensor<float>({4, 6, 8, 10})});
  }
}

}  // namespace
}  // namespace wick::testing
