#include "wick/core/ops/masked.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/softmax.h"
#include "wick/core/ops/special.h"
#include "wick/core/ops/statistics.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

using Masked = std::function<Tensor(const Tensor& x, const Tensor& mask)>;
using Plain = std::function<Tensor(const Tensor& selected)>;

// `masked` of x and a mask is `plain` of the elements that count, on every device, and so are the
// gradients.
void expect_as_selected(const Masked& masked, const Plain& plain) {
  Generator generator(5);
  const Tensor values = randn({7, 9}, kFloat64, kCpu, &generator);
  const Tensor bits = rand({7, 9}, kFloat64, kCpu, &generator) > 0.4;
  for (const Device device : devices()) {
    const Tensor x = values.to(device).detach().requires_grad_(), mask = bits.to(device);
    const Tensor y = values.to(device).detach().requires_grad_();
    const Tensor got = masked(x, mask), want = plain(masked_select(y, mask));
    EXPECT_TRUE(allclose(got, want, 1e-12, 1e-12)) << to_string(got) << to_string(want);
    got.backward();
    want.backward();
    EXPECT_TRUE(allclose(x.grad(), y.grad(), 1e-12, 1e-12)) << to_string(x.grad());
  }
}

TEST(Masked, ReducesWhatCounts) {
  using T = Tensor;
  const auto check = [](Tensor (*masked)(const T&, const T&, const Shape&, bool), Plain plain) {
    expect_as_selected([=](const T& x, const T& m) { return masked(x, m, {}, false); }, plain);
  };
  check(masked::sum, [](const T& x) { return x.sum(); });
  check(masked::prod, [](const T& x) { return x.prod(); });
  check(masked::mean, [](const T& x) { return x.mean(); });
  check(masked::amax, [](const T& x) { return amax(x); });
  check(masked::amin, [](const T& x) { return amin(x); });
  check(masked::logsumexp, [](const T& x) { return x.logsumexp(); });
}

TEST(Masked, MeasuresSpreadAndLength) {
  using T = Tensor;
  expect_as_selected([](const T& x, const T& m) { return masked::var(x, m); },
                     [](const T& x) { return x.var(); });
  expect_as_selected([](const T& x, const T& m) { return masked::stddev(x, m, {}, 0); },
                     [](const T& x) { return x.std({}, 0); });
  for (const double ord : {0.5, 1.0, 2.0, HUGE_VAL, -HUGE_VAL}) {
    expect_as_selected([=](const T& x, const T& m) { return masked::norm(x, m, ord); },
                       [=](const T& x) { return x.norm(ord); });
  }
}

TEST(Masked, WorksAlongAnAxis) {
  for (const Device device : devices()) {
    const Tensor x = tensor({3.f, -1.f, 2.f, 5.f, 4.f, 7.f}, Shape{2, 3}).to(device);
    const Tensor mask = tensor({true, false, true, false, false, false}, Shape{2, 3}).to(device);
    const auto floats = [](const Tensor& y) { return y.cpu().to_vector<float>(); };
    EXPECT_EQ(floats(masked::sum(x, mask, {1})), (std::vector<float>{5, 0}));
    EXPECT_EQ(floats(masked::amax(x, mask, {1})), (std::vector<float>{3, -HUGE_VALF}));
    EXPECT_EQ(masked::argmin(x, mask, 1).cpu().to_vector<int64_t>()[0], 2);
    EXPECT_EQ(masked::argmax(x, mask, 1).cpu().to_vector<int64_t>()[0], 0);
    EXPECT_EQ(floats(masked::median(x, mask, 1))[0], 2);
    EXPECT_EQ(floats(masked::cumsum(x, mask, 1)), (std::vector<float>{3, 3, 5, 0, 0, 0}));
    EXPECT_EQ(floats(masked::cumprod(x, mask, 1)), (std::vector<float>{3, 3, 6, 1, 1, 1}));
    const Tensor shares = masked::softmax(x, mask, 1);
    EXPECT_EQ(floats(shares)[1], 0);
    EXPECT_FLOAT_EQ(floats(shares)[0], 1 / (1 + std::exp(-1.f)));
    EXPECT_TRUE(std::isnan(floats(shares)[3]));
    EXPECT_FLOAT_EQ(floats(masked::softmin(x, mask, 1))[0], 1 / (1 + std::exp(1.f)));
    EXPECT_FLOAT_EQ(floats(masked::log_softmax(x, mask, 1))[2], -std::log1p(std::exp(1.f)));
    EXPECT_FLOAT_EQ(floats(masked::normalize(x, mask, 1, 1))[0], 0.6f);
    EXPECT_EQ(floats(masked::normalize(x, mask, 1, 1))[1], 0);
    const Tensor only_x = masked::logaddexp(x, x, mask, logical_not(mask));
    EXPECT_TRUE(allclose(only_x, x));
    EXPECT_TRUE(equal(masked::sum(x, {}, {1}), x.sum({1})));
  }
}

TEST(Masked, RefusesMasksThatDoNotFit) {
  EXPECT_EQ(error_of([] { masked::sum(ones({2}), ones({2})); }),
            "masked::sum: mask: got dtype float32, expected bool");
  EXPECT_EQ(error_of([] {
              masked::amax(ones({2}), ones({3, 2}, kBool));
            }),
            "masked::amax: the mask does not broadcast to the elements: got shapes [3, 2] and [2]");
}

}  // namespace
}  // namespace wick::testing
