#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "wick/core/core.h"
#include "wick/core/graph/compile.h"
#include "wick/tests/dist/ranks.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::dist {
namespace {

using Tensors = std::vector<Tensor>;

TEST(CompiledCollectives, AreRefusedWithinATrace) {
  on_ranks(2, [](const Group& group) {
    graph::CompiledFunction sum([&](const Tensors& in) -> Tensors {
      const Tensor x = in[0] * 2;
      group->all_reduce(x).wait();
      return {x};
    });
    EXPECT_EQ(wick::testing::error_of([&] { sum({ones({3})}); }),
              "all_reduce: a graph cannot hold it: got a collective within a trace, expected one "
              "outside");
  });
}

}  // namespace
}  // namespace wick::dist
