// The checks of the harness must find what they are there to find.
#include "wick/tests/harness/host_array.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "wick/core/core.h"
#include "wick/tests/harness/graph_ops.h"

namespace wick::testing {
namespace {

TEST(GraphOps, FindsEveryOp) {
  const Tensor x = make_tensor({{1}, {2}}, kFloat64).set_requires_grad();
  const std::vector<std::string> names = graph_ops({exp(x * 2)});
  EXPECT_EQ(std::count(names.begin(), names.end(), "exp"), 1);
  EXPECT_EQ(names.size(), 3u);  // and the multiplication, and where the leaf's gradient gathers
}

TEST(HostArray, MakesAndReadsEveryLayout) {
  HostArray array{{2, 3, 4, 5}, {}};
  for (int i = 0; i < 120; ++i) array.values.push_back(i);
  for (const Layout layout : kAllLayouts) {
    for (const Dtype dtype : {kFloat32, kBFloat16, kInt64, kUint8}) {
      const GuardedTensor guarded(array, dtype, layout);
      EXPECT_EQ(difference(read(guarded.tensor()), rounded(array, dtype, layout), 0, 0), "")
          << to_string(layout);
      EXPECT_TRUE(guarded.unchanged());
    }
  }
  EXPECT_EQ(make_tensor(array, kFloat32, Layout::kTransposed).strides(), (Strides{1, 2, 6, 24}));
  EXPECT_EQ(make_tensor(array, kFloat32, Layout::kExpanded).strides()[0], 0);
  EXPECT_TRUE(make_tensor(array, kFloat32, Layout::kChannelsLast)
                  .is_contiguous(MemoryFormat::kChannelsLast));
}

TEST(HostArray, SeesWritesAroundATensor) {
  for (const Layout layout : kAllLayouts) {
    for (const int64_t at : {-1, 6, 0}) {
      const GuardedTensor guarded({{2, 3}, {1, 2, 3, 4, 5, 6}}, kFloat32, layout);
      EXPECT_TRUE(guarded.unchanged());
      const int64_t end = layout == Layout::kStrided ? 12 : layout == Layout::kExpanded ? 3 : 6;
      guarded.tensor().data<float>()[at == 6 ? end : at] = 7;
      EXPECT_FALSE(guarded.unchanged()) << to_string(layout) << " at " << at;
    }
  }
}

TEST(DirtyMemory, ShowsWhatIsNotWritten) {
  const Tensor like = empty({5});
  dirty_memory({like});
  EXPECT_TRUE(std::isnan(empty({5}).to_vector<float>()[3]));
}

TEST(HostArray, ComparesStrictly) {
  const double nan = std::nan("");
  const HostArray one{{2}, {1, 2}};
  EXPECT_EQ(difference({{2}, {1, 2}}, one, 0, 0), "");
  EXPECT_NE(difference({{1, 2}, {1, 2}}, one, 0, 0), "");
  EXPECT_EQ(difference({{2}, {1, 2.02}}, one, 0.01, 0.001), "");
  EXPECT_NE(difference({{2}, {1, 2.03}}, one, 0.01, 0.001), "");
  EXPECT_NE(difference({{2}, {1, nan}}, one, 1, 1), "");
  EXPECT_NE(difference(one, {{2}, {1, nan}}, 1, 1), "");
  EXPECT_EQ(difference({{2}, {1, nan}}, {{2}, {1, nan}}, 0, 0), "");
  EXPECT_NE(difference({{2}, {1, HUGE_VAL}}, {{2}, {1, -HUGE_VAL}}, 1, 1), "");
  EXPECT_NE(difference({{2}, {1, 2}}, {{2}, {1, HUGE_VAL}}, 1, 1), "");
  EXPECT_FALSE(
      bit_equal(make_tensor({{1}, {0.0}}, kFloat32), make_tensor({{1}, {-0.0}}, kFloat32)));
}

}  // namespace
}  // namespace wick::testing
