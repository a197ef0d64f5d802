#include <gtest/gtest.h>

#include <cmath>

#include "wick/core/base/parallel.h"
#include "wick/core/stream.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/host_array.h"
#include "wick/tests/optim/reference.h"

namespace wick::testing {
namespace {

using optim::clip_grad_norm_;
using optim::clip_grad_value_;

Tensor with_grad(const Tensor& grad) {
  const Tensor param = zeros_like(grad).set_requires_grad();
  param.set_grad(grad);
  return param;
}

// Some sizes around those of vectors and chunks; one parameter has no gradient.
std::vector<Tensor> params_of(Dtype dtype, Device device = kCpu) {
  std::vector<Tensor> params;
  uint64_t seed = 0;
  for (const int64_t n : {1, 0, 15, 16, 17, 16384, 40001}) {
    params.push_back(with_grad(random_tensor({n}, ++seed, dtype).to(device)));
  }
  const Tensor unaligned = random_tensor({20001}, ++seed, dtype).to(device).narrow(0, 1, 20000);
  params.push_back(with_grad(unaligned));
  params.push_back(zeros({5}, dtype, device).set_requires_grad());
  return params;
}

std::vector<double> all_grads(const std::vector<Tensor>& params) {
  std::vector<double> all;
  for (const Tensor& param : params) {
    if (!param.grad().defined()) continue;
    for (const double g : doubles(param.grad())) all.push_back(g);
  }
  return all;
}

double p_norm_of(const std::vector<double>& values, double p) {
  double total = 0;
  for (const double v : values) {
    total = p == HUGE_VAL ? std::max(total, std::abs(v)) : total + std::pow(std::abs(v), p);
  }
  return p == HUGE_VAL ? total : std::pow(total, 1 / p);
}

class ClipNorm : public ::testing::TestWithParam<double> {};
INSTANTIATE_TEST_SUITE_P(Orders, ClipNorm, ::testing::Values(1, 2, 3, 0.5, -1, HUGE_VAL));

void scale_together(Device device, double p) {
  for (const Dtype dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    const bool reduced = size_of(dtype) == 2;
    if (reduced && p != 2) continue;  // one order shows how they are read and written
    const double eps = dtype == kFloat64 ? 1e-12 : 1e-6;
    const double rounding = dtype == kFloat16 ? 5e-4 : dtype == kBFloat16 ? 4e-3 : eps;
    const std::vector<Tensor> params = params_of(dtype, device);
    const std::vector<double> before = all_grads(params);
    const double norm = p_norm_of(before, p), max_norm = norm / 4;
    const Tensor total = clip_grad_norm_(params, max_norm, p);
    EXPECT_EQ(total.dtype(), reduced ? kFloat32 : dtype);
    EXPECT_EQ(total.rank(), 0);
    EXPECT_NEAR(total.item(), norm, eps * norm);
    const std::vector<double> after = all_grads(params);
    for (size_t i = 0; i < before.size(); ++i) {
      ASSERT_NEAR(after[i], before[i] * max_norm / (norm + 1e-6), rounding);
    }
    EXPECT_FALSE(params.back().grad().defined());
  }
}

TEST_P(ClipNorm, ScalesAllGradientsTogether) { scale_together(kCpu, GetParam()); }
TEST_P(ClipNorm, ScalesAllGradientsTogetherOnAGpu) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  scale_together(cuda_device(0), GetParam());
}

TEST_P(ClipNorm, LeavesSmallGradients) {
  const std::vector<Tensor> params = params_of(kFloat32);
  const std::vector<double> before = all_grads(params);
  clip_grad_norm_(params, 2 * p_norm_of(before, GetParam()) + 1e-3, GetParam());
  EXPECT_EQ(all_grads(params), before);
  if (!cuda_is_available()) return;
  const std::vector<Tensor> there = params_of(kFloat32, cuda_device(0));
  clip_grad_norm_(there, 2 * p_norm_of(before, GetParam()) + 1e-3, GetParam());
  EXPECT_EQ(all_grads(there), before);
}

TEST(ClipNormAlone, GivesTheSameBitsForAnyThreads) {
  const int threads = num_threads();
  std::vector<double> totals;
  for (const int count : {1, 2}) {
    set_num_threads(count);
    totals.push_back(clip_grad_norm_(params_of(kFloat64), 1).item());
  }
  set_num_threads(threads);
  EXPECT_EQ(totals[0], totals[1]);
}

TEST(ClipNormAlone, DoesNotOverflow) {
  const Tensor param = with_grad(full({20}, 1e30, kFloat32));
  EXPECT_NEAR(clip_grad_norm_({param}, 1).item() / (1e30 * std::sqrt(20.0)), 1, 1e-6);
}

TEST(ClipNormAlone, OfNothingIsZero) {
  EXPECT_EQ(clip_grad_norm_({zeros({3}).set_requires_grad()}, 1).item(), 0);
  EXPECT_EQ(clip_grad_norm_({}, 1).item(), 0);
}

void take_the_smallest_or_count(Device device) {
  const std::vector<Tensor> params = {
      with_grad(tensor({-2.0f, 4.0f}).to(device)), with_grad(tensor({0.0f}).to(device)),
      with_grad(empty({0}, kFloat32, device)), with_grad(tensor({0.0f, 8.0f}).to(device))};
  EXPECT_EQ(clip_grad_norm_(params, 0.5, -HUGE_VAL).item(), 0);
  EXPECT_EQ(clip_grad_norm_({params[0]}, 1, -HUGE_VAL).item(), 2);
  EXPECT_NEAR(doubles(params[0].grad())[1], 2, 1e-5);
  EXPECT_EQ(clip_grad_norm_(params, 1, 0).item(), 2);
  EXPECT_NEAR(doubles(params[3].grad())[1], 4, 1e-5);
  const Tensor nan = with_grad(tensor({1.0f, NAN}).to(device));
  EXPECT_TRUE(std::isnan(clip_grad_norm_({nan}, 1, -HUGE_VAL).item()));
  const Tensor wide = clip_grad_norm_({params[0], with_grad(ones({2}, kFloat64, device))}, 1, 0);
  EXPECT_EQ(wide.dtype(), kFloat64);
}

TEST(ClipNormAlone, TakesTheSmallestOrCounts) { take_the_smallest_or_count(kCpu); }
TEST(ClipNormAlone, TakesTheSmallestOrCountsOnAGpu) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  take_the_smallest_or_count(cuda_device(0));
}

TEST(ClipNormAlone, OfMixedDtypesIsTheWidest) {
  const Tensor total = clip_grad_norm_({with_grad(ones({9})), with_grad(ones({7}, kFloat64))}, 1);
  EXPECT_EQ(total.dtype(), kFloat64);
  EXPECT_EQ(total.item(), 4);
}

void spoil_or_refuse(Device device) {
  for (const double p : {1.0, 2.0, HUGE_VAL}) {
    const Tensor nan = with_grad(tensor({1.0f, NAN, 3.0f}).to(device));
    EXPECT_TRUE(std::isnan(clip_grad_norm_({nan}, 1, p).item()));
    for (const double g : doubles(nan.grad())) EXPECT_TRUE(std::isnan(g));
    const Tensor inf = with_grad(tensor({1.0f, -INFINITY, 3.0f}).to(device));
    EXPECT_EQ(clip_grad_norm_({inf}, 1, p).item(), HUGE_VAL);
    EXPECT_EQ(doubles(inf.grad())[0], 0);
    EXPECT_TRUE(std::isnan(doubles(inf.grad())[1]));
  }
  const Tensor inf = with_grad(tensor({1.0f, INFINITY}).to(device));
  EXPECT_EQ(error_of([&] { clip_grad_norm_({inf}, 1, 2, true); }),
            "clip_grad_norm_: the norm of the gradients is inf, which nothing can be scaled by");
  EXPECT_EQ(doubles(inf.grad())[0], 1);
}

TEST(ClipNormAlone, NonFiniteGradientsAreSpoiltOrRefused) { spoil_or_refuse(kCpu); }
TEST(ClipNormAlone, NonFiniteGradientsAreSpoiltOrRefusedOnAGpu) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  spoil_or_refuse(cuda_device(0));
}

TEST(Clip, ChangesStridedGradientsInPlace) {
  const Tensor base = ones({4, 6});
  const Tensor grad = base.slice(1, 0, 6, 2);
  const Tensor param = zeros({4, 3}).set_requires_grad();
  param.set_grad(grad);
  const uint64_t version = base.version();
  clip_grad_value_({param}, 0.5);
  EXPECT_EQ(doubles(base[0]), (std::vector<double>{0.5, 1, 0.5, 1, 0.5, 1}));
  EXPECT_GT(base.version(), version);
}

TEST(ClipValue, ClampsAndKeepsNotANumber) {
  const Tensor param = with_grad(tensor({-3.0, -0.25, 0.0, 0.25, 3.0, static_cast<double>(NAN)}));
  clip_grad_value_({param, zeros({2}).set_requires_grad()}, 0.5);
  const std::vector<double> got = doubles(param.grad());
  EXPECT_EQ(std::vector<double>(got.begin(), got.end() - 1),
            (std::vector<double>{-0.5, -0.25, 0, 0.25, 0.5}));
  EXPECT_TRUE(std::isnan(got.back()));
}

TEST(ClipValue, ClampsOnAGpuAsOnTheCpu) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  for (const Dtype dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    const std::vector<Tensor> here = params_of(dtype), there = params_of(dtype, cuda_device(0));
    here[4].grad()[3].fill_(NAN);
    there[4].grad()[3].fill_(NAN);
    clip_grad_value_(here, 0.25);
    clip_grad_value_(there, 0.25);
    for (size_t i = 0; i + 1 < here.size(); ++i) {
      EXPECT_TRUE(bit_equal(here[i].grad(), there[i].grad().cpu())) << "tensor " << i;
    }
  }
}

TEST(Clip, RefusesBadArguments) {
  const Tensor param = with_grad(ones({2}));
  EXPECT_EQ(error_of([&] { clip_grad_norm_({param}, -1); }),
            "clip_grad_norm_: max_norm: got -1, expected 0 or more");
  EXPECT_EQ(error_of([&] { clip_grad_norm_({param}, 1, NAN); }),
            "clip_grad_norm_: norm_type: got nan, expected a number");
  EXPECT_EQ(error_of([&] { clip_grad_value_({param}, NAN); }),
            "clip_grad_value_: clip_value: got nan, expected 0 or more");
}

}  // namespace
}  // namespace wick::testing
