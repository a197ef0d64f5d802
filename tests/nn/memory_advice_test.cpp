#include "wick/nn/memory_advice.h"

#include <gtest/gtest.h>

#include "wick/core/core.h"
#include "wick/nn/activation_plan.h"
#include "wick/nn/nn.h"

namespace wick {
namespace {

constexpr int64_t kFeatures = 256, kLayers = 6;

class MemoryAdviceTest : public ::testing::Test {
 protected:
  MemoryAdviceTest() : limit_(memory_.memory_limit()) {
    for (int64_t i = 0; i < kLayers; ++i) {
      model_.push_back(nn::Sequential(nn::Linear(kFeatures, kFeatures), nn::BatchNorm1d(kFeatures),
                                      nn::ReLU(), nn::Dropout(0.1)));
    }
  }
  ~MemoryAdviceTest() override { memory_.set_memory_limit(limit_); }

  void pass(int64_t samples) {
    model_(randn({samples, kFeatures}, kFloat32, kCpu)).sum().backward();
  }
  // Leaves `bytes` beyond what is held now.
  void leave(int64_t bytes) {
    empty_cache(kCpu);
    memory_.set_memory_limit(static_cast<size_t>(memory_allocated(kCpu) + bytes));
  }
  std::optional<nn::MemoryAdvice> advice(int64_t batch) {
    return nn::advise_on_memory(model_, kCpu, batch, [&](int64_t n) { pass(n); });
  }
  bool fits(int64_t samples) {
    try {
      pass(samples);
    } catch (const OutOfMemory&) {
      model_.zero_grad();
      empty_cache(kCpu);
      return false;
    }
    model_.zero_grad();
    return true;
  }

  CachingAllocator& memory_ = allocator(kCpu);
  const size_t limit_;
  nn::Sequential model_;
};

constexpr int64_t kMebibyte = 1 << 20;

TEST_F(MemoryAdviceTest, TellsWhatFitsAndWhatRecomputationSaves) {
  constexpr int64_t kBatch = 8000;
  leave(24 * kMebibyte);
  ASSERT_FALSE(fits(kBatch));
  const auto found = advice(kBatch);
  ASSERT_TRUE(found);
  EXPECT_GT(found->samples, 0);
  EXPECT_TRUE(fits(found->samples));
  EXPECT_FALSE(fits(found->samples * 3 / 2));
  // Of what a layer keeps (the product, its norm, the mask) little is left.
  const int64_t activation = kBatch * kFeatures * int64_t{sizeof(float)};
  EXPECT_GT(found->saved_by_recomputation, kLayers * activation / 2);
  EXPECT_LT(found->saved_by_recomputation, kLayers * activation * 4);

  nn::checkpoint_every_child(model_);
  const auto checkpointed = advice(kBatch);
  ASSERT_TRUE(checkpointed);
  EXPECT_GT(checkpointed->samples, found->samples);
  EXPECT_EQ(checkpointed->saved_by_recomputation, 0);
}

TEST_F(MemoryAdviceTest, SaysSoIfAllFitsOrNothing) {
  leave(64 * kMebibyte);
  EXPECT_EQ(advice(16).value().samples, 16);
  leave(kMebibyte);  // and what is free in pages that are held: less than a sample needs
  EXPECT_EQ(nn::advise_on_memory(model_, kCpu, 16, [&](int64_t n) { pass(20000 * n); })->samples,
            0);
}

TEST_F(MemoryAdviceTest, TriesSmallBatchesToo) {
  constexpr int64_t kRows = 4000;  // of a sample, and 4 MB of each activation
  for (const int64_t batch : {2, 3, 4, 7}) {
    leave(300 * kMebibyte);
    const auto pass_rows = [&](int64_t n) { pass(kRows * n); };
    const int64_t most = fits(kRows) ? (fits(2 * kRows) ? 2 : 1) : 0;
    ASSERT_GE(most, 1);
    ASSERT_FALSE(fits(7 * kRows));
    const auto found = nn::advise_on_memory(model_, kCpu, batch, pass_rows);
    ASSERT_TRUE(found);
    EXPECT_GE(found->samples, std::min(most, batch - 1));
    EXPECT_TRUE(fits(found->samples * kRows));
  }
}

TEST_F(MemoryAdviceTest, LeavesTheModelAsItWas) {
  std::vector<std::vector<float>> buffers;
  for (const auto& [name, buffer] : model_.named_buffers()) {
    if (buffer.dtype() == kFloat32) buffers.push_back(buffer.to_vector<float>());
  }
  const RandomKey random = default_generator(kCpu).get_state();
  ASSERT_TRUE(advice(10));
  size_t i = 0;
  for (const auto& [name, buffer] : model_.named_buffers()) {
    if (buffer.dtype() != kFloat32) continue;
    EXPECT_EQ(buffer.to_vector<float>(), buffers[i++]) << name;
  }
  EXPECT_EQ(default_generator(kCpu).get_state().offset, random.offset);
  for (const Tensor& parameter : model_.parameters()) EXPECT_FALSE(parameter.grad().defined());
  EXPECT_TRUE(model_.checkpointed().empty());
}

}  // namespace
}  // namespace wick
