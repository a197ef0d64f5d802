#include "wick/core/graph/executor.h"

#include <gtest/gtest.h>

#include <functional>

#include "wick/core/graph/trace.h"
#include "wick/core/memory/stats.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/softmax.h"
#include "wick/tests/core/graph/expect_equal.h"

namespace wick::testing {
namespace {

std::function<Tensors(const Tensors&)> six_layers() {
  return [weight = randn({256, 256})](const Tensors& x) -> Tensors {
    Tensor y = x[0];
    for (int i = 0; i < 6; ++i) y = y.matmul(weight).softmax(1) + x[0];
    return {y};
  };
}

int64_t allocations_of(const std::function<void()>& run) {
  const int64_t before = memory_stats(kCpu).all.allocation.allocated;
  run();
  return memory_stats(kCpu).all.allocation.allocated - before;
}

TEST(Arena, ServesAllThatIsFreeBeforeTheNextRun) {
  const auto f = six_layers();
  const Tensor x = randn({64, 256});
  graph::Executor executor(graph::trace(f, {x}));
  const Tensors want = f({x});
  for (int i = 0; i < 3; ++i) executor.run({x});
  EXPECT_GE(executor.arena_bytes(), 2 * 64 * 256 * 4);
  EXPECT_LE(executor.arena_bytes(), 4 * 64 * 256 * 4);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(allocations_of([&] { expect_equal(executor.run({x}), want); }), 0);
  }
  // What is held stays as it is, and what needs its place is allocated.
  Tensors held, inputs;
  for (int i = 0; i < 5; ++i) inputs.push_back(x * i);
  for (const Tensor& input : inputs) held.push_back(executor.run({input})[0]);
  for (int i = 0; i < 5; ++i) {
    const auto number = static_cast<size_t>(i);
    expect_equal({held[number]}, f({inputs[number]}));
  }
  held.clear();
  EXPECT_EQ(allocations_of([&] { expect_equal(executor.run({x}), want); }), 0);
}

TEST(Arena, LeavesHeldResultsToTheAllocator) {
  const auto f = six_layers();
  const Tensor x = randn({64, 256});
  graph::Executor executor(graph::trace(f, {x}));
  Tensors held;
  for (int i = 0; i < 3; ++i) held.push_back(executor.run({x})[0]);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(allocations_of([&] { held.push_back(executor.run({x})[0]); }), 1);
  }
  for (const Tensor& y : held) expect_equal({y}, f({x}));
}

}  // namespace
}  // namespace wick::testing
