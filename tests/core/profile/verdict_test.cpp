#include <gtest/gtest.h>

#include "wick/core/core.h"
#include "wick/tests/core/profile/by_hand.h"

namespace wick::profile {
namespace {

constexpr Ceilings kCeilings{.flops_per_second = 100e9, .bytes_per_second = 10e9};

Verdict verdict_of(ByHand& hand) { return judge(hand.finish(), kCeilings); }

// A step of 1000 us with 100 us of arithmetic in it.
void add_step(ByHand& hand) {
  hand.add(EventKind::kStep, "ProfilerStep#0", 0, 1000);
  hand.add(EventKind::kOp, "matmul", 850, 950).flops = 1e9;
}

TEST(Verdict, NamesASlowLoader) {
  ByHand hand;
  add_step(hand);
  hand.add(EventKind::kLoaderWait, "DataLoader.next", 0, 800);
  hand.add(EventKind::kOp, "copy_", 100, 400).bytes = 1000;  // while it waits: the loader's
  const Verdict found = verdict_of(hand);
  EXPECT_EQ(found.bound(), Bound::kData);
  EXPECT_NEAR(found.share(Bound::kData), 0.8, 1e-9);
  EXPECT_NEAR(found.share(Bound::kCompute), 0.1, 1e-9);
  EXPECT_TRUE(found.text().starts_with(
      "Bound by data: 80 % of a step (0.8 ms of 1 ms) is waiting for batches, most of it in "
      "DataLoader.next.\nThe rest: compute 10 % (matmul), outside 10 % (ProfilerStep#0).\n"
      "What helps: --workers auto"))
      << found.text();
}

TEST(Verdict, NamesALoopBoundByLaunches) {
  ByHand hand;
  hand.add(EventKind::kStep, "ProfilerStep#0", 0, 1000);
  for (int64_t i = 0; i < 90; ++i) hand.add(EventKind::kOp, "add", 10 * i, 10 * i + 9).bytes = 8;
  const Verdict found = verdict_of(hand);
  EXPECT_EQ(found.bound(), Bound::kLaunches);
  EXPECT_NEAR(found.share(Bound::kLaunches), 0.81, 1e-9);
  EXPECT_EQ(found.operations, 90);
  EXPECT_NE(found.text().find("most of it in add"), std::string::npos);
}

TEST(Verdict, PartsArithmeticFromMemory) {
  ByHand hand;
  hand.add(EventKind::kStep, "ProfilerStep#0", 0, 1000);
  Event& product = hand.add(EventKind::kOp, "matmul", 0, 300);
  product.flops = 1e9;
  product.bytes = 1'000'000;  // 10 ms of arithmetic, 0.1 ms of memory
  Event& sum = hand.add(EventKind::kOp, "add", 300, 900);
  sum.flops = 1e6;
  sum.bytes = 10'000'000;
  const Verdict found = verdict_of(hand);
  EXPECT_EQ(found.bound(), Bound::kMemory);
  EXPECT_NEAR(found.share(Bound::kMemory), 0.6, 1e-9);
  EXPECT_NEAR(found.share(Bound::kCompute), 0.3, 1e-9);
}

TEST(Verdict, NamesOtherRanks) {
  ByHand hand;
  add_step(hand);
  hand.add(EventKind::kCollectiveWait, "Work.wait", 0, 700);
  const Verdict found = verdict_of(hand);
  EXPECT_EQ(found.bound(), Bound::kCommunication);
  EXPECT_NEAR(found.share(Bound::kCommunication), 0.7, 1e-9);
}

TEST(Verdict, NamesAPlantedWait) {
  ByHand hand;
  add_step(hand);
  hand.add(EventKind::kFunction, "save a picture", 100, 800);
  const Verdict found = verdict_of(hand);
  EXPECT_EQ(found.bound(), Bound::kOutside);
  EXPECT_NE(found.text().find("most of it in save a picture"), std::string::npos);
}

// While the host waits, the GPU does what it was told to.
TEST(Verdict, TakesWaitsForAGpuForItsWork) {
  ByHand hand;
  hand.add(EventKind::kStep, "ProfilerStep#0", 0, 1000);
  Event& product = hand.add(EventKind::kOp, "matmul", 0, 50);
  product.flops = 3e9;
  product.bytes = 100'000'000;  // 30 ms of arithmetic, 10 ms of memory
  product.device = cuda_device();
  hand.add(EventKind::kSynchronization, "synchronize (copy_)", 100, 900);
  const Verdict found = verdict_of(hand);
  EXPECT_EQ(found.bound(), Bound::kCompute);
  EXPECT_NEAR(found.share(Bound::kCompute), 0.6, 1e-9);
  EXPECT_NEAR(found.share(Bound::kMemory), 0.2, 1e-9);
  EXPECT_NEAR(found.share(Bound::kLaunches), 0.05, 1e-9);  // a GPU's operation is a call
  EXPECT_EQ(found.synchronizations, 1);
  EXPECT_NE(found.text().find("per step: 1, most by synchronize (copy_)"), std::string::npos);
}

// 700 of 1000 us a GPU works; the host, which waits 800, has 300 of its own.
TEST(Verdict, GivesAGpuTheTimesOfItsKernels) {
  ByHand hand;
  hand.add(EventKind::kStep, "ProfilerStep#0", 0, 1000);
  Event& product = hand.add(EventKind::kOp, "matmul", 0, 50);
  product.flops = 3e9;
  product.device = cuda_device();
  Event& kernel = hand.add(EventKind::kKernel, "gemm", 10, 10);
  kernel.device = cuda_device();
  kernel.device_ns = 600'000;
  Event& copy = hand.add(EventKind::kKernel, "fill", 60, 60);
  copy.device_ns = 100'000;
  hand.add(EventKind::kSynchronization, "synchronize (copy_)", 100, 900);
  const Verdict found = verdict_of(hand);
  EXPECT_NEAR(found.seconds, 1e-3, 1e-9);
  EXPECT_NEAR(found.share(Bound::kCompute), 0.6, 1e-9);
  EXPECT_NEAR(found.share(Bound::kMemory), 0.1, 1e-9);
  EXPECT_NEAR(found.share(Bound::kLaunches), 0.075, 1e-9);
  EXPECT_NEAR(found.share(Bound::kOutside), 0.225, 1e-9);
}

TEST(Verdict, LeavesOtherThreadsOut) {
  ByHand hand;
  add_step(hand);
  hand.finish();
  Event other = hand.recording.events[1];
  other.thread = 1;
  other.end_ns += 1'000'000'000;
  hand.recording.events.push_back(other);
  EXPECT_NEAR(judge(hand.recording, kCeilings).seconds, 1e-3, 1e-9);
}

TEST(Verdict, RefusesBadUse) {
  EXPECT_THROW(judge(Recording()), Error);
  ByHand hand;
  add_step(hand);
  EXPECT_THROW(judge(hand.finish(), {.flops_per_second = 0}), Error);
}

}  // namespace
}  // namespace wick::profile
