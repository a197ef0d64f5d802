#include "wick/core/graph/executor.h"

#include <gtest/gtest.h>

#include "wick/core/graph/trace.h"
#include "wick/core/memory/stats.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/softmax.h"
#include "wick/tests/core/graph/expect_equal.h"

namespace wick::testing {
namespace {

// After two runs the allocator is asked for results alone.
TEST(Arena, ServesWhatDoesNotOutliveARun) {
  const Tensor weight = randn({256, 256});
  const auto f = [&](const Tensors& x) -> Tensors {
    Tensor y = x[0];
    for (int i = 0; i < 6; ++i) y = y.matmul(weight).softmax(1) + x[0];
    return {y};
  };
  const Tensor x = randn({64, 256});
  graph::Executor executor(graph::trace(f, {x}));
  const Tensors want = f({x});
  executor.run({x});
  executor.run({x});
  EXPECT_GE(executor.arena_bytes(), 2 * 64 * 256 * 4);
  EXPECT_LE(executor.arena_bytes(), 4 * 64 * 256 * 4);
  Tensors held;
  for (int i = 0; i < 5; ++i) {
    const int64_t before = memory_stats(kCpu).all.allocation.allocated;
    held.push_back(executor.run({x})[0]);
    EXPECT_EQ(memory_stats(kCpu).all.allocation.allocated - before, 1);
  }
  for (const Tensor& y : held) expect_equal({y}, want);
}

}  // namespace
}  // namespace wick::testing
