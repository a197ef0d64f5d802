#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "wick/core/base/check.h"
#include "wick/core/base/device.h"
#include "wick/core/base/dtype.h"
#include "wick/core/base/half.h"
#include "wick/core/base/parallel.h"
#include "wick/core/base/shape.h"
#include "wick/tests/harness/expect_error.h"

namespace wick {
namespace {

using wick::testing::error_of;
// --- 16-bit floats: every bit pattern, and every rounding between neighbours --------------------

/// The value of a binary16 pattern by the standard's definition.
double half_value(uint32_t bits) {
  const double sign = bits & 0x8000 ? -1.0 : 1.0;
  const int exponent = static_cast<int>(bits >> 10 & 31);
  const double fraction = bits & 1023;
  if (exponent == 31) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(Half, EveryPatternHasItsValueAndComesBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = Half::to_float(static_cast<uint16_t>(bits));
    const double expected = half_value(bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(Half::to_float(Half::from_float(value)))) << bits;
    } else {
      ASSERT_EQ(value, expected) << bits;
      ASSERT_EQ(Half::from_float(value), bits);
    }
  }
}

TEST(Half, RoundsToNearestEvenBetweenAllNeighbours) {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const float low = static_cast<float>(half_value(bits));
    const float high = static_cast<float>(half_value(bits + 1));
    const float middle = (low + high) / 2;  // exact in float
    const uint32_t even = bits & 1 ? bits + 1 : bits;
    ASSERT_EQ(Half::from_float(middle), even);
    ASSERT_EQ(Half::from_float(-middle), even | 0x8000);
    ASSERT_EQ(Half::from_float(std::nextafter(middle, low)), bits);
    ASSERT_EQ(Half::from_float(std::nextafter(middle, high)), bits + 1);
  }
}

TEST(Half, Extremes) {
  EXPECT_EQ(Half::from_float(65504.0f), 0x7bff);
  EXPECT_EQ(Half::from_float(std::nextafter(65520.0f, 0.0f)), 0x7bff);
  EXPECT_EQ(Half::from_float(65520.0f), 0x7c00);
  EXPECT_EQ(Half::from_float(-1e30f), 0xfc00);
  EXPECT_EQ(Half::from_float(0x1p-25f), 0);  // half of the smallest, to even
  EXPECT_EQ(Half::from_float(-0.0f), 0x8000);
  EXPECT_EQ(Half::from_float(std::numeric_limits<float>::denorm_min()), 0);
}

TEST(BFloat16, EveryPatternComesBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    BFloat16 x;
    x.bits = static_cast<uint16_t>(bits);
    const float value = x;
    uint32_t image = 0;
    std::memcpy(&image, &value, sizeof value);
    ASSERT_EQ(image, bits << 16);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(static_cast<float>(BFloat16(value)))) << bits;
    } else {
      ASSERT_EQ(BFloat16::from_float(value), bits);
    }
  }
}

TEST(BFloat16, RoundsToNearestEvenBetweenAllNeighbours) {
  for (uint32_t bits = 0; bits < 0x7f7f; ++bits) {
    const auto value = [](uint32_t image) {
      float out = 0;
      std::memcpy(&out, &image, sizeof out);
      return out;
    };
    const uint32_t even = bits & 1 ? bits + 1 : bits;
    ASSERT_EQ(BFloat16::from_float(value(bits << 16 | 0x8000)), even);
    ASSERT_EQ(BFloat16::from_float(-value(bits << 16 | 0x8000)), even | 0x8000);
    ASSERT_EQ(BFloat16::from_float(value(bits << 16 | 0x7fff)), bits);
    ASSERT_EQ(BFloat16::from_float(value(bits << 16 | 0x8001)), bits + 1);
  }
  EXPECT_EQ(BFloat16::from_float(std::numeric_limits<float>::max()), 0x7f80);
}

// --- Types --------------------------------------------------------------------------------------

constexpr Dtype kAllDtypes[] = {kFloat64, kFloat32, kFloat16, kBFloat16,
                                kInt64,   kInt32,   kUint8,   kBool};

TEST(Dtype, NamesSizesAndVisitors) {
  const char* names[] = {"float64", "float32", "float16", "bfloat16",
                         "int64",   "int32",   "uint8",   "bool"};
  for (size_t i = 0; i < std::size(kAllDtypes); ++i) {
    const Dtype dtype = kAllDtypes[i];
    EXPECT_EQ(to_string(dtype), names[i]);
    visit_dtype(dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      EXPECT_EQ(dtype_of<T>, dtype);
      EXPECT_EQ(size_of(dtype), static_cast<int64_t>(sizeof(T)));
    });
    if (is_floating(dtype)) continue;
    EXPECT_THROW(visit_floating(dtype, [](auto) {}), Error) << names[i];
  }
}

TEST(Dtype, PromotesAsPyTorchDoes) {
  EXPECT_EQ(promote(kFloat16, kBFloat16), kFloat32);
  EXPECT_EQ(promote(kBFloat16, kInt64), kBFloat16);
  EXPECT_EQ(promote(kFloat16, kFloat32), kFloat32);
  EXPECT_EQ(promote(kFloat32, kFloat64), kFloat64);
  EXPECT_EQ(promote(kUint8, kInt32), kInt32);
  EXPECT_EQ(promote(kBool, kUint8), kUint8);
  for (const Dtype a : kAllDtypes) {
    EXPECT_EQ(promote(a, a), a);
    for (const Dtype b : kAllDtypes) EXPECT_EQ(promote(a, b), promote(b, a));
  }
}

// --- Shapes -------------------------------------------------------------------------------------

TEST(Shape, HoldsUpToEightAxes) {
  Shape shape{2, 3, 5};
  EXPECT_EQ(shape.numel(), 30);
  EXPECT_EQ(Shape{}.numel(), 1);
  EXPECT_EQ((Shape{4, 0}).numel(), 0);
  shape.insert(1, 7);
  EXPECT_EQ(shape, (Shape{2, 7, 3, 5}));
  shape.erase(0);
  EXPECT_EQ(shape, (Shape{7, 3, 5}));
  EXPECT_NE(shape, (Shape{7, 3}));
  EXPECT_EQ(to_string(shape), "[7, 3, 5]");
  Shape full = Shape::filled(kMaxRank, 1);
  EXPECT_THROW(full.push_back(1), Error);
  EXPECT_GT((Shape{1 << 20, 1 << 20}).numel(), int64_t{1} << 32);
}

TEST(Shape, Broadcasts) {
  EXPECT_EQ(broadcast_shapes("add", {3, 1}, {4}), (Shape{3, 4}));
  EXPECT_EQ(broadcast_shapes("add", {}, {2, 3}), (Shape{2, 3}));
  EXPECT_EQ(broadcast_shapes("add", {1}, {0}), (Shape{0}));
  EXPECT_EQ(error_of([] {
              broadcast_shapes("add", {2, 3}, {4});
            }),
            "add: shapes do not broadcast: got [2, 3] and [4]");
  EXPECT_THROW(broadcast_shapes("add", {2}, {0}), Error);
}

TEST(Shape, WrapsAxes) {
  EXPECT_EQ(wrap_axis("sum", -1, 3), 2);
  EXPECT_EQ(wrap_axis("sum", 0, 3), 0);
  EXPECT_EQ(wrap_axis("sum", -1, 0), 0);
  EXPECT_EQ(error_of([] { wrap_axis("sum", 3, 3); }),
            "sum: axis out of range: got 3, expected one in [-3, 2]");
  EXPECT_THROW(wrap_axis("sum", -4, 3), Error);
  EXPECT_THROW(wrap_axis("sum", int64_t{1} << 32, 3), Error);
}

TEST(Shape, Strides) {
  const Shape shape{2, 3, 4, 5};
  EXPECT_EQ(contiguous_strides(shape), (Strides{60, 20, 5, 1}));
  EXPECT_EQ(channels_last_strides(shape), (Strides{60, 1, 15, 3}));
  EXPECT_TRUE(is_contiguous(shape, contiguous_strides(shape)));
  EXPECT_FALSE(is_contiguous(shape, channels_last_strides(shape)));
  EXPECT_TRUE(is_channels_last(shape, channels_last_strides(shape)));
  EXPECT_FALSE(is_channels_last(shape, contiguous_strides(shape)));
  EXPECT_TRUE(is_contiguous({1, 4}, {99, 1}));
  EXPECT_FALSE(is_contiguous({2, 4}, {8, 2}));
}

// --- Devices, threads, errors -------------------------------------------------------------------

TEST(Device, Parses) {
  EXPECT_EQ(parse_device("cpu"), kCpu);
  EXPECT_EQ(parse_device("cuda"), cuda_device(0));
  EXPECT_EQ(parse_device("cuda:13"), cuda_device(13));
  EXPECT_EQ(to_string(cuda_device(2)), "cuda:2");
  EXPECT_EQ(to_string(kCpu), "cpu");
  for (const char* bad : {"", "CPU", "cuda:", "cuda:-1", "cuda:1x", "cuda:99999", "cpu:0", "gpu"}) {
    EXPECT_EQ(error_of([&] { parse_device(bad); }), std::string("device: unknown name: got \"") +
                                                        bad + "\", expected cpu, cuda or cuda:N");
  }
}

TEST(Parallel, CoversTheRangeOnceForAnyNumberOfThreads) {
  const int before = num_threads();
  for (const int threads : {1, 2, 3, 7}) {
    set_num_threads(threads);
    EXPECT_EQ(num_threads(), threads);
    for (const int64_t n : {0, 1, 5, 1000, 1001}) {
      std::vector<int> hits(static_cast<size_t>(n), 0);
      parallel_for(n, 10, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++hits[static_cast<size_t>(i)];
      });
      EXPECT_EQ(hits, std::vector<int>(static_cast<size_t>(n), 1));
    }
  }
  set_num_threads(before);
  EXPECT_THROW(set_num_threads(0), Error);
}

TEST(Parallel, ChunksAreTheSameForAnyNumberOfThreads) {
  const int before = num_threads();
  const auto cut = [](int threads) {
    set_num_threads(threads);
    std::vector<int64_t> bounds(8, -1);
    parallel_chunks(31, 8, [&](int64_t i, int64_t begin, int64_t end) {
      bounds[static_cast<size_t>(2 * i)] = begin;
      bounds[static_cast<size_t>(2 * i + 1)] = end;
    });
    return bounds;
  };
  const std::vector<int64_t> expected = {0, 8, 8, 16, 16, 24, 24, 31};
  for (const int threads : {1, 2, 3, 5}) EXPECT_EQ(cut(threads), expected);
  set_num_threads(before);
}

TEST(Check, JoinsItsParts) {
  const auto fails = [] {
    WICK_CHECK(false, "op: wrong: got ", 3, ", ", uint8_t{200}, ", ", 0.5f, ", ", true, ", ", 'c',
               ", ", Shape{1}, ", ", std::string("s"), ", ", kInt64);
  };
  EXPECT_EQ(error_of(fails), "op: wrong: got 3, 200, 0.5, true, c, [1], s, int64");
  EXPECT_EQ(error_of([] { WICK_CHECK(true, "never"); }), "no error");
  EXPECT_EQ(concat("a", int64_t{-5}, std::numeric_limits<uint64_t>::max()),
            "a-518446744073709551615");
}

}  // namespace
}  // namespace wick
