// What autocast keeps of weights in the lower precision.
#include <gtest/gtest.h>

#include "wick/core/core.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

using Guard = amp::Autocast;

// Which cast of w the product y = x w was made with.
const Node* cast_of(const Tensor& y) { return y.grad_fn()->next()[1].node.get(); }

TEST(WeightCache, CastsAWeightOnce) {
  const Tensor x = ones({2, 4}), w = ones({4, 4}).set_requires_grad();
  const Node* first;
  {
    const Guard guard(kCpu);
    const Tensor y = matmul(x, w);
    first = cast_of(y);
    EXPECT_EQ(cast_of(matmul(x, w)), first);
    { const Guard inner(kCpu, {}, false); }
    EXPECT_EQ(cast_of(matmul(x, w)), first) << "an inner guard ended";
    {
      const Guard other(kCpu, kFloat16);
      EXPECT_EQ(matmul(x, w).dtype(), kFloat16);
      EXPECT_NE(cast_of(matmul(x, w)), first);
    }
    const Guard fresh(kCpu, {}, true, false);
    const Tensor other = matmul(x, w);
    EXPECT_NE(cast_of(other), cast_of(matmul(x, w)));
  }
}

TEST(WeightCache, SeesChangesOfTheWeight) {
  const Tensor x = ones({1, 1}), w = ones({1, 1}).set_requires_grad();
  const Guard guard(kCpu);
  EXPECT_EQ(matmul(x, w).item(), 1);
  {
    const NoGrad no_grad;
    w.fill_(3);
  }
  EXPECT_EQ(matmul(x, w).item(), 3);
}

TEST(WeightCache, KnowsWeightsApartThatShareAnAddress) {
  const Tensor x = ones({1, 1});
  const Guard guard(kCpu);
  for (int i = 0; i < 10; ++i) {
    const Tensor w = full({1, 1}, i).set_requires_grad();
    EXPECT_EQ(matmul(x, w).item(), i);
  }
}

/// What a [64, 64] tensor of bfloat16 takes; more than 8 KiB where a sanitizer keeps guard bytes.
uint64_t size_of_cast() {
  const uint64_t before = memory_allocated(kCpu);
  const Tensor cast = empty({64, 64}, kBFloat16);
  return memory_allocated(kCpu) - before;
}

TEST(WeightCache, EndsWithTheOutermostGuard) {
  const Tensor x = ones({2, 64}), w = ones({64, 64}).set_requires_grad();
  {
    const Guard guard(kCpu);
    matmul(x, w);
  }
  const uint64_t before = memory_allocated(kCpu);
  {
    const Guard guard(kCpu);
    {
      const Guard inner(kCpu);
      matmul(x, w);
    }
    EXPECT_EQ(memory_allocated(kCpu), before + size_of_cast());
  }
  EXPECT_EQ(memory_allocated(kCpu), before);
}

TEST(WeightCache, IsAllThatKeepsACast) {
  const Tensor x = ones({2, 64}, kBFloat16).set_requires_grad(), w = ones({64, 64});
  w.set_requires_grad();
  uint64_t within;
  Tensor y;
  {
    const Guard guard(kCpu);
    y = matmul(x, w);
    within = memory_allocated(kCpu);
  }
  EXPECT_EQ(memory_allocated(kCpu), within - size_of_cast()) << "backward needs it";
  y.sum().backward();
  EXPECT_EQ(x.grad().to_vector<BFloat16>(), std::vector<BFloat16>(128, BFloat16(64.0f)));
}

TEST(WeightCache, NoticesAWeightThatChangedBeforeBackward) {
  const Tensor x = ones({1, 1}).set_requires_grad(), w = ones({1, 1}).set_requires_grad();
  Tensor y;
  {
    const Guard guard(kCpu);
    y = matmul(x, w);
  }
  {
    const NoGrad no_grad;
    w.fill_(3);
  }
  EXPECT_TRUE(error_of([&] {
                y.backward();
              }).starts_with("matmul: a tensor needed by backward was changed in place"));
}

TEST(WeightCache, DoesNotKeepWeights) {
  const Tensor x = ones({2, 64});
  const Guard guard(kCpu);
  const uint64_t before = memory_allocated(kCpu);
  {
    const Tensor w = ones({64, 64}).set_requires_grad();
    matmul(x, w);
  }
  EXPECT_EQ(memory_allocated(kCpu), before + size_of_cast());
}

TEST(WeightCache, IsForFloat32LeavesThatLearnOnly) {
  const Tensor x = ones({2, 64}).to(kBFloat16), w = ones({64, 64}).set_requires_grad();
  const Tensor constant = ones({64, 64}), half = ones({64, 64}, kFloat16).set_requires_grad();
  const Tensor made = w * 2, view = constant.narrow(0, 0, 64).set_requires_grad();
  const Guard guard(kCpu);
  for (const Tensor& other : {constant, half, made, view, w.detach()}) {
    matmul(x, other);  // what the library keeps
    const uint64_t before = memory_allocated(kCpu);
    matmul(x, other);
    EXPECT_EQ(memory_allocated(kCpu), before);
  }
  const Guard wide(kCpu, kFloat16);
  const uint64_t before = memory_allocated(kCpu);
  mse_loss(half, constant);
  EXPECT_EQ(memory_allocated(kCpu), before) << "casts to float32 are not kept";
}

TEST(WeightCache, LosesNoGradientToACastThatWasNotRecorded) {
  const Tensor x = ones({1, 2}), w = ones({2, 1}).set_requires_grad();
  const Guard guard(kCpu);
  {
    const NoGrad no_grad;
    matmul(x, w);
  }
  {
    const InferenceMode inference;
    matmul(x, w);
  }
  matmul(x, w).backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{1, 1}));
  const NoGrad no_grad;
  EXPECT_FALSE(matmul(x, w).requires_grad());
}

TEST(WeightCache, ServesSeveralBackwardsInOneGuard) {
  const Tensor x = ones({1, 2}), w = ones({2, 1}).set_requires_grad();
  const Guard guard(kCpu);
  for (int i = 0; i < 3; ++i) matmul(x, w).backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{3, 3}));
  (matmul(x, w) + matmul(x, w)).backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{5, 5}));
}

}  // namespace
}  // namespace wick::testing
