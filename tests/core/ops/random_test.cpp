#include "wick/core/ops/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "wick/core/base/parallel.h"
#include "wick/core/base/philox.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/stream.h"
#include "wick/tests/harness/op_case.h"

namespace wick::testing {
namespace {

// Word i of draw `offset` under `seed`, as kernels/random.h defines it.
uint32_t word(uint64_t seed, uint64_t offset, size_t i) {
  const Uint32x4 words = philox4x32(seed, (uint64_t{1} << 63) + i / 4, offset);
  return i % 4 == 0 ? words.x : i % 4 == 1 ? words.y : i % 4 == 2 ? words.z : words.w;
}

struct Moments {
  double mean = 0, variance = 0, skewness = 0, kurtosis = 0;
};
Moments moments(const Tensor& x) {
  const std::vector<double> values = read(x).values;
  const double n = static_cast<double>(values.size());
  Moments m;
  for (const double v : values) m.mean += v / n;
  for (const double v : values) {
    const double d = v - m.mean;
    m.variance += d * d / n;
    m.skewness += d * d * d / n;
    m.kurtosis += d * d * d * d / n;
  }
  m.skewness /= std::pow(m.variance, 1.5);
  m.kurtosis /= m.variance * m.variance;
  return m;
}

// How far counts in equally likely cells lie from even, per degree of freedom: about 1.
double chi_square(const std::vector<int64_t>& counts) {
  double total = 0, sum = 0;
  for (const int64_t count : counts) total += static_cast<double>(count);
  const double expected = total / static_cast<double>(counts.size());
  for (const int64_t count : counts) sum += std::pow(static_cast<double>(count) - expected, 2);
  return sum / expected / static_cast<double>(counts.size() - 1);
}

double correlation(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = read(a).values, y = read(b).values;
  const Moments mx = moments(a), my = moments(b);
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += (x[i] - mx.mean) * (y[i] - my.mean);
  return sum / static_cast<double>(x.size()) / std::sqrt(mx.variance * my.variance);
}

// The numbers that elements take depend on their order in memory, so layouts differ.
WICK_OP_CASE(
    dropout,
    .samples = {{normal({31, 33})},
                {normal({1})},
                {normal({})},
                {normal({0, 3})},
                {normal({127})},
                {normal({50, 1025})}},
    .call = [](const Tensors& x) -> Tensors {
      Generator generator(5);
      generator.next();
      return {dropout(x[0], 0.3, true, &generator)};
    },
    .reference = [](const Arrays& x) -> Arrays {
      HostArray y = x[0];
      for (size_t i = 0; i < y.values.size(); ++i) {
        y.values[i] = word(5, 1, i) < 0.3 * 0x1p32 ? 0 : y.values[i] / 0.7;
      }
      return {y};
    },
    .second_order = true, .any_layout = false, .traceable = false);

WICK_OP_CASE(
    dropout2d, .samples = {{normal({3, 5, 2, 4})}, {normal({2, 33})}},
    .call = [](const Tensors& x) -> Tensors {
      Generator generator(5);
      return {dropout2d(x[0], 0.25, true, &generator)};
    },
    .reference = [](const Arrays& x) -> Arrays {
      HostArray y = x[0];
      const size_t inner = y.values.size() / static_cast<size_t>(y.shape[0] * y.shape[1]);
      for (size_t i = 0; i < y.values.size(); ++i) {
        y.values[i] = word(5, 0, i / inner) < 0x1p30 ? 0 : y.values[i] / 0.75;
      }
      return {y};
    },
    .second_order = true, .traceable = false);

WICK_OP_CASE(
    uniform_, .covers = {"uniform_"},
    .samples = {{normal({31, 33})},
                {normal({})},
                {normal({0, 3})},
                {normal({2, 3, 4, 5})},
                {normal({3, 20001})}},
    .call = [](const Tensors& x) -> Tensors {
      manual_seed(5);
      const Tensor y = x[0].clone();
      y.uniform_(-1, 3);
      return {y};
    },
    .reference = [](const Arrays& x) -> Arrays {
      HostArray y = x[0];
      for (size_t i = 0; i < y.values.size(); ++i) y.values[i] = (word(5, 0, i) >> 8) * 0x1p-22 - 1;
      return {y};
    },
    .dtypes = {kFloat32}, .differentiable = false, .traceable = false);

WICK_OP_CASE(
    normal_, .covers = {"normal_"},
    .samples = {{normal({31, 33})},
                {normal({1})},
                {normal({0, 3})},
                {normal({2, 3, 4, 5})},
                {normal({3, 20001})}},
    .call = [](const Tensors& x) -> Tensors {
      manual_seed(5);
      const Tensor y = x[0].clone();
      y.normal_(1, 2);
      return {y};
    },
    .reference = [](const Arrays& x) -> Arrays {
      HostArray y = x[0];
      for (size_t i = 0; i < y.values.size(); ++i) {
        const double u = (word(5, 0, i / 2 * 2) >> 1) * 0x1p-31 + 0x1p-32;
        const uint32_t turn = word(5, 0, i / 2 * 2 + 1);  // of a quarter, around where it starts
        const double angle = ((turn >> 30) + (turn & 0x3fffffff) * 0x1p-30 - 0.5) * std::acos(0.0);
        const double length = 2 * std::sqrt(-2 * std::log(u));
        y.values[i] = 1 + length * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
      }
      return {y};
    },
    .dtypes = {kFloat32}, .tolerance = Tolerance::reduction(), .differentiable = false,
    .traceable = false);

WICK_OP_CASE(
    bernoulli, .covers = {"bernoulli"},
    .samples = {{uniform({31, 33}, 0, 1)}, {uniform({0, 3}, 0, 1)}, {uniform({3, 20001}, 0, 1)}},
    .call = [](const Tensors& x) -> Tensors {
      manual_seed(5);
      return {bernoulli(x[0])};
    },
    .reference = [](const Arrays& x) -> Arrays {
      HostArray y = x[0];
      for (size_t i = 0; i < y.values.size(); ++i) {
        y.values[i] = word(5, 0, i) * 0x1p-32 < x[0].values[i] ? 1 : 0;
      }
      return {y};
    },
    .tolerance = Tolerance::exact(), .differentiable = false, .traceable = false);

WICK_OP_CASE(
    randint, .covers = {"randint_"},
    .samples = {{normal({31, 33})}, {normal({0, 3})}, {normal({3, 20001})}},
    .call = [](const Tensors& x) -> Tensors {
      manual_seed(5);
      return {randint(-8, 24, x[0].shape(), kInt64, x[0].device())};
    },
    .reference = [](const Arrays& x) -> Arrays {
      HostArray y = x[0];
      for (size_t i = 0; i < y.values.size(); ++i)
        y.values[i] = (word(5, 0, 2 * i + 1) >> 27) - 8.0;
      return {y};
    },
    .dtypes = {kFloat32}, .tolerance = Tolerance::exact(), .differentiable = false,
    .traceable = false);

TEST(Random, UniformIsPhilox) {
  Generator generator(11);
  generator.set_state({11, 3});
  const std::vector<float> x = rand({131}, kFloat32, kCpu, &generator).to_vector<float>();
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(x[i], static_cast<float>(word(11, 3, i) >> 8) * 0x1p-24f);
  }
  const std::vector<double> y = rand({67}, kFloat64, kCpu, &generator).to_vector<double>();
  for (size_t i = 0; i < y.size(); ++i) {
    EXPECT_EQ(y[i], uniform_double(word(11, 4, 2 * i + 1), word(11, 4, 2 * i)));
  }
}

TEST(Random, DoubleNormalsAreBoxAndMullersTransform) {
  Generator generator(12);
  const std::vector<double> y = randn({66}, kFloat64, kCpu, &generator).to_vector<double>();
  for (size_t i = 0; i < y.size(); i += 2) {
    const uint64_t first = uint64_t{word(12, 0, 2 * i + 1)} << 32 | word(12, 0, 2 * i);
    const double u = std::ldexp(static_cast<double>(first >> 11), -53) + std::ldexp(1, -54);
    EXPECT_NEAR(std::hypot(y[i], y[i + 1]), std::sqrt(-2 * std::log(u)), 1e-14);
  }
}

TEST(Random, FirstValuesStayTheSame) {
  manual_seed(42);
  EXPECT_EQ(rand({3}).to_vector<float>(),
            (std::vector<float>{14457762 * 0x1p-24f, 15665943 * 0x1p-24f, 7458771 * 0x1p-24f}));
  EXPECT_EQ(randn({4}).to_vector<float>(),
            (std::vector<float>{0.849238276f, 2.33771157f, 0.55738169f, -0.132441834f}));
  EXPECT_EQ(randint(-5, 100, {4}).to_vector<int64_t>(), (std::vector<int64_t>{90, 1, 40, 78}));
  EXPECT_EQ(randperm(8).to_vector<int64_t>(), (std::vector<int64_t>{4, 5, 1, 3, 7, 6, 0, 2}));
}

TEST(Random, TheSameForAnyThreadsAndInstructionSet) {
  const int before = num_threads();
  std::vector<std::vector<float>> results[2];
  for (const int threads : {1, 2}) {
    set_num_threads(threads);
    manual_seed(1);
    auto& list = results[threads - 1];
    list.push_back(rand({40001}).to_vector<float>());
    list.push_back(randn({40001}).to_vector<float>());
    list.push_back(dropout(ones({40001}), 0.5).to_vector<float>());
    list.push_back(bernoulli(full({40001}, 0.2)).to_vector<float>());
  }
  set_num_threads(before);
  EXPECT_EQ(results[0], results[1]);

#ifndef WICK_WITHOUT_AVX2
  std::vector<float> avx2(1001), avx512(1001);
  const auto view = [](std::vector<float>& v) {
    return View{v.data(), kFloat32, kCpu, {static_cast<int64_t>(v.size())}, {1}};
  };
  if (cpu_isa() != CpuIsa::kAvx512) GTEST_SKIP() << "this processor has no AVX-512";
  cpu_avx2::random_normal(view(avx2), {3, 4}, 1, 2);
  cpu_avx512::random_normal(view(avx512), {3, 4}, 1, 2);
  EXPECT_EQ(avx2, avx512);
  cpu_avx2::random_uniform(view(avx2), {3, 4}, 1, 2);
  cpu_avx512::random_uniform(view(avx512), {3, 4}, 1, 2);
  EXPECT_EQ(avx2, avx512);
#endif
}

// Of each kind of draw and dtype, from an aligned and an unaligned start.
std::vector<Tensor> draws_on(Device device) {
  Generator generator(21);
  std::vector<Tensor> all = {randint(-5, 1000, {1001}, kInt64, device, &generator),
                             randint(INT64_MIN, INT64_MAX, {1001}, kInt64, device, &generator)};
  manual_seed(22);
  for (const Dtype dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    const Tensor p = tensor(std::vector<float>{0.3f, 0.7f, 0.0f}).to(dtype).to(device);
    for (const int64_t start : {0, 1}) {
      for (int kind = 0; kind < 2; ++kind) {
        const Tensor x = ones({5001}, dtype, device).narrow(0, start, 5000);
        all.push_back(kind == 0 ? x.uniform_(-1.5, 7) : x.normal_(0.5, 3));
        all.push_back(dropout(x, 0.4));
      }
      all.push_back(bernoulli(p.unsqueeze(0).expand({701, 3})));
    }
  }
  return all;
}

TEST(Random, TheSameOnEveryDevice) {
  if (!cuda_is_available()) GTEST_SKIP() << "no second device: " << why_no_cuda();
  const std::vector<Tensor> here = draws_on(kCpu), there = draws_on(cuda_device(0));
  for (size_t i = 0; i < here.size(); ++i) {
    EXPECT_TRUE(bit_equal(here[i], there[i].cpu())) << "draw " << i;
  }
}

TEST(Random, StateSavesTheGenerator) {
  Generator generator(9);
  randn({5}, kFloat32, kCpu, &generator);
  const RandomKey state = generator.get_state();
  EXPECT_EQ(state.seed, 9u);
  EXPECT_EQ(state.offset, 1u);
  const std::vector<float> next = rand({20}, kFloat32, kCpu, &generator).to_vector<float>();
  EXPECT_NE(rand({20}, kFloat32, kCpu, &generator).to_vector<float>(), next);
  Generator other;
  other.set_state(state);
  EXPECT_EQ(rand({20}, kFloat32, kCpu, &other).to_vector<float>(), next);
  manual_seed(3);
  const std::vector<float> seeded = rand({4}).to_vector<float>();
  rand({4});
  manual_seed(3);
  EXPECT_EQ(rand({4}).to_vector<float>(), seeded);
  EXPECT_EQ(default_generator(cuda_device(0)).get_state().seed, 3u);
  EXPECT_THROW(default_generator(cuda_device(1000)), Error);
}

TEST(Random, UniformsAreEven) {
  Generator generator(101);
  for (const Dtype dtype : {kFloat32, kFloat64}) {
    const Tensor x = rand({256000}, dtype, kCpu, &generator);
    const Moments m = moments(x);
    EXPECT_NEAR(m.mean, 0.5, 0.002);
    EXPECT_NEAR(m.variance, 1.0 / 12, 0.0006);
    EXPECT_NEAR(m.kurtosis, 1.8, 0.01);
    std::vector<int64_t> counts(256);
    for (const double v : read(x).values) ++counts[static_cast<size_t>(v * 256)];
    EXPECT_NEAR(chi_square(counts), 1, 0.3);
  }
}

TEST(Random, NormalsAreNormal) {
  Generator generator(102);
  for (const Dtype dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    const Tensor x = randn({256000}, dtype, kCpu, &generator);
    const Moments m = moments(x);
    EXPECT_NEAR(m.mean, 0, 0.006);
    EXPECT_NEAR(m.variance, 1, 0.009);
    EXPECT_NEAR(m.skewness, 0, 0.015);
    EXPECT_NEAR(m.kurtosis, 3, 0.04);
    if (is_reduced(dtype)) continue;
    std::vector<int64_t> counts(64);  // of the distribution function's values
    for (const double v : read(x).values) {
      ++counts[static_cast<size_t>(std::min(0.5 * std::erfc(-v / std::sqrt(2.0)) * 64, 63.0))];
    }
    EXPECT_NEAR(chi_square(counts), 1, 0.6);
  }
}

TEST(Random, NormalsReachTheTails) {
  Generator generator(103);
  const std::vector<float> x = randn({1 << 20}, kFloat32, kCpu, &generator).to_vector<float>();
  const auto beyond = [&](float limit) {
    return std::count_if(x.begin(), x.end(), [=](float v) { return std::fabs(v) > limit; });
  };
  EXPECT_NEAR(static_cast<double>(beyond(3)), 2831, 220);  // 2.6998e-3 of them
  EXPECT_NEAR(static_cast<double>(beyond(4)), 66, 33);
  EXPECT_EQ(beyond(7), 0);
}

TEST(Random, DrawsAndSeedsAreIndependent) {
  Generator generator(7), neighbour(8);
  const Tensor a = rand({100000}, kFloat32, kCpu, &generator);
  const Tensor b = rand({100000}, kFloat32, kCpu, &generator);
  const Tensor c = rand({100000}, kFloat32, kCpu, &neighbour);
  EXPECT_NEAR(correlation(a, b), 0, 0.013);
  EXPECT_NEAR(correlation(a, c), 0, 0.013);
  EXPECT_NEAR(correlation(a.narrow(0, 0, 99999), a.narrow(0, 1, 99999)), 0, 0.013);
  EXPECT_NEAR(correlation(a.narrow(0, 0, 99996), a.narrow(0, 4, 99996)), 0, 0.013);
  const Tensor n = randn({100000}, kFloat32, kCpu, &generator).reshape({50000, 2});
  EXPECT_NEAR(correlation(n.select(1, 0).contiguous(), n.select(1, 1).contiguous()), 0, 0.018);
}

TEST(Random, DataStreamsDoNotRepeatTensors) {
  Generator generator(7);
  const std::vector<float> x = rand({4}, kFloat32, kCpu, &generator).to_vector<float>();
  PhiloxStream sample(7, 0);
  EXPECT_NE(x[0], sample.uniform());
}

TEST(Random, UniformStaysInItsInterval) {
  const std::vector<std::pair<double, double>> intervals{{0, 1}, {-3, 5}, {1, 1.0000001}, {2, 2}};
  for (const auto& interval : intervals) {
    const double low = interval.first, high = interval.second;
    for (const Dtype dtype : {kFloat32, kFloat16, kBFloat16, kFloat64}) {
      const Tensor x = empty({5000}, dtype);
      x.uniform_(low, high);
      for (const double v : read(x).values) {
        ASSERT_GE(v, low);
        ASSERT_TRUE(v < high || v == low) << v << " " << to_string(dtype);
      }
    }
  }
}

TEST(Random, IntegersAreEvenAndReachBothEnds) {
  Generator generator(104);
  std::vector<int64_t> counts(10);
  for (const int64_t v : randint(-3, 7, {100000}, kInt64, kCpu, &generator).to_vector<int64_t>()) {
    ASSERT_GE(v, -3);
    ASSERT_LT(v, 7);
    ++counts[static_cast<size_t>(v + 3)];
  }
  EXPECT_LT(chi_square(counts), 2.5);
  EXPECT_EQ(randint(4, 5, {2}, kUint8).to_vector<uint8_t>(), (std::vector<uint8_t>{4, 4}));
  const Tensor wide = randint(INT64_MIN, INT64_MAX, {1000}, kInt64, kCpu, &generator);
  EXPECT_NEAR(moments(wide).mean / 0x1p63, 0, 0.06);
  EXPECT_NEAR(moments(wide).variance / 0x1p126, 1.0 / 3, 0.03);
}

TEST(Random, PermutationsHoldEveryNumberOnce) {
  Generator generator(105);
  for (const int64_t n : {0, 1, 2, 33, 1000}) {
    std::vector<int64_t> x = randperm(n, kInt64, kCpu, &generator).to_vector<int64_t>();
    std::sort(x.begin(), x.end());
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(x[i], static_cast<int64_t>(i));
  }
  std::vector<int64_t> counts(24);
  for (int i = 0; i < 4800; ++i) {
    const auto p = randperm(4, kInt64, kCpu, &generator).to_vector<int64_t>();
    const auto rank = [&](size_t k) {
      return std::count_if(p.begin() + static_cast<int64_t>(k), p.end(),
                           [&](int64_t v) { return v < p[k]; });
    };
    ++counts[static_cast<size_t>(rank(0) * 6 + rank(1) * 2 + rank(2))];
  }
  EXPECT_LT(chi_square(counts), 2);
}

TEST(Random, BernoulliFollowsItsProbabilities) {
  Generator generator(106);
  const Tensor p = tensor<float>({0, 0.25f, 0.5f, 1}).unsqueeze(0).expand({40000, 4});
  const Tensor y = bernoulli(p, &generator);
  for (const double v : read(y).values) ASSERT_TRUE(v == 0 || v == 1);
  const std::vector<float> rates = y.mean({0}).to_vector<float>();
  EXPECT_EQ(rates[0], 0);
  EXPECT_NEAR(rates[1], 0.25, 0.01);
  EXPECT_NEAR(rates[2], 0.5, 0.01);
  EXPECT_EQ(rates[3], 1);
  EXPECT_FALSE(bernoulli(ones({2}).set_requires_grad()).requires_grad());
}

TEST(Random, SaysWhatIsOutOfRange) {
  for (const double p : {2.0, -0.1, std::nan("")}) EXPECT_THROW(bernoulli(full({3}, p)), Error);
  EXPECT_EQ(bernoulli(ones({0})).numel(), 0);
  EXPECT_THROW(randint(0, 257, {3}, kUint8), Error);
  EXPECT_THROW(randint(-1, 2, {3}, kUint8), Error);
  EXPECT_THROW(randint(0, 3, {3}, kBool), Error);
  EXPECT_THROW(randperm(257, kUint8), Error);
  EXPECT_THROW(randperm(2050, kFloat16), Error);
  EXPECT_EQ(randint(255, 256, {3}, kUint8).to_vector<uint8_t>(), (std::vector<uint8_t>(3, 255)));
  EXPECT_EQ(randperm(256, kUint8).sum().item<int64_t>(), 255 * 128);
  EXPECT_EQ(randperm(2049, kFloat16).numel(), 2049);
}

TEST(Random, FillingAViewFollowsItsOwnOrder) {
  manual_seed(5);
  const Tensor dense = empty({3, 4});
  dense.normal_();
  manual_seed(5);
  const Tensor base = zeros({4, 6});
  base.t().slice(0, 0, 6, 2).normal_();
  EXPECT_TRUE(bit_equal(base.t().slice(0, 0, 6, 2), dense));
  EXPECT_EQ(read(base.select(1, 1)).values, (std::vector<double>{0, 0, 0, 0}));
}

TEST(Random, FillingEndsTheGradient) {
  const Tensor x = ones({3}).set_requires_grad();
  EXPECT_THROW(x.uniform_(), Error);
  const Tensor y = x.clone();
  y.normal_();
  EXPECT_EQ(read(grad({add(y, x).sum()}, {x})[0]).values, (std::vector<double>{1, 1, 1}));
}

TEST(Dropout, KeepsTheMeanAndPassesThroughInEvaluation) {
  Generator generator(107);
  const Tensor x = ones({100000});
  const Tensor y = dropout(x, 0.4, true, &generator);
  EXPECT_NEAR(moments(y).mean, 1, 0.01);
  EXPECT_NEAR(moments(y).variance, 0.4 / 0.6, 0.01);
  EXPECT_TRUE(dropout(x, 0.4, false).is_same(x));
  EXPECT_TRUE(dropout(x, 0).is_same(x));
  EXPECT_EQ(read(dropout(full({3}, INFINITY), 1)).values, (std::vector<double>{0, 0, 0}));
  EXPECT_THROW(dropout(x, 1.5), Error);
  EXPECT_THROW(dropout(x, -0.1), Error);
  EXPECT_THROW(dropout(ones({2}, kInt64)), Error);
  EXPECT_THROW(dropout2d(ones({2})), Error);
}

TEST(Dropout, ChannelsLastGradientsMeetTheSameMask) {
  const Tensor x = ones({2, 3, 4, 5}).contiguous(MemoryFormat::kChannelsLast).set_requires_grad();
  const Tensor y = dropout(x, 0.5);
  EXPECT_TRUE(y.is_contiguous(MemoryFormat::kChannelsLast));
  y.backward(ones({2, 3, 4, 5}));
  EXPECT_TRUE(bit_equal(x.grad(), y.detach()));
}

}  // namespace
}  // namespace wick::testing
