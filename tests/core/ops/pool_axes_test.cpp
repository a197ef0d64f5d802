// Poolings of signals and volumes, those with indices, and max unpooling.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "wick/core/ops/compare.h"
#include "wick/core/ops/divide.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/pool.h"
#include "wick/core/ops/random.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/op_case.h"

namespace wick::testing {
namespace {

// The arguments of a pooling of any number of axes, with an entry for each.
struct AxesPool {
  Shape kernel, stride, padding, dilation;
  bool ceil = false;
  bool adaptive = false;  // `kernel` is the size of the result
};

// Calls `visit(index)` for every index into `sizes`, in row-major order.
template <class Visit>
void for_each_place(const Shape& sizes, const Visit& visit) {
  for (int64_t i = 0; i < sizes.numel(); ++i) {
    Shape index = sizes;
    int64_t rest = i;
    for (int axis = sizes.rank() - 1; axis >= 0; --axis) {
      index[axis] = rest % sizes[axis];
      rest /= sizes[axis];
    }
    visit(index);
  }
}

int64_t pool_windows(const AxesPool& s, int axis, int64_t in) {
  if (s.adaptive) return s.kernel[axis];
  const int64_t reach = s.dilation[axis] * (s.kernel[axis] - 1) + 1;
  int64_t count = 0;
  for (int64_t start = -s.padding[axis];; start += s.stride[axis], ++count) {
    const bool fits = start + reach <= in + s.padding[axis];
    const bool short_before = start - s.stride[axis] + reach < in + s.padding[axis];
    if (!fits && !(s.ceil && start < in && short_before)) return count;
  }
}

// Whether window `o` of an axis holds element `i`, which may lie in the padding.
bool holds(const AxesPool& s, int axis, int64_t in, int64_t o, int64_t i) {
  if (s.adaptive) return (i + 1) * s.kernel[axis] > o * in && i * s.kernel[axis] < (o + 1) * in;
  const int64_t from = i - (o * s.stride[axis] - s.padding[axis]);
  return from >= 0 && from % s.dilation[axis] == 0 && from / s.dilation[axis] < s.kernel[axis];
}

// `pool(elements, their places, elements with those of the padding)` of every window.
template <class Pool>
HostArray pooled_axes(const HostArray& x, const AxesPool& s, const Pool& pool) {
  const int axes = x.shape.rank() - 2;
  Shape in, out, padded;
  for (int axis = 0; axis < axes; ++axis) {
    in.push_back(x.shape[axis + 2]);
    out.push_back(pool_windows(s, axis, in[axis]));
    padded.push_back(in[axis] + (s.adaptive ? 0 : 2 * s.padding[axis]));
  }
  HostArray y{{x.shape[0], x.shape[1]}, {}};
  for (const int64_t size : out) y.shape.push_back(size);
  for (int64_t image = 0; image < x.shape[0] * x.shape[1]; ++image) {
    for_each_place(out, [&](const Shape& o) {
      std::vector<double> window, places;
      int64_t count = 0;
      for_each_place(padded, [&](const Shape& at) {
        int64_t place = 0;
        bool inside = true;
        for (int axis = 0; axis < axes; ++axis) {
          const int64_t i = at[axis] - (s.adaptive ? 0 : s.padding[axis]);
          if (!holds(s, axis, in[axis], o[axis], i)) return;
          inside = inside && i >= 0 && i < in[axis];
          place = place * in[axis] + i;
        }
        ++count;
        if (!inside) return;
        window.push_back(x.values[static_cast<size_t>(image * in.numel() + place)]);
        places.push_back(static_cast<double>(place));
      });
      y.values.push_back(pool(window, places, count));
    });
  }
  return y;
}

size_t place_of_largest(const std::vector<double>& window) {
  size_t best = 0;
  for (size_t i = 1; i < window.size(); ++i) {
    if (window[i] > window[best]) best = i;
  }
  return best;
}

Arrays largest_and_places(const HostArray& x, const AxesPool& s) {
  using Doubles = std::vector<double>;
  return {pooled_axes(x, s,
                      [](const Doubles& window, const Doubles&, int64_t) {
                        return window[place_of_largest(window)];
                      }),
          pooled_axes(x, s, [](const Doubles& window, const Doubles& places, int64_t) {
            return places[place_of_largest(window)];
          })};
}

HostArray means(const HostArray& x, const AxesPool& s, bool count_padding, int64_t divisor) {
  using Doubles = std::vector<double>;
  return pooled_axes(x, s, [=](const Doubles& window, const Doubles&, int64_t padded) {
    double sum = 0;
    for (const double value : window) sum += value;
    const auto inside = static_cast<int64_t>(window.size());
    return sum / static_cast<double>(divisor != 0 ? divisor : count_padding ? padded : inside);
  });
}

Tensors both(const Sorted& result) { return {result.values, result.indices}; }

const AxesPool kSignalPool{{3}, {2}, {1}, {2}, true}, kImagePool{{3, 2}, {2, 1}, {1, 0}, {1, 2}};
const AxesPool kVolumePool{{2, 3, 2}, {2, 1, 2}, {1, 1, 0}, {1, 2, 1}, true};
const AxesPool kPlainVolumePool{{3, 2, 2}, {2, 2, 1}, {1, 0, 1}, {1, 1, 1}, true};

WICK_OP_CASE(
    max_pool1d, .samples = {{distinct({2, 3, 8})}, {distinct({1, 17, 5})}},
    .call = [](const Tensors& x) { return both(max_pool1d_with_indices(x[0], 3, 2, 1, 2, true)); },
    .reference = [](const Arrays& x) { return largest_and_places(x[0], kSignalPool); },
    .tolerance = Tolerance::exact(), .second_order = true);

WICK_OP_CASE(
    max_pool2d_with_indices, .samples = {{distinct({2, 3, 6, 7})}, {distinct({1, 17, 3, 5})}},
    .call =
        [](const Tensors& x) {
          return both(max_pool2d_with_indices(x[0], {3, 2}, {2, 1}, {1, 0}, {1, 2}));
        },
    .reference = [](const Arrays& x) { return largest_and_places(x[0], kImagePool); },
    .tolerance = Tolerance::exact(), .second_order = true);

WICK_OP_CASE(
    max_pool3d, .samples = {{distinct({2, 2, 3, 5, 4})}, {distinct({1, 5, 4, 3, 2})}},
    .call =
        [](const Tensors& x) {
          return both(
              max_pool3d_with_indices(x[0], {2, 3, 2}, {2, 1, 2}, {1, 1, 0}, {1, 2, 1}, true));
        },
    .reference = [](const Arrays& x) { return largest_and_places(x[0], kVolumePool); },
    .tolerance = Tolerance::exact(), .second_order = true);

WICK_OP_CASE(
    adaptive_max_pool2d, .samples = {{distinct({2, 3, 7, 5})}, {distinct({1, 18, 2, 9})}},
    .call =
        [](const Tensors& x) {
          return both(adaptive_max_pool2d_with_indices(x[0], {3, 4}));
        },
    .reference =
        [](const Arrays& x) {
          return largest_and_places(x[0], {{3, 4}, {}, {}, {}, false, true});
        },
    .tolerance = Tolerance::exact(), .second_order = true);

WICK_OP_CASE(
    adaptive_max_pool3d, .samples = {{distinct({2, 2, 4, 5, 3})}},
    .call =
        [](const Tensors& x) {
          return both(adaptive_max_pool3d_with_indices(x[0], {3, 2, 2}));
        },
    .reference =
        [](const Arrays& x) {
          return largest_and_places(x[0], {{3, 2, 2}, {}, {}, {}, false, true});
        },
    .tolerance = Tolerance::exact(), .second_order = true);

WICK_OP_CASE(
    avg_pool1d, .samples = {{normal({2, 3, 8})}, {normal({1, 17, 5})}},
    .call = [](const Tensors& x) -> Tensors {
      return {avg_pool1d(x[0], 3, 2, 1, true), avg_pool1d(x[0], 3, 2, 1, true, false)};
    },
    .reference = [](const Arrays& x) -> Arrays {
      const AxesPool s{{3}, {2}, {1}, {1}, true};
      return {means(x[0], s, true, 0), means(x[0], s, false, 0)};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);

WICK_OP_CASE(
    avg_pool2d_by_a_divisor, .samples = {{normal({2, 3, 6, 7})}},
    .call = [](const Tensors& x) -> Tensors {
      return {avg_pool2d(x[0], {3, 2}, 2, 1, true, true, 5)};
    },
    .reference = [](const Arrays& x) -> Arrays {
      return {means(x[0], {{3, 2}, {2, 2}, {1, 1}, {1, 1}, true}, true, 5)};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);

WICK_OP_CASE(
    avg_pool3d, .samples = {{normal({2, 3, 4, 5, 3})}, {normal({1, 17, 3, 2, 2})}},
    .call = [](const Tensors& x) -> Tensors {
      const Shape kernel{3, 2, 2}, stride{2, 2, 1}, padding{1, 0, 1};
      return {avg_pool3d(x[0], kernel, stride, padding, true),
              avg_pool3d(x[0], kernel, stride, padding, true, false),
              avg_pool3d(x[0], kernel, stride, padding, true, true, 7)};
    },
    .reference = [](const Arrays& x) -> Arrays {
      return {means(x[0], kPlainVolumePool, true, 0), means(x[0], kPlainVolumePool, false, 0),
              means(x[0], kPlainVolumePool, true, 7)};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);

WICK_OP_CASE(
    adaptive_avg_pool3d, .samples = {{normal({2, 3, 4, 5, 3})}, {normal({1, 1, 2, 3, 4})}},
    .call = [](const Tensors& x) -> Tensors {
      return {adaptive_avg_pool3d(x[0], {3, 2, 4})};
    },
    .reference = [](const Arrays& x) -> Arrays {
      return {means(x[0], {{3, 2, 4}, {}, {}, {}, false, true}, false, 0)};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);

WICK_OP_CASE(
    lp_pool2d, .samples = {{uniform({2, 3, 6, 7}, 0.2, 2)}},
    .call = [](const Tensors& x) -> Tensors {
      return {lp_pool2d(x[0], 3, 2, {2, 1})};
    },
    .reference = [](const Arrays& x) -> Arrays {
      HostArray powers = x[0];
      for (double& value : powers.values) value = value * value * value;
      HostArray y = means(powers, {{2, 2}, {2, 1}, {0, 0}, {1, 1}}, true, 1);
      for (double& value : y.values) value = std::cbrt(value);
      return {y};
    },
    .tolerance = Tolerance::matmul(), .second_order = true);

TEST(MaxPool, OfIntegersAndItsIndices) {
  for (const Dtype dtype : {kInt64, kInt32, kUint8}) {
    // Twos and threes, so that many are equal; negative ones stay above the margin.
    const Tensor x = remainder(arange(120).reshape({2, 2, 5, 6}) * 7, 3).to(dtype);
    const Sorted got = max_pool2d_with_indices(x, {3, 2}, {2, 1}, {1, 1}, {1, 2}, true);
    const Sorted want =
        max_pool2d_with_indices(x.to(kFloat64), {3, 2}, {2, 1}, {1, 1}, {1, 2}, true);
    EXPECT_EQ(got.values.dtype(), dtype);
    EXPECT_TRUE(equal(got.values, want.values.to(dtype)));
    EXPECT_TRUE(equal(got.indices, want.indices));
  }
  const int64_t least = std::numeric_limits<int64_t>::min();
  const Sorted got = max_pool1d_with_indices(tensor<int64_t>({least, least}, Shape{1, 2}), 2, 1, 1);
  EXPECT_EQ(got.values.to_vector<int64_t>(), (std::vector<int64_t>{least, least, least}));
  EXPECT_EQ(got.indices.to_vector<int64_t>(), (std::vector<int64_t>{0, 0, 1}));
  const Tensor x = arange(24).reshape({1, 2, 3, 4});
  EXPECT_TRUE(equal(max_pool3d(x, {2, 2, 3}).to(kFloat32), max_pool3d(x.to(kFloat32), {2, 2, 3})));
  EXPECT_EQ(error_of([&] { max_pool2d(x.to(kBool), 2); }), "max_pool2d: needs numbers: got bool");
}

TEST(MaxPool, VolumesKeepTheLastNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = tensor<float>({1, nan, 5, 2, nan, 3, 4, 9}, Shape{1, 2, 2, 2});
  const Sorted got = max_pool3d_with_indices(x, 2);
  EXPECT_TRUE(std::isnan(got.values.item()));
  EXPECT_EQ(got.indices.item<int64_t>(), 4);
}

TEST(MaxUnpool, PutsElementsBack) {
  const Tensor x = randn({2, 3, 6, 8}).set_requires_grad();
  const Sorted pooled = max_pool2d_with_indices(x, 2);
  const Tensor y = max_unpool2d(pooled.values, pooled.indices, 2);
  EXPECT_EQ(y.shape(), x.shape());
  EXPECT_TRUE(equal(max_pool2d(y, 2), clamp(pooled.values, 0)));
  EXPECT_TRUE(equal(y, x * ne(y, 0)));
  (y * y).sum().backward();
  EXPECT_TRUE(allclose(x.grad(), y * 2));
  EXPECT_EQ(max_unpool2d(pooled.values, pooled.indices, 2, {}, 0, {7, 8}).shape(),
            (Shape{2, 3, 7, 8}));
  const Tensor volume = randn({1, 2, 4, 4, 4}), signal = randn({3, 9});
  const Sorted of_volume = max_pool3d_with_indices(volume, 2);
  const Tensor back = max_unpool3d(of_volume.values, of_volume.indices, 2);
  EXPECT_TRUE(equal(back, volume * ne(back, 0)));
  const Sorted of_signal = max_pool1d_with_indices(signal, 3);
  const Tensor line = max_unpool1d(of_signal.values, of_signal.indices, 3);
  EXPECT_TRUE(equal(line, signal * ne(line, 0)));
  EXPECT_EQ(error_of([&] {
              max_unpool2d(pooled.values, pooled.indices, 2, {}, 0, {9, 8});
            }),
            "max_unpool2d: output_size does not fit: got 9 for an axis of 3, expected more than 4 "
            "and less than 8");
  EXPECT_EQ(error_of([&] { max_unpool2d(pooled.values, of_signal.indices, 2); }),
            "max_unpool2d: shapes differ: got x [2, 3, 3, 4] and indices [3, 3]");
}

TEST(MaxUnpool, TakesAWholeShape) {
  const Tensor x = tensor({3.f, 5.f}, Shape{1, 1, 2});
  const Tensor indices = tensor<int64_t>({1, 3}, Shape{1, 1, 2});
  EXPECT_TRUE(
      equal(max_unpool1d(x, indices, 2, 2, 0, {1, 1, 5}), max_unpool1d(x, indices, 2, 2, 0, {5})));
}

TEST(Pool, OfOtherNumbersOfAxesRejectsWhatDoesNotFit) {
  EXPECT_EQ(error_of([] {
              max_pool1d(ones({2, 3, 4, 4}), 2);
            }),
            "max_pool1d: x needs 3 axes (N, C, L) or 2 (C, L): got shape [2, 3, 4, 4]");
  EXPECT_EQ(error_of([] {
              avg_pool3d(ones({2, 3, 4}), 2);
            }),
            "avg_pool3d: x needs 5 axes (N, C, D, H, W) or 4 (C, D, H, W): got shape [2, 3, 4]");
  EXPECT_EQ(error_of([] {
              avg_pool3d(ones({2, 3, 4, 4, 4}), {2, 2});
            }),
            "avg_pool3d: kernel_size needs 1 or 3 entries: got [2, 2]");
  EXPECT_EQ(error_of([] {
              avg_pool1d(ones({2, 3, 4}).to(kInt64), 2);
            }),
            "avg_pool1d: needs a floating dtype: got int64");
  EXPECT_EQ(error_of([] {
              avg_pool2d(ones({3, 4, 4}), 2, {}, 0, false, true, 0);
            }),
            "avg_pool2d: divisor_override must not be 0");
  EXPECT_EQ(error_of([] {
              lp_pool2d(ones({3, 4, 4}), 0, 2);
            }),
            "lp_pool2d: norm_type must not be 0");
}

TEST(LpPool, GivesWindowsOfZerosNoGradient) {
  const Tensor x = zeros({1, 2, 4}).set_requires_grad();
  x.detach()[0][1].slice(0, 0, 2).copy_(tensor<float>({3, 4}));
  const Tensor y = lp_pool1d(x, 2, 2);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{0, 0, 5, 0}));
  y.sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{0, 0, 0, 0, 0.6f, 0.8f, 0, 0}));
}

}  // namespace
}  // namespace wick::testing
