// A training run needs no more memory at its thousandth step than at its tenth.
#include <gtest/gtest.h>

#include "wick/core/core.h"
#include "wick/nn/nn.h"
#include "wick/optim/optim.h"
#include "wick/tests/harness/devices.h"

namespace wick::testing {
namespace {

TEST(SteadyMemory, IsTheSameAtStepsTenAndAThousand) {
  for (const Device device : devices()) {
    manual_seed(3);
    nn::Sequential net;
    net.push_back(nn::Linear(6, 16));
    net.push_back(nn::BatchNorm1d(16));
    net.push_back(nn::ReLU());
    net.push_back(nn::Dropout(0.3));
    net.push_back(nn::Linear(16, 4));
    net.to(device);
    optim::AdamW optimizer(net.parameters());
    amp::GradScaler scaler;
    optim::Ema ema(net.parameters(), 0.9);
    const Tensor x = randn({8, 6}, kFloat32, device), target = zeros({8}, kInt64, device);
    MemoryStats third, tenth;
    const int steps = device.is_cpu() ? 1000 : 50;  // simulated steps take their time
    for (int step = 1; step <= steps; ++step) {
      optimizer.zero_grad();
      scaler.scale(cross_entropy(net(x), target)).backward();
      scaler.step(optimizer, 1.0);
      ema.update(scaler.found_inf(optimizer));
      scaler.update();
      if (step == 3) third = memory_stats(device);
      if (step == 10) tenth = memory_stats(device);
    }
    const MemoryStats last = memory_stats(device);
    EXPECT_EQ(last.num_device_alloc, third.num_device_alloc) << device;
    EXPECT_EQ(last.all.allocated_bytes.current, tenth.all.allocated_bytes.current) << device;
    EXPECT_EQ(last.all.reserved_bytes.current, tenth.all.reserved_bytes.current) << device;
    EXPECT_EQ(last.all.allocated_bytes.peak, tenth.all.allocated_bytes.peak) << device;
  }
}

}  // namespace
}  // namespace wick::testing
