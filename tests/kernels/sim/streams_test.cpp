#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "wick/core/amp.h"
#include "wick/core/autograd.h"
#include "wick/core/memory/allocator.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/stream.h"
#include "wick/core/tensor.h"
#include "wick/kernels/sim/machine.h"
#include "wick/kernels/sim/sanitizers.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/kernels/sim/kernels.h"

namespace wick::testing {
namespace {

using cuda::Grid;
using cuda::launch;
using sim::StreamOrder;

// Before anything asks for the device.
[[maybe_unused]] const int kTwoDevices = ::setenv("WICK_SIM_DEVICES", "2", 1);
constexpr int64_t kCount = 1000;

void fill_with(const Tensor& y, float value) {
  launch("fill_with", kGpu, cuda::grid_for(kGpu, y.numel()), fill_with_kernel<float>,
         y.data<float>(), y.numel(), value);
}
void copy_plus(const Tensor& x, const Tensor& y, float value) {
  launch("copy_plus", kGpu, cuda::grid_for(kGpu, y.numel()), copy_plus_kernel<float>,
         x.data<float>(), y.data<float>(), y.numel(), value);
}

/// A producer on one stream, a consumer on another.
float handed_over(bool wait) {
  const Stream first = stream_from_pool(kGpu), second = stream_from_pool(kGpu);
  const Tensor x = zeros({kCount}, kFloat32, kGpu), y = zeros({kCount}, kFloat32, kGpu);
  synchronize(kGpu);
  Event produced(kGpu);
  {
    const StreamGuard guard(first);
    fill_with(x, 2);
    produced.record();
  }
  {
    const StreamGuard guard(second);
    if (wait) produced.block(second);
    copy_plus(x, y, 1);
  }
  synchronize(second);
  synchronize(first);
  return y.to_vector<float>()[kCount - 1];
}

TEST(SimulatedStreams, AnEventOrdersThem) {
  for (const StreamOrder order : {StreamOrder::kLazy, StreamOrder::kRandom, StreamOrder::kEager}) {
    for (uint64_t seed = 0; seed < 5; ++seed) {
      const sim::ScopedSettings scope({.streams = order, .seed = seed});
      EXPECT_EQ(handed_over(true), 3);
    }
  }
}

/// What arrives on another GPU of what was written before a copy, and is overwritten after it.
float sent_to_other_gpu(bool first_device_first) {
  const Device other = cuda_device(1);
  const Tensor x = zeros({kCount}, kFloat32, kGpu);
  const Tensor y = zeros({kCount}, kFloat32, other);
  synchronize(kGpu);
  synchronize(other);
  fill_with(x, 2);
  y.copy_(x, true);
  fill_with(x, 3);
  synchronize(first_device_first ? kGpu : other);
  synchronize(first_device_first ? other : kGpu);
  return y.to_vector<float>()[kCount - 1];
}

TEST(SimulatedStreams, ACopyBetweenGpusIsInOrderOnBoth) {
  EXPECT_EQ(sent_to_other_gpu(false), 2);
  EXPECT_EQ(sent_to_other_gpu(true), 2);
}

TEST(SimulatedStreams, ADeviceGuardPutsTheThreadsGpuBack) {
  const auto chosen = [] {
    int device = -1;
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    return device;
  };
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  {
    const DeviceGuard guard(kGpu);
    EXPECT_EQ(chosen(), 0);
    {
      const DeviceGuard inner(cuda_device(1)), none(kCpu);
      EXPECT_EQ(chosen(), 1);
      synchronize(kGpu);
    }
    EXPECT_EQ(chosen(), 0);
    synchronize(cuda_device(1));
  }
  EXPECT_EQ(chosen(), 1);
  EXPECT_NE(error_of([] { const DeviceGuard guard(cuda_device(7)); }).find("no such GPU"),
            std::string::npos);
  EXPECT_EQ(chosen(), 1);
}

/// What comes back of batches that are copied in, computed with and copied out on three streams.
/// All memory is given up as soon as the host has no use for it.
std::vector<Tensor> send_through(int batches) {
  const Stream in = stream_from_pool(kGpu), out = stream_from_pool(kGpu);
  const Stream here = current_stream(kGpu);
  std::vector<Tensor> results;
  for (int i = 0; i < batches; ++i) {
    Event arrived(kGpu), computed(kGpu);
    Tensor x;
    {
      const StreamGuard guard(in);
      x = full({kCount}, i).pin_memory().to(kGpu, /*non_blocking=*/true);
      arrived.record();
    }
    arrived.block(here);
    x.record_stream(here);
    const Tensor y = x * 2 + 1;
    computed.record();
    const StreamGuard guard(out);
    computed.block(out);
    y.record_stream(out);
    results.push_back(y.to(kCpu, /*non_blocking=*/true));
  }
  synchronize(out);
  return results;
}

TEST(SimulatedStreams, CopiesGoOnBesideWork) {
  for (const StreamOrder order : {StreamOrder::kLazy, StreamOrder::kRandom, StreamOrder::kEager}) {
    for (uint64_t seed = 0; seed < 5; ++seed) {
      const sim::ScopedSettings scope({.streams = order, .seed = seed});
      const int64_t waits = sim::waits();
      const std::vector<Tensor> results = send_through(12);
      EXPECT_EQ(sim::waits(), waits + 1);
      for (size_t i = 0; i < results.size(); ++i) {
        const float expected = 2 * static_cast<float>(i) + 1;
        EXPECT_EQ(results[i].to_vector<float>(), std::vector<float>(kCount, expected)) << i;
      }
    }
  }
}

// Nothing orders two streams that use the same weight: what one has cast, the other must not read.
TEST(SimulatedStreams, EachCastsAWeightForItself) {
  const Tensor x = ones({4, 64}, kFloat32, kGpu), w = full({64, 8}, 3, kFloat32, kGpu);
  w.set_requires_grad();
  for (const StreamOrder order : {StreamOrder::kLazy, StreamOrder::kRandom, StreamOrder::kEager}) {
    for (uint64_t seed = 0; seed < 5; ++seed) {
      const sim::ScopedSettings scope({.streams = order, .seed = seed});
      const Stream first = stream_from_pool(kGpu), second = stream_from_pool(kGpu);
      synchronize(kGpu);
      const amp::Autocast guard(kGpu, kBFloat16);
      const auto cast_of = [](const Tensor& y) { return y.grad_fn()->next()[1].node.get(); };
      Tensor before, y;
      {
        const StreamGuard on_first(first);
        before = matmul(x, w);
      }
      {
        const StreamGuard on_second(second);
        y = matmul(x, w);
        EXPECT_NE(cast_of(y), cast_of(before));
        EXPECT_EQ(cast_of(y), cast_of(matmul(x, w))) << "cast twice on one stream";
      }
      synchronize(second);
      EXPECT_EQ(y.detach().to(kFloat32).to_vector<float>(), std::vector<float>(32, 192));
      synchronize(first);
    }
  }
}

#if !WICK_SIM_TSAN
TEST(SimulatedStreams, EachPoolHasThePriorityAskedFor) {
  int least = 0, greatest = 0;
  ASSERT_EQ(cudaDeviceGetStreamPriorityRange(&least, &greatest), cudaSuccess);
  ASSERT_LT(greatest, least);
  for (int i = 0; i < 40; ++i) {  // more than there are in a pool
    for (const bool high : {false, true}) {
      const Stream stream = stream_from_pool(kGpu, high);
      EXPECT_EQ(static_cast<cudaStream_t>(stream.handle)->priority, high ? greatest : least);
    }
  }
}

TEST(SimulatedStreams, AMissingWaitShows) { EXPECT_EQ(handed_over(false), 1); }

TEST(SimulatedStreams, APinnedBufferIsReadWhenItsCopyRuns) {
  const Tensor host = full({kCount}, 1).pin_memory();
  ASSERT_TRUE(host.is_pinned());
  const Tensor device = host.to(kGpu, /*non_blocking=*/true);
  host.fill_(2);  // too early
  EXPECT_EQ(device.to_vector<float>()[0], 2);
}
#endif

TEST(SimulatedStreams, ACopyFromPageableMemoryIsTakenAtOnce) {
  synchronize(kGpu);
  constexpr int64_t kMostStaged = (1 << 20) / 4;  // floats
  for (const int64_t count : {kCount, kMostStaged, kMostStaged + 1}) {
    const Tensor host = full({count}, 1);
    const int64_t waits = sim::waits();
    const Tensor device = host.to(kGpu, /*non_blocking=*/true);
    EXPECT_EQ(sim::waits() - waits, count > kMostStaged) << count;
    host.fill_(2);
    EXPECT_EQ(device.to_vector<float>()[0], 1) << count;
  }
}

TEST(SimulatedStreams, ACopyToPageableMemoryIsThereAtOnce) {
  const Tensor device = full({kCount}, 7, kFloat32, kGpu), host = zeros({kCount});
  synchronize(kGpu);
  ASSERT_FALSE(host.is_pinned());
  const int64_t before = synchronization_count();
  host.copy_(device, /*non_blocking=*/true);
  EXPECT_EQ(synchronization_count() - before, 1);
  EXPECT_EQ(host.data<float>()[kCount - 1], 7);
}

TEST(SimulatedStreams, ACopyToTheHostIsThereOnceTheStreamIsSynchronized) {
  const Tensor device = full({kCount}, 7, kFloat32, kGpu);
  synchronize(kGpu);
  const int64_t waits = sim::waits();
  const Tensor host = device.to(kCpu, /*non_blocking=*/true);
  EXPECT_EQ(sim::waits(), waits);
  EXPECT_TRUE(host.is_pinned());
  synchronize(current_stream(kGpu));
  EXPECT_EQ(host.data<float>()[kCount - 1], 7);
}

TEST(SimulatedStreams, AHostBufferInFlightIsNotReused) {
  std::vector<Tensor> copies;
  for (int i = 0; i < 10; ++i) {  // each pinned buffer dies before its copy has run
    copies.push_back(full({kCount}, i).pin_memory().to(kGpu, /*non_blocking=*/true));
  }
  for (int i = 0; i < 10; ++i) EXPECT_EQ(copies[size_t(i)].to_vector<float>()[3], float(i));
}

/// A block that one stream made and another reads is freed and allocated again.
float reuse(bool record) {
  const Stream other = stream_from_pool(kGpu);
  const Tensor y = zeros({kCount}, kFloat32, kGpu);
  Tensor x = full({kCount}, 5, kFloat32, kGpu);
  synchronize(kGpu);
  {
    const StreamGuard guard(other);
    copy_plus(x, y, 0);
  }
  if (record) x.record_stream(other);
  x = Tensor();
  const Tensor next = full({kCount}, 9, kFloat32, kGpu);
  synchronize(current_stream(kGpu));
  synchronize(other);
  return y.to_vector<float>()[0];
}

TEST(SimulatedStreams, ABlockUsedByAnotherStreamIsKeptForIt) { EXPECT_EQ(reuse(true), 5); }

// Where the sanitizers watch, the same mistake is theirs to report.
#if !WICK_SIM_TSAN && !WICK_SIM_ASAN
TEST(SimulatedStreams, ABlockReusedTooEarlyShows) { EXPECT_NE(reuse(false), 5); }
#endif

TEST(SimulatedStreams, EventsKnowWhetherTheyAreDone) {
  Event event(kGpu, /*timing=*/true), end(kGpu, /*timing=*/true);
  EXPECT_TRUE(event.query());  // never recorded
  const Tensor x = zeros({kCount}, kFloat32, kGpu);
  event.record();
  EXPECT_FALSE(event.query());
  event.synchronize();
  EXPECT_TRUE(event.query());
  end.record();
  end.synchronize();
  EXPECT_NE(error_of([&] { (void)event.elapsed_ms(end); }).find("cudaErrorNotSupported"),
            std::string::npos);
}

TEST(SimulatedFailures, AFailedCallIsATypedErrorThatNamesIt) {
  const Tensor x = zeros({kCount}, kFloat32, kGpu);
  sim::fail_call(1, cudaErrorInvalidValue, "fill_with");
  EXPECT_NE(error_of([&] { fill_with(x, 1); }).find("fill_with failed: cudaErrorInvalidValue"),
            std::string::npos);
  fill_with(x, 2);
  EXPECT_EQ(x.to_vector<float>()[0], 2);

  sim::fail_call(1, cudaErrorIllegalAddress, "exp");
  EXPECT_NE(error_of([&] { x.exp(); }).find("exp: exp failed: cudaErrorIllegalAddress"),
            std::string::npos);
  EXPECT_THROW(fill_with(x, 3), DeviceError);
  EXPECT_THROW(synchronize(kGpu), DeviceError);
  sim::reset();
  fill_with(x, 4);
  EXPECT_EQ(x.to_vector<float>()[0], 4);
}

TEST(SimulatedFailures, OutOfMemoryIsTypedAndPasses) {
  empty_cache(kGpu);
  const int64_t before = memory_allocated(kGpu);
  sim::fail_call(1, cudaErrorMemoryAllocation, "cudaMalloc");
  // The allocator tries again after it gave back what it held: the second attempt works.
  EXPECT_NO_THROW(zeros({int64_t{3} << 20}, kFloat32, kGpu));
  EXPECT_THROW(zeros({int64_t{1} << 40}, kFloat32, kGpu), OutOfMemory);
  EXPECT_EQ(memory_allocated(kGpu), before);
  EXPECT_EQ(zeros({3}, kFloat32, kGpu).to_vector<float>()[2], 0);
}

}  // namespace
}  // namespace wick::testing
