#include <gtest/gtest.h>

#include <algorithm>

#include "wick/core/core.h"
#include "wick/tests/core/profile/by_hand.h"
#include "wick/tests/core/profile/profiled.h"

namespace wick::profile {
namespace {

int64_t bytes_of(const MemoryTimeline::Point& point, MemoryUse use) {
  return point.bytes[static_cast<size_t>(use)];
}

// Takes or frees memory, with the sum that an allocator would tell.
void add_memory(ByHand& hand, EventKind kind, uintptr_t address, int64_t bytes, int64_t at_us,
                int64_t allocated) {
  Event& event = hand.add(kind, "[memory]", at_us, at_us);
  event.address = address;
  event.bytes = bytes;
  event.allocated = allocated;
}

void add_label(ByHand& hand, MemoryUse use, uintptr_t address, int64_t bytes, int64_t at_us) {
  Event& event = hand.add(EventKind::kMemoryLabel, "", at_us, at_us);
  event.use = use;
  event.address = address;
  event.bytes = bytes;
}

TEST(MemoryTimeline, TellsWhatMemoryIsFor) {
  using enum EventKind;
  ByHand hand;  // 1000 bytes are there before, 400 of them a parameter
  hand.add(kOp, "conv2d", 10, 20).module = "layer1";
  add_memory(hand, kAllocation, 1, 50, 11, 1050);
  add_memory(hand, kAllocation, 2, 300, 12, 1350);
  add_memory(hand, kFree, 1, 50, 13, 1300);
  hand.add(kBackward, "Conv2dBackward", 30, 50);
  hand.add(kOp, "conv2d_backward", 31, 40);
  add_memory(hand, kAllocation, 3, 400, 32, 1700);
  add_memory(hand, kAllocation, 4, 250, 33, 1950);
  add_memory(hand, kFree, 2, 300, 45, 1650);
  hand.add(kOptimizer, "Optimizer.step#sgd.step", 60, 80);
  add_label(hand, MemoryUse::kParameter, 9, 400, 61);
  add_label(hand, MemoryUse::kGradient, 3, 400, 62);
  add_memory(hand, kAllocation, 5, 400, 63, 2050);
  add_label(hand, MemoryUse::kOptimizerState, 5, 400, 64);
  add_memory(hand, kFree, 4, 250, 90, 1800);
  const MemoryTimeline timeline(hand.finish(), kCpu);
  ASSERT_EQ(timeline.points().size(), 8);
  const MemoryTimeline::Point& early = timeline.points()[1];
  EXPECT_EQ(early.total, 1350);
  EXPECT_EQ(bytes_of(early, MemoryUse::kParameter), 400);
  EXPECT_EQ(bytes_of(early, MemoryUse::kTemporary), 50);
  EXPECT_EQ(bytes_of(early, MemoryUse::kActivation), 300);
  EXPECT_EQ(bytes_of(early, MemoryUse::kOther), 600);
  const MemoryTimeline::Point& peak = timeline.peak();
  EXPECT_EQ(peak.total, 2050);
  EXPECT_EQ(bytes_of(peak, MemoryUse::kGradient), 650);
  EXPECT_EQ(bytes_of(peak, MemoryUse::kOptimizerState), 400);
  EXPECT_EQ(bytes_of(peak, MemoryUse::kActivation), 0);
  for (const MemoryTimeline::Point& point : timeline.points()) {
    int64_t sum = 0;
    for (const int64_t bytes : point.bytes) sum += bytes;
    EXPECT_EQ(sum, point.total);
  }
  EXPECT_EQ(timeline.holders()[0].bytes, 650);
  EXPECT_EQ(timeline.holders()[0].op, "conv2d_backward");
  EXPECT_EQ(timeline.holders()[0].blocks, 2);
  EXPECT_NE(timeline.text().find("gradients         650 B"), std::string::npos) << timeline.text();
}

TEST(MemoryTimeline, FollowsRealMemory) {
  Tensor w = randn({256, 256});
  w.set_requires_grad();
  const Tensor x = randn({256, 256});
  const Recording found = recorded({.profile_memory = true}, [&] { small_step(x, w); });
  const MemoryTimeline timeline(found, kCpu);
  constexpr int64_t kMatrix = 4 * 256 * 256;
  EXPECT_GE(timeline.peak().total, 3 * kMatrix);
  int64_t activations = 0;  // at most: which step of backward has the peak depends on workspaces
  for (const MemoryTimeline::Point& point : timeline.points()) {
    activations = std::max(activations, bytes_of(point, MemoryUse::kActivation));
  }
  EXPECT_GE(activations, kMatrix);
  EXPECT_EQ(timeline.points().back().total, found.events.back().allocated);
}

TEST(MemoryTimeline, NeedsMemory) {
  const MemoryTimeline timeline(recorded({}, [] { relu(randn({2})); }), kCpu);
  EXPECT_THROW(timeline.peak(), Error);
}

}  // namespace
}  // namespace wick::profile
