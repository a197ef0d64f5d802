// The checks of the harness must find what they are there to find.
#include "wick/tests/harness/gradcheck.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "wick/core/apply.h"
#include "wick/core/ops/elementwise.h"
#include "wick/tests/harness/host_array.h"

namespace wick::testing {
namespace {

// x * y, its gradient wrong in a chosen way.
struct Product {
  enum Fault : int {
    kNone,
    kSign,
    kFactor,
    kIgnoresIncoming,
    kOneElement,
    kSecondDerivative,
    kOnlyTogether,
    kRandom,
  };
  static constexpr OpInfo info{.name = "test_product"};
  int fault;
  Tensor forward(Saved& saved, const Tensor& x, const Tensor& y) const {
    saved.save(x, y);
    return x * y;
  }
  Gradients backward(const Saved& saved, const Tensor& dz) const {
    static int calls = 0;
    const Tensor x = saved[0];
    const Tensor y = saved[1];
    Tensor dx = dz * y;
    Tensor dy = dz * x;
    switch (fault) {
      case kSign: dx = -dx; break;
      case kFactor: dy = dy * 1.01; break;
      case kIgnoresIncoming: dx = y * 1.0; break;
      case kOneElement: {
        std::vector<double> error(static_cast<size_t>(dx.numel()));
        error.back() = 1e-3;
        dx = dx + tensor(error, dx.shape());
        break;
      }
      case kSecondDerivative: dx = dz * y.detach(); break;
      case kOnlyTogether:
        if (!saved.needs(0)) dy = dy * 2;
        break;
      case kRandom: dx = dx * (1 + 1e-14 * ++calls); break;
      default: break;
    }
    return {dx, dy};
  }
};

Tensors points() {
  return {make_tensor({{2, 3}, {1, -2, 3, 0.5, 2, -1}}, kFloat64),
          make_tensor({{2, 3}, {2, 1, -1, 4, 0.25, 3}}, kFloat64)};
}

TensorFunction product(int fault) {
  return [fault](const Tensors& x) -> Tensors { return {apply(Product{fault}, x[0], x[1])}; };
}

TEST(Gradcheck, AcceptsRightGradients) {
  EXPECT_EQ(gradcheck(product(Product::kNone), points(), {true, true}), "");
  EXPECT_EQ(gradcheck(product(Product::kNone), points(), {false, true}), "");
  EXPECT_EQ(gradgradcheck(product(Product::kNone), points(), {true, true}), "");
  GradcheckOptions along_a_direction;
  along_a_direction.full_up_to = 2;
  EXPECT_EQ(gradcheck(product(Product::kNone), points(), {true, true}, along_a_direction), "");
}

TEST(Gradcheck, FindsEachFault) {
  for (const int fault : {Product::kSign, Product::kFactor, Product::kIgnoresIncoming,
                          Product::kOneElement, Product::kOnlyTogether, Product::kRandom}) {
    EXPECT_NE(gradcheck(product(fault), points(), {true, true}), "") << "fault " << fault;
  }
  EXPECT_EQ(gradcheck(product(Product::kSecondDerivative), points(), {true, true}), "");
  EXPECT_NE(gradgradcheck(product(Product::kSecondDerivative), points(), {true, true}), "");
}

TEST(Gradcheck, SaysWhere) {
  const std::string wrong = gradcheck(product(Product::kOneElement), points(), {true, true});
  EXPECT_NE(wrong.find("gradient of input 0"), std::string::npos) << wrong;
}

TEST(GraphOps, FindsEveryOp) {
  const Tensor x = make_tensor({{1}, {2}}, kFloat64).set_requires_grad();
  const std::vector<std::string> names = graph_ops({apply(Product{0}, x * 2, x)});
  EXPECT_EQ(std::count(names.begin(), names.end(), "test_product"), 1);
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
