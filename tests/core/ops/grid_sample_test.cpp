#include "wick/core/ops/grid_sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/tests/core/ops/remap.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

TensorFunction sampled_by(GridMode mode, GridPadding padding, bool align_corners) {
  return [=](const Tensors& x) -> Tensors {
    return {grid_sample(x[0], x[1], mode, padding, align_corners)};
  };
}

// By the definition, at places between pixels of the image.
Arrays reference_bilinear(const Arrays& in) {
  const Shape &s = in[0].shape, &g = in[1].shape;
  HostArray y = filled({s[0], s[1], g[1], g[2]});
  for_each_coordinate(y.shape, [&](const Shape& c) {
    const double x = (at(in[1], {c[0], c[2], c[3], 0}) + 1) * static_cast<double>(s[3] - 1) / 2;
    const double v = (at(in[1], {c[0], c[2], c[3], 1}) + 1) * static_cast<double>(s[2] - 1) / 2;
    for (int64_t row = 0; row < s[2]; ++row) {
      for (int64_t column = 0; column < s[3]; ++column) {
        const double weight = std::max(0.0, 1 - std::fabs(v - static_cast<double>(row))) *
                              std::max(0.0, 1 - std::fabs(x - static_cast<double>(column)));
        at(y, c) += weight * at(in[0], {c[0], c[1], row, column});
      }
    }
  });
  return {y};
}

// Coordinates of the one axis away from pixels' centres, where the gradient jumps.
Input between(const Shape& shape) { return uniform(shape, -0.2, -0.05); }

WICK_OP_CASE(grid_sample, .samples = {{normal({2, 3, 3, 3}), between({2, 2, 4, 2})}},
             .call = sampled_by(GridMode::kBilinear, GridPadding::kZeros, true),
             .reference = reference_bilinear, .tolerance = Tolerance::reduction());
WICK_OP_CASE(grid_sample_reflected, .samples = {{normal({2, 3, 3, 3}), between({2, 2, 4, 2})}},
             .call = sampled_by(GridMode::kBilinear, GridPadding::kReflection, true),
             .reference = reference_bilinear, .tolerance = Tolerance::reduction());
WICK_OP_CASE(
    affine_grid, .samples = {{normal({2, 2, 3})}},
    .call = [](const Tensors& x) -> Tensors {
      return {affine_grid(x[0], {2, 1, 3, 4})};
    },
    .reference = [](const Arrays& in) -> Arrays {
      HostArray y = filled({2, 3, 4, 2});
      for_each_coordinate(y.shape, [&](const Shape& c) {
        const double u = (2 * static_cast<double>(c[2]) + 1) / 4 - 1;
        const double v = (2 * static_cast<double>(c[1]) + 1) / 3 - 1;
        at(y, c) = at(in[0], {c[0], c[3], 0}) * u + at(in[0], {c[0], c[3], 1}) * v +
                   at(in[0], {c[0], c[3], 2});
      });
      return {y};
    },
    .tolerance = Tolerance::matmul(), .same_for_any_threads = false);

// The figures are PyTorch's.
TEST(GridSample, IsPyTorchsOutsideOfTheImage) {
  const Tensor host = arange(16, kFloat32).reshape({1, 1, 4, 4});
  const Tensor places = tensor({-1.2f, -0.3f, 0.1f, 0.9f, 0.5f, 1.4f, 0.f, 0.f}, Shape{1, 2, 2, 2});
  struct Expected {
    GridMode mode;
    GridPadding padding;
    bool align_corners;
    std::vector<float> y;
  };
  constexpr GridMode kLinear = GridMode::kBilinear, kNearest = GridMode::kNearest;
  const Expected all[] = {{kLinear, GridPadding::kZeros, true, {2.94f, 13.05f, 5.7f, 7.5f}},
                          {kLinear, GridPadding::kZeros, false, {0.36f, 9.59f, 0, 7.5f}},
                          {kLinear, GridPadding::kBorder, true, {4.2f, 13.05f, 14.25f, 7.5f}},
                          {kLinear, GridPadding::kBorder, false, {3.6f, 13.7f, 14.5f, 7.5f}},
                          {kLinear, GridPadding::kReflection, true, {4.5f, 13.05f, 11.85f, 7.5f}},
                          {kLinear, GridPadding::kReflection, false, {3.6f, 13.7f, 13.3f, 7.5f}},
                          {kNearest, GridPadding::kZeros, true, {4, 14, 0, 10}},
                          {kNearest, GridPadding::kZeros, false, {0, 14, 0, 10}},
                          {kNearest, GridPadding::kBorder, false, {4, 14, 14, 10}},
                          {kNearest, GridPadding::kReflection, true, {4, 14, 10, 10}},
                          {kNearest, GridPadding::kReflection, false, {4, 14, 14, 10}}};
  for (const Device device : devices()) {
    for (const Expected& e : all) {
      const Tensor y =
          grid_sample(host.to(device), places.to(device), e.mode, e.padding, e.align_corners);
      EXPECT_TRUE(allclose(y.cpu().reshape({4}), tensor(e.y), 1e-5, 1e-5))
          << y << " " << static_cast<int>(e.padding) << e.align_corners;
    }
    const Tensor theta = tensor({1.f, 0.5f, 0.25f, 0.f, 2.f, -1.f}, Shape{1, 2, 3}).to(device);
    const std::vector<float> corners = {-1.25f, -3, -0.25f, -3, 0.75f, -3,
                                        -0.25f, 1,  0.75f,  1,  1.75f, 1};
    EXPECT_TRUE(
        allclose(affine_grid(theta, {1, 1, 2, 3}, true).cpu().reshape({12}), tensor(corners)));
  }
}

TEST(GridSample, ByTheIdentityIsTheImage) {
  const Tensor x = arange(2 * 3 * 5, kFloat32).reshape({1, 2, 3, 5});
  const Tensor theta = tensor({1.f, 0.f, 0.f, 0.f, 1.f, 0.f}, Shape{1, 2, 3});
  for (const bool align : {false, true}) {
    const Tensor grid = affine_grid(theta, x.shape(), align);
    EXPECT_TRUE(allclose(grid_sample(x, grid, GridMode::kBilinear, GridPadding::kZeros, align), x,
                         1e-5, 1e-5));
  }
  EXPECT_EQ(error_of([&] {
              grid_sample(x, ones({2, 1, 1, 2}));
            }),
            "grid_sample: shapes do not fit: got [1, 2, 3, 5] and [2, 1, 1, 2], expected "
            "[N, C, H, W] and [N, h, w, 2]");
  EXPECT_THROW(grid_sample(x, ones({1, 1, 1, 2}, kFloat64)), Error);
  EXPECT_THROW(affine_grid(theta, {2, 1, 1, 1}), Error);
}

}  // namespace
}  // namespace wick::testing
