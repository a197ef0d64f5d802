// What a failed call of the runtime, the driver or a library leaves behind: a typed error, and
// nothing else.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <thread>

#include "wick/core/cuda/virtual_memory.h"
#include "wick/core/memory/allocator.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/loss.h"
#include "wick/core/ops/random.h"
#include "wick/core/random.h"
#include "wick/core/stream.h"
#include "wick/kernels/sim/sanitizers.h"
#include "wick/kernels/sim/simulator.h"
#include "wick/nn/activation_offload.h"
#include "wick/nn/nn.h"
#include "wick/optim/sgd.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/kernels/sim/dropped_calls.h"

namespace wick::testing {
namespace {

void break_device() {
  const Tensor x = zeros({3}, kFloat32, kGpu);
  sim::fail_call(1, cudaErrorIllegalAddress, "exp");
  EXPECT_THROW(x.exp(), DeviceError);
}

TEST(SimulatedFailures, TensorsInFlightDieQuietlyWithTheirDevice) {
  Tensor host = ones({1000}).pin_memory();
  Tensor device = host.to(kGpu, /*non_blocking=*/true);
  device.record_stream(stream_from_pool(kGpu));
  break_device();
  host = Tensor();
  device = Tensor();
  EXPECT_THROW(zeros({3}, kFloat32, kGpu), DeviceError);
  sim::reset();
  EXPECT_EQ(ones({3}, kFloat32, kGpu).to_vector<float>()[2], 1);
}

TEST(SimulatedFailures, MemoryIsNotReusedIfNobodyKnowsWhen) {
  Tensor host = full({1000}, 5).pin_memory();
  const void* const memory = host.raw_data();
  const Tensor device = host.to(kGpu, /*non_blocking=*/true);
  sim::fail_call(1, cudaErrorUnknown, "cudaEventRecord");
  host = Tensor();
  EXPECT_EQ(sim::calls_until_failure(), 0);
  EXPECT_EQ(device.to_vector<float>()[999], 5);
  EXPECT_NE(full({1000}, 6).pin_memory().raw_data(), memory);
}

TEST(SimulatedFailures, OffloadedActivationsDieQuietlyWithTheDevice) {
  const Tensor x = randn({4, 100}).to(kGpu);
  x.set_requires_grad();
  const int64_t before = memory_allocated(kGpu);
  {
    Tensor y;
    {
      const nn::OffloadActivations scope({.min_bytes = 0});
      y = x.exp().tanh().exp().tanh().exp();
    }
    break_device();
    EXPECT_THROW(y.sum(), DeviceError);
  }
  sim::reset();
  EXPECT_EQ(memory_allocated(kGpu), before);
}

TEST(SimulatedFailures, EveryErrorOfABrokenDeviceSaysSo) {
  const Tensor x = zeros({3}, kFloat32, kGpu);
  synchronize(kGpu);
  for (const cudaError_t error :
       {cudaErrorECCUncorrectable, cudaErrorNvlinkUncorrectable, cudaErrorIllegalAddress,
        cudaErrorLaunchTimeout, cudaErrorAssert, cudaErrorHardwareStackError,
        cudaErrorIllegalInstruction, cudaErrorMisalignedAddress, cudaErrorInvalidAddressSpace,
        cudaErrorInvalidPc, cudaErrorLaunchFailure,
        // Those that older toolkits have no names for.
        static_cast<cudaError_t>(226), static_cast<cudaError_t>(721), static_cast<cudaError_t>(810),
        static_cast<cudaError_t>(911)}) {
    sim::fail_call(1, error, "exp");
    EXPECT_THROW(x.exp(), DeviceError) << cudaGetErrorName(error);
    EXPECT_THROW(x.tanh(), DeviceError) << cudaGetErrorName(error);
    sim::reset();
    EXPECT_EQ(x.exp().to_vector<float>()[0], 1) << cudaGetErrorName(error);
  }
}

// As where its code has to be loaded first, and the cache holds all of the memory.
TEST(SimulatedFailures, AKernelMayFindNoMemory) {
  const Tensor x = zeros({3}, kFloat32, kGpu);
  sim::fail_call(1, cudaErrorMemoryAllocation, "exp");
  EXPECT_THROW(x.exp(), OutOfMemory);
  EXPECT_EQ(x.exp().to_vector<float>()[0], 1);
}

// The driver's codes are its own, as a library's are.
TEST(SimulatedFailures, ADriversFailureTellsOfABrokenDevice) {
  constexpr size_t kPage = size_t{2} << 20;
  void* const base = cuda::reserve_addresses(kGpu, kPage);
  sim::fail_call(1, cudaErrorIllegalAddress, "cuMemCreate");
  EXPECT_THROW(cuda::map_memory(kGpu, base, kPage, kPage), DeviceError);
  sim::reset();
  sim::fail_call(1, cudaErrorMemoryAllocation, "cuMemAddressFree");
  EXPECT_THROW(cuda::release_addresses(base, kPage), OutOfMemory);
  cuda::release_addresses(base, kPage);
}

TEST(SimulatedFailures, AnotherLibraryMayChooseAnotherDevice) {
  const Tensor x = ones({1000}, kFloat32, kGpu);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ((x + x).to_vector<float>()[999], 2);
  int device = -1;
  ASSERT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 0);
}

TEST(SimulatedFailures, PinnedMemoryIsNamedWhenThereIsNone) {
  const std::string error =
      error_of([] { pinned_allocator().allocate(size_t{1} << 60, Stream{}); });
  EXPECT_EQ(error.rfind("allocate: out of pinned memory on cpu: requested", 0), 0u) << error;
  EXPECT_EQ(error.find("nn::advise_on_memory"), std::string::npos) << error;
}

// Training as it should be on a GPU: the next images are copied from pinned memory on a stream of
// their own, and the loss comes back while the host goes on.
class CopyingTraining {
 public:
  CopyingTraining() : model_(make_model()), sgd_(model_.parameters(), {.lr = 0.01}) {
    Generator generator(5);
    images_ = randn({2, 1, 6, 6}, kFloat32, kCpu, &generator);
  }

  double step() {
    const Stream copies = stream_from_pool(kGpu);
    const Tensor labels = zeros({2}, kInt64, kGpu);
    Tensor images;
    Event copied(kGpu);
    {
      const StreamGuard guard(copies);
      images = images_.pin_memory().to(kGpu, /*non_blocking=*/true);
      copied.record();
    }
    copied.block(current_stream(kGpu));
    images.record_stream(current_stream(kGpu));
    sgd_.zero_grad();
    const Tensor loss = cross_entropy(model_(images), labels);
    loss.backward();
    sgd_.step();
    const Tensor result = loss.detach().to(kCpu, /*non_blocking=*/true);
    synchronize(kGpu);
    return result.item();
  }

 private:
  static nn::Sequential make_model() {
    manual_seed(3);
    nn::Sequential model(nn::Conv2d(1, 2, 3), nn::ReLU(), nn::Flatten(), nn::Linear(32, 3));
    model.to(kGpu);
    return model;
  }

  nn::Sequential model_;
  optim::SGD sgd_;
  Tensor images_;
};

// ThreadSanitizer, which has room for few threads beside the simulated ones, dies of many.
constexpr int64_t kCallStride = WICK_SIM_TSAN ? 29 : 1;

void survive_every_failure(cudaError_t error, bool breaks, int64_t first) {
  CopyingTraining training;
  double last = training.step();
  const int64_t before = memory_allocated(kGpu);
  const int64_t pinned = pinned_allocator().stats().all.allocated_bytes.current;
  int64_t nth = first;
  for (bool reached = true; reached; nth += kCallStride) {
    // On a thread of its own, which has no handles and plans yet.
    std::thread([&] {
      sim::fail_call(nth, error);
      bool told = false;
      try {
        training.step();
      } catch (const Error& failure) {
        told = true;
        EXPECT_EQ(dynamic_cast<const DeviceError*>(&failure) != nullptr, breaks) << failure.what();
      }
      reached = sim::calls_until_failure() == 0;
      sim::fail_call(0, cudaSuccess);
      if (!reached || told) return;
      EXPECT_TRUE(is_dropped(sim::failed_call()))
          << "nobody was told that call " << nth << ", " << sim::failed_call() << ", failed";
    }).join();
    if (breaks) sim::reset();
    ASSERT_NO_THROW(last = training.step()) << "after call " << nth;
    ASSERT_TRUE(std::isfinite(last)) << "after call " << nth;
    ASSERT_EQ(memory_allocated(kGpu), before) << "after call " << nth;
    ASSERT_EQ(pinned_allocator().stats().all.allocated_bytes.current, pinned)
        << "after call " << nth;
  }
  EXPECT_GT(nth, 50);
}

TEST(SimulatedFailures, TrainingSurvivesEveryCallThatFails) {
  survive_every_failure(cudaErrorUnknown, /*breaks=*/false, 1);
}
TEST(SimulatedFailures, TrainingSurvivesEveryCallThatBreaksTheDevice) {
  survive_every_failure(cudaErrorIllegalAddress, /*breaks=*/true, (kCallStride + 1) / 2);
}

}  // namespace
}  // namespace wick::testing
