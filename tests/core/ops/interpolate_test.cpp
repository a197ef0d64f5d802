#include "wick/core/ops/interpolate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "wick/core/ops/compare.h"
#include "wick/core/ops/pool.h"
#include "wick/core/ops/random.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/op_case.h"

namespace wick::testing {
namespace {

using Mode = Interpolation;

// How much each element of an axis counts in one of the result.
using Row = std::vector<double>;

double cubic(double d, double a) {
  d = std::abs(d);
  if (d < 1) return (a + 2) * d * d * d - (a + 3) * d * d + 1;
  return d < 2 ? a * (d * d * d - 5 * d * d + 8 * d - 4) : 0;
}

Row resize_row(int64_t o, int64_t in, int64_t out, Mode mode, bool align) {
  Row row(static_cast<size_t>(in));
  const auto add = [&](int64_t i, double weight) {
    row[static_cast<size_t>(std::clamp(i, int64_t{0}, in - 1))] += weight;
  };
  if (mode == Mode::kNearest || mode == Mode::kNearestExact) {
    add(mode == Mode::kNearest ? o * in / out : (2 * o + 1) * in / (2 * out), 1);
    return row;
  }
  const auto from = static_cast<double>(in), to = static_cast<double>(out);
  const double scale = align ? (out > 1 ? (from - 1) / (to - 1) : 0) : from / to;
  const double at =
      align ? static_cast<double>(o) * scale : (static_cast<double>(o) + 0.5) * scale - 0.5;
  const auto first = static_cast<int64_t>(std::floor(at));
  const double t = at - std::floor(at);
  if (mode == Mode::kBicubic) {
    for (int k = -1; k <= 2; ++k) add(first + k, cubic(k - t, -0.75));
  } else {
    add(first, 1 - t);
    add(first + 1, t);
  }
  return row;
}

Row averaging_row(int64_t o, int64_t in, int64_t out, bool of_cubic) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double stretch = std::max(scale, 1.0), centre = (static_cast<double>(o) + 0.5) * scale;
  Row row;
  double sum = 0;
  for (int64_t i = 0; i < in; ++i) {
    const double d = (static_cast<double>(i) + 0.5 - centre) / stretch;
    row.push_back(of_cubic ? cubic(d, -0.5) : std::max(0.0, 1 - std::abs(d)));
    sum += row.back();
  }
  for (double& weight : row) weight /= sum;
  return row;
}

// x with axis `axis` resized to `out` elements, `row(o, in, out)` saying of what each is made.
template <class MakeRow>
HostArray along(const HostArray& x, int axis, int64_t out, const MakeRow& make_row) {
  const int64_t in = x.shape[axis];
  int64_t inner = 1;
  for (int i = axis + 1; i < x.shape.rank(); ++i) inner *= x.shape[i];
  HostArray y{x.shape, {}};
  y.shape[axis] = out;
  for (int64_t outer = 0; outer < x.shape.numel() / std::max(in * inner, int64_t{1}); ++outer) {
    for (int64_t o = 0; o < out; ++o) {
      const Row row = make_row(o, in, out);
      for (int64_t j = 0; j < inner; ++j) {
        double sum = 0;
        for (int64_t i = 0; i < in; ++i) {
          sum += row[static_cast<size_t>(i)] *
                 x.values[static_cast<size_t>((outer * in + i) * inner + j)];
        }
        y.values.push_back(sum);
      }
    }
  }
  return y;
}

HostArray resized(HostArray x, const Shape& size, Mode mode, bool align = false) {
  for (int axis = 0; axis < size.rank(); ++axis) {
    x = along(x, axis + 2, size[axis], [&](int64_t o, int64_t in, int64_t out) {
      return resize_row(o, in, out, mode, align);
    });
  }
  return x;
}

OpCase resize_case(const char* name, Mode mode, const std::vector<Shape>& sizes, bool may_align,
                   const Samples& samples) {
  OpCase c;
  c.name = name;
  c.samples = samples;
  c.call = [=](const Tensors& x) {
    Tensors results;
    for (const Shape& size : sizes) {
      results.push_back(interpolate(x[0], size, mode));
      if (may_align) results.push_back(interpolate(x[0], size, mode, true));
    }
    return results;
  };
  c.reference = [=](const Arrays& x) {
    Arrays results;
    for (const Shape& size : sizes) {
      results.push_back(resized(x[0], size, mode));
      if (may_align) results.push_back(resized(x[0], size, mode, true));
    }
    return results;
  };
  c.tolerance = Tolerance::matmul();
  c.second_order = true;
  return c;
}

const Samples kSignals{{normal({2, 3, 6})}, {normal({1, 17, 5})}, {normal({0, 1, 2})}};
const Samples kImages{{normal({2, 3, 4, 6})}, {normal({1, 17, 1, 5})}, {normal({0, 1, 2, 2})}};
const Samples kVolumes{{normal({2, 3, 3, 4, 5})}, {normal({1, 17, 2, 1, 3})}};

const OpCaseRegistration resize_nearest(resize_case("interpolate_nearest", Mode::kNearest, {{8, 3}},
                                                    false, kImages),
                                        __FILE__, __LINE__);
const OpCaseRegistration resize_nearest_exact(resize_case("interpolate_nearest_exact",
                                                          Mode::kNearestExact, {{7, 4}}, false,
                                                          kImages),
                                              __FILE__, __LINE__);
const OpCaseRegistration resize_nearest_signals(resize_case("interpolate_nearest_signals",
                                                            Mode::kNearest, {{9}}, false, kSignals),
                                                __FILE__, __LINE__);
const OpCaseRegistration resize_nearest_volumes(resize_case("interpolate_nearest_volumes",
                                                            Mode::kNearest, {{5, 3, 7}}, false,
                                                            kVolumes),
                                                __FILE__, __LINE__);
const OpCaseRegistration resize_linear(resize_case("interpolate_linear", Mode::kLinear, {{9}, {4}},
                                                   true, kSignals),
                                       __FILE__, __LINE__);
const OpCaseRegistration resize_bilinear(resize_case("interpolate_bilinear", Mode::kBilinear,
                                                     {{7, 4}}, true, kImages),
                                         __FILE__, __LINE__);
const OpCaseRegistration resize_bicubic(resize_case("interpolate_bicubic", Mode::kBicubic, {{7, 4}},
                                                    true, kImages),
                                        __FILE__, __LINE__);
const OpCaseRegistration resize_trilinear(resize_case("interpolate_trilinear", Mode::kTrilinear,
                                                      {{5, 3, 7}}, true, kVolumes),
                                          __FILE__, __LINE__);

WICK_OP_CASE(
    interpolate_antialias, .samples = kImages,
    .call = [](const Tensors& x) -> Tensors {
      return {interpolate(x[0], {3, 2}, Mode::kBilinear, false, true),
              interpolate(x[0], {5, 3}, Mode::kBicubic, false, true)};
    },
    .reference =
        [](const Arrays& x) {
          Arrays results;
          for (const bool of_cubic : {false, true}) {
            HostArray y = x[0];
            for (const int axis : {0, 1}) {
              const int64_t size = of_cubic ? 5 - 2 * axis : 3 - axis;
              y = along(y, axis + 2, size, [&](int64_t o, int64_t in, int64_t out) {
                return averaging_row(o, in, out, of_cubic);
              });
            }
            results.push_back(y);
          }
          return results;
        },
    .tolerance = Tolerance::matmul(), .second_order = true, .traceable = false,
    .same_for_any_threads = false);

TEST(Interpolate, CopiesAnAxisWhoseSizeStays) {
  const Tensor x = arange(4).to(kFloat32).reshape({1, 1, 2, 2});
  const Tensor y = interpolate_by(x, {1.4, 1.2}, Mode::kBilinear);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{0, 1, 2, 3}));
}

TEST(Interpolate, TakesSizesFromFactors) {
  const Tensor x = randn({2, 3, 5, 4});
  // 1 / 1.7 and 5 / 8 are different scales.
  const Tensor by_factor = interpolate(x, 1.7, Mode::kBilinear);
  EXPECT_EQ(by_factor.shape(), (Shape{2, 3, 8, 6}));
  EXPECT_FALSE(allclose(by_factor, interpolate(x, {8, 6}, Mode::kBilinear)));
  EXPECT_TRUE(equal(interpolate_by(x, {1.7}, Mode::kBilinear, false, true),
                    interpolate(x, {8, 6}, Mode::kBilinear)));
  EXPECT_EQ(interpolate(randn({1, 2, 3, 4, 5}), 2).shape(), (Shape{1, 2, 6, 8, 10}));
}

TEST(Interpolate, OfAnAreaIsAdaptivePooling) {
  const Tensor signal = randn({2, 3, 7}), image = randn({2, 3, 7, 5}),
               volume = randn({1, 2, 5, 4, 3});
  EXPECT_TRUE(equal(interpolate(signal, {3}, Mode::kArea), adaptive_avg_pool1d(signal, 3)));
  EXPECT_TRUE(equal(interpolate(image, 0.5, Mode::kArea), adaptive_avg_pool2d(image, {3, 2})));
  EXPECT_TRUE(equal(interpolate(volume, {2}, Mode::kArea), adaptive_avg_pool3d(volume, 2)));
}

// What is next to an element that an output is a copy of does not reach it.
TEST(Interpolate, KeepsInfinityInItsPlace) {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = tensor<float>({1, inf, 3}, Shape{1, 1, 3});
  EXPECT_EQ(interpolate(x, {3}, Mode::kLinear).to_vector<float>(), (std::vector<float>{1, inf, 3}));
  EXPECT_EQ(interpolate(x, {5}, Mode::kLinear, true).to_vector<float>()[2], inf);
  EXPECT_EQ(interpolate(x, {5}, Mode::kLinear, true).to_vector<float>()[4], 3);
}

TEST(Interpolate, RejectsWhatDoesNotFit) {
  const Tensor x = ones({1, 2, 4, 4});
  EXPECT_EQ(error_of([&] { interpolate(x, 0.0); }),
            "interpolate: scale_factor must be positive: got 0");
  EXPECT_EQ(error_of([&] { interpolate(x, {3}, Mode::kNearest, true); }),
            "interpolate: align_corners is for linear and cubic modes only");
  EXPECT_EQ(error_of([&] { interpolate(x, {3}, Mode::kLinear); }),
            "interpolate: the mode is for 3 axes: got shape [1, 2, 4, 4]");
  EXPECT_EQ(error_of([&] { interpolate(x, {3}, Mode::kArea, false, true); }),
            "interpolate: antialias is for bilinear and bicubic only");
  EXPECT_EQ(error_of([&] {
              interpolate(x, {3, 3, 3});
            }),
            "interpolate: size needs 1 or 2 entries: got [3, 3, 3]");
  EXPECT_EQ(error_of([&] {
              interpolate_by(x, {1, 2, 3});
            }),
            "interpolate: scale_factor needs 1 or 2 entries: got 3");
  EXPECT_EQ(error_of([&] {
              interpolate(ones({4, 4}), {3});
            }),
            "interpolate: x needs 3 to 5 axes (N, C and those to resize): got shape [4, 4]");
}

}  // namespace
}  // namespace wick::testing
