#include <gtest/gtest.h>

#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/stream.h"
#include "wick/tests/core/ops/elementwise_cases.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

WICK_OP_CASE(
    clone, .samples = unary_samples(),
    .call = [](const Tensors& x) -> Tensors { return {x[0].clone()}; },
    .reference = elementwise([](double x) { return x; }), .tolerance = Tolerance::exact(),
    .second_order = true);
WICK_OP_CASE(
    to_device, .samples = unary_samples(),
    .call = [](const Tensors& x) -> Tensors {
      return {x[0].to(cuda_is_available() ? cuda_device(0) : kCpu).to(kCpu).to(x[0].device())};
    },
    .reference = elementwise([](double x) { return x; }), .tolerance = Tolerance::exact(),
    .second_order = true);
// Its gradient is rounded to float32, which central differences in float64 would not forgive: see
// Cast.HasAGradient.
WICK_OP_CASE(
    cast, .covers = {"cast"}, .samples = unary_samples(),
    .call = [](const Tensors& x) -> Tensors { return {x[0].to(kFloat32).to(x[0].dtype())}; },
    .reference = elementwise([](double x) -> double { return static_cast<float>(x); }),
    .differentiable = false);
WICK_OP_CASE(
    copy_in_place, .samples = {{uniform({5, 33}), uniform({33})}, {uniform({7}), uniform({7})}},
    .call = [](const Tensors& x) -> Tensors {
      const Tensor y = x[0] * 1.0;
      y.copy_(x[1]);
      return {y};
    },
    .reference = elementwise([](double, double y) { return y; }), .second_order = true);
WICK_OP_CASE(
    fill_in_place, .samples = unary_samples(),
    .call = [](const Tensors& x) -> Tensors {
      const Tensor y = x[0] * 1.0;
      y.fill_(0.5);
      return {y};
    },
    .reference = elementwise([](double) { return 0.5; }), .tolerance = Tolerance::exact(),
    .second_order = true);
WICK_OP_CASE(
    arange, .covers = {"arange"},
    .samples = {{uniform({0})}, {uniform({1})}, {uniform({33})}, {uniform({3000})}},
    .call = [](const Tensors& x) -> Tensors {
      const int64_t n = x[0].numel();
      return {arange(-4, -4 + 0.125 * static_cast<double>(n), 0.125, x[0].dtype(), x[0].device()),
              arange(n, 0, -1, kInt64, x[0].device())};
    },
    .reference = [](const Arrays& x) -> Arrays {
      HostArray up = x[0], down = x[0];
      for (size_t i = 0; i < up.values.size(); ++i) {
        up.values[i] = static_cast<double>(i) * 0.125 - 4;
        down.values[i] = static_cast<double>(up.values.size() - i);
      }
      return {up, down};
    },
    .differentiable = false);

// --- Conversions --------------------------------------------------------------------------------

constexpr Dtype kDtypes[] = {kFloat64, kFloat32, kFloat16, kBFloat16,
                             kInt64,   kInt32,   kUint8,   kBool};

TEST(Cast, KeepsSmallWholeNumbersBetweenAllDtypes) {
  for (const int64_t n : {0, 1, 7, 8, 33, 1000}) {
    std::vector<double> values;
    for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<double>(i % 101));
    for (const Dtype from : kDtypes) {
      for (const Dtype to : kDtypes) {
        const Tensor x = tensor(values).to(from);
        const bool truth = from == kBool || to == kBool;
        const auto got = x.to(to).to(kFloat64).to_vector<double>();
        for (size_t i = 0; i < values.size(); ++i) {
          ASSERT_EQ(got[i], truth ? values[i] != 0 : values[i])
              << to_string(from) << " to " << to_string(to) << " at " << i << " of " << n;
        }
      }
    }
  }
}

TEST(Cast, OfLongTensorsIsTheSameOnEveryDevice) {
  const Tensor values = empty({9001}).normal_();
  for (const Dtype from : {kFloat64, kFloat32, kFloat16, kBFloat16}) {
    for (const Dtype to : {kFloat64, kFloat32, kFloat16, kBFloat16}) {
      const Tensor x = values.to(from);
      for (const int64_t start : {0, 1}) {
        const std::vector<double> want =
            x.narrow(0, start, 9000).to(to).to(kFloat64).to_vector<double>();
        for (const Device device : devices()) {
          const Tensor y = x.to(device).narrow(0, start, 9000).to(to);
          EXPECT_EQ(y.to(kCpu).to(kFloat64).to_vector<double>(), want)
              << to_string(from) << " to " << to_string(to) << " from element " << start;
        }
      }
    }
  }
}

TEST(Cast, RoundsOnceAndKeepsSpecialValues) {
  // Every tenth half, and what lies a little to either side of it.
  std::vector<float> values;
  for (uint32_t bits = 0; bits < 65536; bits += 10) {
    Half half;
    half.bits = static_cast<uint16_t>(bits);
    for (const float factor : {0.9998f, 1.0f, 1.0003f}) values.push_back(float{half} * factor);
  }
  const Tensor x = tensor(values);
  const std::vector<Half> halves = x.to(kFloat16).to_vector<Half>();
  const std::vector<BFloat16> brains = x.to(kBFloat16).to_vector<BFloat16>();
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) {
      ASSERT_TRUE(std::isnan(float{halves[i]}) && std::isnan(float{brains[i]}));
    } else {
      ASSERT_EQ(halves[i].bits, Half(values[i]).bits) << values[i];
      ASSERT_EQ(brains[i].bits, BFloat16(values[i]).bits) << values[i];
    }
  }
  EXPECT_EQ(tensor<float>({2.9f, -2.9f, 300}).to(kInt64).to_vector<int64_t>(),
            (std::vector<int64_t>{2, -2, 300}));
  EXPECT_EQ(tensor<float>({-1, 257}).to(kUint8).to_vector<uint8_t>(),
            (std::vector<uint8_t>{255, 1}));
  EXPECT_EQ(tensor<float>({0.3f, 0, NAN}).to(kBool).to_vector<bool>(),
            (std::vector<bool>{true, false, true}));
}

TEST(Cast, HasAGradient) {
  const Tensor x = tensor<double>({1, -2, 3}).to(kBFloat16);
  x.set_requires_grad();
  const Tensor y = x.to(kFloat32);
  const Tensor dx = grad({y * y}, {x}, {ones({3})}, false, true)[0];
  EXPECT_EQ(dx.dtype(), kBFloat16);
  EXPECT_EQ(dx.to(kFloat32).to_vector<float>(), (std::vector<float>{2, -4, 6}));
  const Tensor ddx = grad({dx}, {x}, {ones({3}, kBFloat16)})[0];
  EXPECT_EQ(ddx.to(kFloat32).to_vector<float>(), (std::vector<float>{2, 2, 2}));
  EXPECT_FALSE(x.to(kInt64).requires_grad());
}

TEST(Cast, GivesTheSameTensorWhereNothingChanges) {
  const Tensor x = ones({3});
  EXPECT_TRUE(x.to(kFloat32).is_same(x));
  EXPECT_TRUE(x.contiguous().is_same(x));
  EXPECT_FALSE(x.clone().is_same(x));
}

// --- Strides ------------------------------------------------------------------------------------

// Elements of x read one by one.
std::vector<float> read_slowly(const Tensor& x) {
  std::vector<float> values;
  const Shape& shape = x.shape();
  for (int64_t i = 0; i < x.numel(); ++i) {
    int64_t offset = 0, rest = i;
    for (int axis = x.rank() - 1; axis >= 0; --axis) {
      offset += rest % shape[axis] * x.strides()[axis];
      rest /= shape[axis];
    }
    values.push_back(x.data<float>()[offset]);
  }
  return values;
}

TEST(Copy, WalksAnyStrides) {
  for (const Shape& shape : {Shape{2, 3, 4, 5}, Shape{1, 3, 67, 129}, Shape{3, 64, 33, 35},
                             Shape{2, 130, 1, 100}, Shape{0, 3, 2, 2}}) {
    const Tensor x = arange(0, shape.numel()).reshape(shape).to(kFloat32);
    const Tensor last = x.contiguous(MemoryFormat::kChannelsLast);
    EXPECT_TRUE(last.is_contiguous(MemoryFormat::kChannelsLast));
    EXPECT_EQ(read_slowly(last), read_slowly(x));
    EXPECT_EQ(read_slowly(last.contiguous()), read_slowly(x));
    for (const Shape& axes : {Shape{3, 2, 1, 0}, Shape{1, 0, 3, 2}, Shape{0, 3, 1, 2}}) {
      const Tensor view = x.permute(axes);
      EXPECT_EQ(read_slowly(view.contiguous()), read_slowly(view));
      const Tensor half = view.contiguous().to(kBFloat16);
      EXPECT_EQ(read_slowly(half.to(kFloat32)), read_slowly(view.to(kBFloat16).to(kFloat32)));
    }
    if (shape.numel() == 0) continue;
    EXPECT_EQ(x.permute({3, 0, 2, 1}).clone().strides(), x.permute({3, 0, 2, 1}).strides());
    const Tensor strided = x.slice(3, 0, shape[3], 2).slice(1, 0, shape[1], 2);
    EXPECT_EQ(read_slowly(strided.contiguous()), read_slowly(strided));
    const Tensor target = zeros_like(x);
    target.slice(3, 0, shape[3], 2).copy_(x.slice(3, 0, shape[3], 2));
    EXPECT_EQ(read_slowly(target.slice(3, 0, shape[3], 2)),
              read_slowly(x.slice(3, 0, shape[3], 2)));
  }
}

// The elements of `view`, in order, where `all` are those of the whole tensor below it.
std::vector<double> read_through(const std::vector<double>& all, const Tensor& view) {
  std::vector<double> values;
  for (int64_t i = 0; i < view.numel(); ++i) {
    int64_t offset = 0, left = i;
    for (int64_t axis = view.rank() - 1; axis >= 0; --axis) {
      offset += left % view.size(axis) * view.strides()[static_cast<int>(axis)];
      left /= view.size(axis);
    }
    values.push_back(all[static_cast<size_t>(offset)]);
  }
  return values;
}

TEST(Copy, TransposesOnEveryDevice) {
  // Tiles that are square, long, cut off, of one row and of all that is there.
  for (const Shape& shape : {Shape{3, 37, 70}, Shape{1, 130, 5}, Shape{2, 2, 600}, Shape{1, 9, 100},
                             Shape{35, 3, 33}, Shape{1, 145, 88}}) {
    std::vector<double> values;
    for (int64_t i = 0; i < shape.numel(); ++i) values.push_back(static_cast<double>(i % 127));
    for (const Dtype dtype : kDtypes) {
      const Tensor x = tensor(values).reshape(shape).to(dtype);
      for (const Shape& axes : {Shape{0, 2, 1}, Shape{2, 1, 0}, Shape{1, 2, 0}}) {
        const Tensor view = x.permute(axes), thin = view.slice(1, 0, view.size(1), 2);
        const auto all = x.to(kFloat64).to_vector<double>();
        const auto want = read_through(all, view), want_thin = read_through(all, thin);
        for (const Device device : devices()) {
          const Tensor there = x.to(device).permute(axes);
          const Tensor y = there.contiguous();
          ASSERT_EQ(y.to(kCpu).to(kFloat64).to_vector<double>(), want) << shape << dtype << axes;
          const Tensor of_thin = there.slice(1, 0, view.size(1), 2).contiguous();
          ASSERT_EQ(of_thin.to(kCpu).to(kFloat64).to_vector<double>(), want_thin);
          const Tensor back = zeros(shape, dtype, device);
          back.permute(axes).copy_(y);
          ASSERT_EQ(back.to(kCpu).to(kFloat64).to_vector<double>(),
                    x.to(kFloat64).to_vector<double>());
        }
      }
    }
  }
}

TEST(Copy, TakesEverySecondElement) {
  for (const int64_t n : {1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65, 100, 300, 5000}) {
    std::vector<double> values, want;
    for (int64_t i = 0; i < 2 * n - 1; ++i) {
      values.push_back(static_cast<double>(i * 7 % 127));
      if (i % 2 == 0) want.push_back(values.back());
    }
    for (const Dtype dtype : kDtypes) {
      const Tensor x = tensor(values).to(dtype);  // which ends with the last one wanted
      const Tensor seconds = x.slice(0, 0, 2 * n, 2).contiguous();
      ASSERT_TRUE(equal(seconds, tensor(want).to(dtype))) << n << dtype;
    }
  }
}

TEST(Copy, StoresLargeResultsWhole) {
  // Past the caches, on a first address that is not aligned.
  const int64_t n = (int64_t{1} << 20) + 13;
  const Tensor x = arange(0, n).to(kInt32);
  const Tensor y = zeros({n + 3}, kInt32);
  y.narrow(0, 3, n).copy_(x);
  const std::vector<int32_t> values = y.to_vector<int32_t>();
  EXPECT_EQ(values[2], 0);
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(values[static_cast<size_t>(i) + 3], i);
  const Tensor filled = empty({n}, kUint8);
  filled.fill_(9);
  for (const uint8_t value : filled.to_vector<uint8_t>()) ASSERT_EQ(value, 9);
}

TEST(Copy, BroadcastsConvertsAndReadsOverlapsAsTheyWere) {
  const Tensor x = zeros({2, 3}, kInt64);
  x.copy_(tensor<float>({1.5f, 2, -3.5f}));
  EXPECT_EQ(x.to_vector<int64_t>(), (std::vector<int64_t>{1, 2, -3, 1, 2, -3}));
  const Tensor y = arange(0, 6);
  y.narrow(0, 1, 5).copy_(y.narrow(0, 0, 5));
  EXPECT_EQ(y.to_vector<int64_t>(), (std::vector<int64_t>{0, 0, 1, 2, 3, 4}));
  EXPECT_NE(error_of([&] { y.copy_(zeros({7})); }).find("do not broadcast"), std::string::npos);
  EXPECT_NE(error_of([&] { y.copy_(zeros({2, 6})); }).find("expected [2, 6]"), std::string::npos);
}

TEST(Fill, ConvertsItsValue) {
  EXPECT_EQ(full({2}, 0.5, kBool).to_vector<bool>(), (std::vector<bool>{true, true}));
  EXPECT_EQ(full({1}, 2.75, kInt64).to_vector<int64_t>()[0], 2);
  EXPECT_EQ(full({1}, (int64_t{1} << 53) + 1, kInt64).to_vector<int64_t>()[0],
            (int64_t{1} << 53) + 1);
  EXPECT_EQ(float{full({1}, 0.1, kFloat16).to_vector<Half>()[0]}, float{Half(0.1f)});
  EXPECT_EQ(full({}, 3).to_vector<float>(), std::vector<float>{3});
}

}  // namespace
}  // namespace wick::testing
