#include "wick/core/ops/pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "wick/core/ops/compare.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/op_case.h"

namespace wick::testing {
namespace {

struct PoolSetting {
  Shape kernel, stride, padding{0, 0}, dilation{1, 1};
  bool ceil = false;
};

// Windows along one axis: all that lie in the padded image, or with `ceil` all that start in the
// image or before it and have a window before them that does not reach the padding's end.
int64_t windows_of(const PoolSetting& s, int axis, int64_t in) {
  const int64_t padding = s.padding[axis], reach = s.dilation[axis] * (s.kernel[axis] - 1) + 1;
  int64_t count = 0;
  for (int64_t start = -padding;; start += s.stride[axis], ++count) {
    const bool fits = start + reach <= in + padding;
    const bool short_before = start - s.stride[axis] + reach < in + padding;
    if (!fits && !(s.ceil && start < in && short_before)) return count;
  }
}

// Result of `pool(elements in the image, elements in the padded image)` of every window.
template <class Pool>
HostArray pooled(const HostArray& x, const PoolSetting& s, const Pool& pool) {
  const Shape& in = x.shape;
  Shape out{in[0], in[1]};
  for (const int axis : {0, 1}) out.push_back(windows_of(s, axis, in[axis + 2]));
  HostArray y{out, {}};
  for (int64_t image = 0; image < in[0] * in[1]; ++image) {
    for (int64_t p = 0; p < out[2]; ++p) {
      for (int64_t q = 0; q < out[3]; ++q) {
        std::vector<double> window;
        int64_t padded = 0;
        for (int64_t r = 0; r < s.kernel[0]; ++r) {
          for (int64_t c = 0; c < s.kernel[1]; ++c) {
            const int64_t i = p * s.stride[0] - s.padding[0] + r * s.dilation[0];
            const int64_t j = q * s.stride[1] - s.padding[1] + c * s.dilation[1];
            padded += i < in[2] + s.padding[0] && j < in[3] + s.padding[1];
            if (i < 0 || i >= in[2] || j < 0 || j >= in[3]) continue;
            window.push_back(x.values[static_cast<size_t>((image * in[2] + i) * in[3] + j)]);
          }
        }
        y.values.push_back(pool(window, padded));
      }
    }
  }
  return y;
}

double largest_of_window(const std::vector<double>& window, int64_t) {
  double result = -std::numeric_limits<double>::infinity();
  for (const double v : window) result = v > result || std::isnan(v) ? v : result;
  return result;
}

double sum_of(const std::vector<double>& window) {
  double sum = 0;
  for (const double v : window) sum += v;
  return sum;
}

OpCase max_case(const char* name, const PoolSetting& s, const Samples& samples) {
  OpCase c;
  c.name = name;
  c.samples = samples;
  c.call = [s](const Tensors& x) -> Tensors {
    return {max_pool2d(x[0], s.kernel, s.stride, s.padding, s.dilation, s.ceil)};
  };
  c.reference = [s](const Arrays& x) -> Arrays { return {pooled(x[0], s, largest_of_window)}; };
  c.tolerance = Tolerance::exact();
  c.covers = {"max_pool2d_gather"};  // the gradient of the gradient
  c.second_order = true;
  return c;
}

OpCase avg_case(const char* name, const PoolSetting& s, bool count_pad, const Samples& samples) {
  OpCase c;
  c.name = name;
  c.samples = samples;
  c.call = [s, count_pad](const Tensors& x) -> Tensors {
    return {avg_pool2d(x[0], s.kernel, s.stride, s.padding, s.ceil, count_pad)};
  };
  c.reference = [s, count_pad](const Arrays& x) -> Arrays {
    return {pooled(x[0], s, [&](const std::vector<double>& window, int64_t size) {
      return sum_of(window) /
             static_cast<double>(count_pad ? size : static_cast<int64_t>(window.size()));
    })};
  };
  c.tolerance = Tolerance::reduction();
  c.second_order = true;
  return c;
}

const OpCaseRegistration max_plain(max_case("max_pool2d", {{2, 2}, {2, 2}},
                                            {{distinct({2, 3, 6, 7})},
                                             {distinct({1, 16, 4, 4})},
                                             {distinct({1, 33, 2, 3})},
                                             {distinct({0, 3, 4, 4})}}),
                                   __FILE__, __LINE__);
const OpCaseRegistration max_overlapping(
    max_case("max_pool2d_overlapping", {{3, 2}, {2, 1}, {1, 1}},
             {{distinct({2, 5, 7, 6})}, {distinct({1, 1, 3, 2})}}),
    __FILE__, __LINE__);
const OpCaseRegistration max_large(max_case("max_pool2d_large_window", {{17, 17}, {1, 1}},
                                            {{distinct({1, 2, 18, 17})}}),
                                   __FILE__, __LINE__);
const OpCaseRegistration max_dilated(
    max_case("max_pool2d_dilated", {{3, 2}, {1, 2}, {1, 1}, {2, 3}},
             {{distinct({2, 3, 7, 9})}, {distinct({1, 17, 3, 3})}}),
    __FILE__, __LINE__);
const OpCaseRegistration max_ceil(max_case("max_pool2d_ceil",
                                           {{3, 2}, {2, 3}, {1, 0}, {1, 2}, true},
                                           {{distinct({2, 3, 6, 7})}, {distinct({1, 17, 4, 2})}}),
                                  __FILE__, __LINE__);
const OpCaseRegistration avg_ceil(avg_case("avg_pool2d_ceil",
                                           {{3, 2}, {2, 2}, {1, 1}, {1, 1}, true}, true,
                                           {{normal({2, 3, 6, 7})}, {normal({1, 17, 2, 1})}}),
                                  __FILE__, __LINE__);
const OpCaseRegistration avg_ceil_uncounted(avg_case("avg_pool2d_ceil_padding_uncounted",
                                                     {{3, 2}, {2, 2}, {1, 1}, {1, 1}, true}, false,
                                                     {{normal({2, 3, 6, 7})}}),
                                            __FILE__, __LINE__);
const OpCaseRegistration avg_ceil_large(avg_case("avg_pool2d_ceil_large_window",
                                                 {{6, 7}, {4, 5}, {2, 3}, {1, 1}, true}, true,
                                                 {{normal({2, 3, 9, 11})}}),
                                        __FILE__, __LINE__);
const OpCaseRegistration avg_plain(avg_case("avg_pool2d", {{2, 3}, {2, 1}}, true,
                                            {{normal({2, 3, 6, 7})}, {normal({1, 17, 2, 3})}}),
                                   __FILE__, __LINE__);
const OpCaseRegistration avg_padded(avg_case("avg_pool2d_padded", {{3, 3}, {2, 2}, {1, 1}}, true,
                                             {{normal({2, 3, 6, 7})}, {normal({0, 2, 3, 3})}}),
                                    __FILE__, __LINE__);
const OpCaseRegistration avg_uncounted(avg_case("avg_pool2d_padding_uncounted",
                                                {{3, 3}, {2, 2}, {1, 1}}, false,
                                                {{normal({2, 3, 6, 7})}}),
                                       __FILE__, __LINE__);

HostArray adaptive(const HostArray& x, int64_t rows, int64_t columns) {
  const Shape& in = x.shape;
  HostArray y{{in[0], in[1], rows, columns}, {}};
  for (int64_t image = 0; image < in[0] * in[1]; ++image) {
    for (int64_t p = 0; p < rows; ++p) {
      for (int64_t q = 0; q < columns; ++q) {
        double sum = 0, count = 0;
        for (int64_t i = 0; i < in[2]; ++i) {
          for (int64_t j = 0; j < in[3]; ++j) {
            const bool row_in = (i + 1) * rows > p * in[2] && i * rows < (p + 1) * in[2];
            const bool column_in = (j + 1) * columns > q * in[3] && j * columns < (q + 1) * in[3];
            if (!row_in || !column_in) continue;
            sum += x.values[static_cast<size_t>((image * in[2] + i) * in[3] + j)];
            count += 1;
          }
        }
        y.values.push_back(sum / count);
      }
    }
  }
  return y;
}

WICK_OP_CASE(
    adaptive_avg_pool2d,
    .samples = {{normal({2, 3, 7, 5})}, {normal({1, 18, 2, 9})}, {normal({1, 1, 3, 4})}},
    .call = [](const Tensors& x) -> Tensors {
      return {adaptive_avg_pool2d(x[0], {3, 4}), adaptive_avg_pool2d(x[0], {1})};
    },
    .reference = [](const Arrays& x) -> Arrays {
      return {adaptive(x[0], 3, 4), adaptive(x[0], 1, 1)};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);

TEST(MaxPool2d, KeepsNaNAndInfinity) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = tensor<float>({1, nan, -inf, -inf, 2, 3, -inf, -inf}, Shape{1, 1, 2, 4});
  x.set_requires_grad();
  const Tensor y = max_pool2d(x, {2});
  const std::vector<float> got = y.to_vector<float>();
  EXPECT_TRUE(std::isnan(got[0]));
  EXPECT_EQ(got[1], -inf);
  y.backward(tensor<float>({5, 7}, Shape{1, 1, 1, 2}));
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{0, 5, 7, 0, 0, 0, 0, 0}));
}

TEST(MaxPool2d, GivesTheGradientToTheFirstOfEquals) {
  const Tensor x = ones({1, 2, 2, 2}).set_requires_grad();
  const Tensor y = max_pool2d(x, {2});
  y.backward(ones_like(y));
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{1, 0, 0, 0, 1, 0, 0, 0}));
}

TEST(Pool, TakesOneImageWithoutABatch) {
  const Tensor x = arange(2 * 5 * 6).to(kFloat32).reshape({2, 5, 6}), one = x.unsqueeze(0);
  EXPECT_TRUE(equal(max_pool2d(x, {2}), max_pool2d(one, {2})[0]));
  EXPECT_TRUE(equal(avg_pool2d(x, {2}), avg_pool2d(one, {2})[0]));
  EXPECT_TRUE(equal(adaptive_avg_pool2d(x, {2}), adaptive_avg_pool2d(one, {2})[0]));
}

TEST(Pool, CeilModeTakesAWindowLargerThanTheImage) {
  const Tensor x = arange(4).to(kFloat32).reshape({1, 1, 2, 2});
  EXPECT_EQ(max_pool2d(x, {5}, {}, {0}, {1}, true).to_vector<float>(), (std::vector<float>{3}));
  EXPECT_EQ(avg_pool2d(x, {5}, {}, {0}, true).to_vector<float>(), (std::vector<float>{1.5}));
}

TEST(Pool, RejectsWhatDoesNotFit) {
  const Tensor x = ones({1, 2, 4, 4});
  EXPECT_EQ(error_of([&] { max_pool2d(x, {5}); }),
            "max_pool2d: window is larger than the padded image: got x [1, 2, 4, 4], kernel_size "
            "[5, 5], padding [0, 0], dilation [1, 1]");
  EXPECT_EQ(error_of([&] { max_pool2d(x, {2}, {1}, {1}, {5}, true); }),
            "max_pool2d: dilation is larger than the image: got [5, 5] for x [1, 2, 4, 4]");
  EXPECT_EQ(error_of([&] { avg_pool2d(x, {2}, {2}, {2}); }),
            "avg_pool2d: padding must be at most half of kernel_size: got [2, 2] and [2, 2]");
  EXPECT_EQ(error_of([&] {
              max_pool2d(ones({1, 1, 1, 1}).expand({1, 1, 4097, 4096}), {4097, 4096});
            }),
            "max_pool2d: windows are too large: got [4097, 4096], expected at most 2^24 elements");
  EXPECT_EQ(error_of([&] { max_pool2d(x, {0}); }),
            "max_pool2d: kernel_size must be at least 1: got [0]");
  EXPECT_EQ(error_of([&] {
              max_pool2d(ones({4, 4}), {2});
            }),
            "max_pool2d: x needs 4 axes (N, C, H, W) or 3 (C, H, W): got shape [4, 4]");
  EXPECT_EQ(error_of([&] { adaptive_avg_pool2d(x.to(kInt64), {1}); }),
            "adaptive_avg_pool2d: needs a floating dtype: got int64");
  EXPECT_EQ(error_of([&] {
              adaptive_avg_pool2d(ones({1, 1, 0, 2}), {1});
            }),
            "adaptive_avg_pool2d: the image is empty: got shape [1, 1, 0, 2]");
}

}  // namespace
}  // namespace wick::testing
