#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "wick/core/autograd.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/norm.h"
#include "wick/core/ops/random.h"
#include "wick/core/stream.h"
#include "wick/tests/harness/host_array.h"

namespace wick::testing {
namespace {

// The sum alone, the norm alone, and either of the two that are added.
TEST(AddLayerNorm, GivesTheGradientsThatAreWanted) {
  const Tensor x = randn({3, 5}), r = randn({3, 5}), dy = randn({3, 5});
  for (const bool of_sum : {false, true}) {
    for (const int wanted : {1, 2, 3}) {
      std::vector<std::vector<float>> grads[2];
      for (const bool fused : {false, true}) {
        const Tensor a = x.detach().set_requires_grad((wanted & 1) != 0);
        const Tensor b = r.detach().set_requires_grad((wanted & 2) != 0);
        const Tensor sum = fused ? Tensor() : a + b;
        const SumAndNorm both =
            fused ? add_layer_norm(a, b, {5}) : SumAndNorm{sum, layer_norm(sum, {5})};
        (of_sum ? both.sum : both.y).backward(dy);
        for (const Tensor& t : {a, b}) {
          grads[fused].push_back(t.grad().defined() ? t.grad().to_vector<float>()
                                                    : std::vector<float>());
        }
      }
      EXPECT_EQ(grads[0], grads[1]) << of_sum << wanted;
    }
  }
}

// The norm is that of the sum as it is rounded and given back.
TEST(AddLayerNorm, IsTheNormOfTheSumInSixteenBits) {
  std::vector<Device> devices = {kCpu};
  if (cuda_is_available()) devices.push_back(cuda_device(0));
  for (const Device device : devices) {
    for (const Dtype dtype : {kFloat16, kBFloat16}) {
      const Tensor x = randn({3, 131}).to(dtype).to(device),
                   r = randn({3, 131}).to(dtype).to(device);
      const SumAndNorm both = add_layer_norm(x, r, {131});
      EXPECT_TRUE(bit_equal(both.sum, x + r)) << device << dtype;
      EXPECT_TRUE(bit_equal(both.y, layer_norm(x + r, {131}))) << device << dtype;
    }
  }
}

TEST(AddLayerNorm, AddsInTheWiderDtype) {
  const SumAndNorm both = add_layer_norm(ones({2, 3}, kBFloat16), ones({2, 3}), {3});
  EXPECT_EQ(both.sum.dtype(), kFloat32);
  EXPECT_EQ(both.y.dtype(), kFloat32);
}

TEST(RmsNorm, AddsTheEpsilonOfItsDtype) {
  const std::map<Dtype, double> epsilons = {
      {kFloat64, 0x1p-52}, {kFloat32, 0x1p-23}, {kFloat16, 0x1p-10}, {kBFloat16, 0x1p-7}};
  for (const auto& [dtype, eps] : epsilons) {
    const Tensor x = (arange(6).to(kFloat64) * std::sqrt(eps)).to(dtype);
    EXPECT_TRUE(equal(rms_norm(x, {6}), rms_norm(x, {6}, {}, eps))) << dtype;
    EXPECT_TRUE(equal(add_rms_norm(x, x, {6}).y, add_rms_norm(x, x, {6}, {}, eps).y)) << dtype;
    EXPECT_FALSE(equal(rms_norm(x, {6}), rms_norm(x, {6}, {}, 2 * eps))) << dtype;
  }
}

}  // namespace
}  // namespace wick::testing
