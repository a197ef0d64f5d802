#include "wick/optim/ema.h"

#include <gtest/gtest.h>

#include <cmath>

#include "wick/core/autograd.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/stream.h"
#include "wick/optim/device_schedule.h"
#include "wick/optim/schedule_cycle.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/host_array.h"
#include "wick/tests/optim/reference.h"

namespace wick::testing {
namespace {

using namespace optim;

Tensor flag(double value, Device device) { return full({}, value, kFloat32, device); }

TEST(Ema, AveragesUnlessAStepWasSkipped) {
  for (const Device device : devices()) {
    for (const Dtype dtype : {kFloat64, kFloat32, kBFloat16, kFloat16}) {
      std::vector<Tensor> weights;
      std::vector<std::vector<double>> want;
      for (const int64_t n : {1, 0, 33, 4099}) {
        weights.push_back(random_tensor({n}, static_cast<uint64_t>(n), dtype).to(device));
        want.push_back(doubles(weights.back()));
      }
      Ema ema(weights, 0.75);
      for (int step = 0; step < 5; ++step) {
        for (const Tensor& weight : weights) weight.add_(0.5);
        const bool skipped = step == 2;
        ema.update(step == 0 ? Tensor() : flag(skipped ? 1 : 0, device));
        for (size_t i = 0; i < weights.size(); ++i) {
          const std::vector<double> now = doubles(weights[i]), got = doubles(ema.averages()[i]);
          for (size_t k = 0; k < now.size(); ++k) {
            if (!skipped) want[i][k] = 0.75 * want[i][k] + 0.25 * now[k];
            ASSERT_NEAR(got[k], want[i][k], dtype == kFloat64 ? 1e-14 : 1e-5);
          }
        }
      }
    }
  }
}

TEST(Ema, StandsInForAnEvaluation) {
  for (const Device device : devices()) {
    const Tensor weight = random_tensor({50}, 1).to(device).set_requires_grad();
    Ema ema({weight}, 0.5);
    {
      const NoGrad no_grad;
      weight.add_(2.0);
    }
    ema.update();
    const std::vector<double> before = doubles(weight), average = doubles(ema.averages()[0]);
    {
      const Ema::Swap swap(ema);
      EXPECT_EQ(doubles(weight), average);
    }
    EXPECT_EQ(doubles(weight), before);
    Ema other({weight}, 0.5);
    other.load_state_dict(ema.state_dict());
    EXPECT_EQ(doubles(other.averages()[0]), average);
    Ema two({weight, weight.detach().clone()});
    EXPECT_EQ(error_of([&] { two.load_state_dict(ema.state_dict()); }),
              "ema: load_state_dict: got 1 averages, expected 2");
  }
  EXPECT_EQ(error_of([] { Ema({ones({2})}, 1); }), "ema: decay: got 1, expected a value in [0, 1)");
  EXPECT_EQ(error_of([] { Ema({ones({2}, kInt64)}); }), "ema: tensors must be floating: got int64");
}

TEST(Rollback, TakesBackWhatASkippedStepChanged) {
  for (const Device device : devices()) {
    const std::vector<Tensor> running{random_tensor({64}, 1).to(device),
                                      ones({3}, kFloat64, device)};
    Rollback rollback(running);
    for (const bool skipped : {true, false, true}) {
      const std::vector<Tensor> before{running[0].cpu().clone(), running[1].cpu().clone()};
      rollback.remember();
      for (const Tensor& one : running) one.fill_(skipped ? NAN : 3);
      rollback.restore(flag(skipped ? 1 : 0, device));
      for (size_t i = 0; i < 2; ++i) EXPECT_EQ(bit_equal(running[i].cpu(), before[i]), skipped);
    }
  }
  Rollback of_nothing({});
  of_nothing.remember();
  of_nothing.restore(flag(1, kCpu));
}

TEST(DeviceSchedule, CountsOnlyStepsTaken) {
  for (const Device device : devices()) {
    const Tensor x = random_tensor({20}, 1).to(device).set_requires_grad();
    const Tensor y = x.detach().clone().set_requires_grad();
    SGD one({x}, {.momentum = 0.9}), other({y}, {.momentum = 0.9});
    OneCycleLR on_device(one, {.max_lr = 0.5, .total_steps = 12});
    OneCycleLR plain(other, {.max_lr = 0.5, .total_steps = 12});
    DeviceSchedule counted(on_device, 12);
    const Tensor taken = flag(0, device), skipped = flag(1, device);
    const int64_t waits = synchronization_count();
    x.set_grad(ones({20}, kFloat32, device));
    y.set_grad(ones({20}, kFloat32, device));
    for (int step = 0; step < 14; ++step) {
      const bool skip = step == 0 || step == 5;
      one.step({.found_inf = skip ? skipped : taken});
      counted.step(skip ? skipped : taken);
      if (skip) continue;
      other.step();
      plain.step();
    }
    EXPECT_EQ(synchronization_count(), waits);
    EXPECT_TRUE(bit_equal(x.detach().cpu(), y.detach().cpu()));
    EXPECT_EQ(counted.settle(), 12);
    EXPECT_EQ(one.lr(), other.lr());
    EXPECT_EQ(on_device.steps_taken(), 12);
  }
}

double lr_on_device(SGD& optimizer) { return optimizer.device_rates(0).to_vector<double>()[0]; }

// The optimizer's state brings a rate that the schedule has made: no base to start from.
TEST(DeviceSchedule, GoesOnFromTheBaseThatTheScheduleLoaded) {
  for (const Device device : devices()) {
    const auto make = [&](double lr) {
      return SGD({zeros({2}, kFloat32, device).set_requires_grad()}, {.lr = lr});
    };
    SGD whole = make(1), resumed = make(1);
    ExponentialLR before(whole, 0.5);
    before.step();
    before.step();
    resumed.load_state_dict(whole.state_dict());
    ExponentialLR after(resumed, 0.5);
    after.load_state_dict(before.state_dict());
    EXPECT_EQ(after.base_lr(0), 1);
    DeviceSchedule counted(after, 4);
    EXPECT_EQ(lr_on_device(resumed), 0.25);
    counted.step(flag(0, device));
    EXPECT_EQ(lr_on_device(resumed), 0.125);
    EXPECT_EQ(counted.settle(), 3);
    EXPECT_EQ(resumed.lr(), 0.125);
  }
}

TEST(DeviceSchedule, SaysWhenItWasSteppedPastItsEnd) {
  for (const Device device : devices()) {
    SGD sgd({zeros({2}, kFloat32, device).set_requires_grad()}, {.lr = 1});
    ExponentialLR schedule(sgd, 0.5);
    DeviceSchedule counted(schedule, 2);
    for (int step = 0; step < 2; ++step) counted.step(flag(0, device));
    counted.step(flag(1, device));
    EXPECT_EQ(counted.settle(), 2);
    counted.step(flag(0, device));
    EXPECT_EQ(lr_on_device(sgd), 0.25);
    EXPECT_EQ(error_of([&] { counted.settle(); }),
              "device_schedule: stepped past its end: got 3 steps, expected at most 2");
    EXPECT_EQ(schedule.steps_taken(), 2);
    EXPECT_EQ(error_of([&] { DeviceSchedule(schedule, 1); }),
              "device_schedule: steps: got 1, expected the 2 that the schedule is at, or more");
    EXPECT_EQ(
        error_of([&] { DeviceSchedule(schedule, int64_t{1} << 40); }),
        "device_schedule: steps: got 1099511627776, expected at most 1073741824: the rates of "
        "all are kept");
  }
}

TEST(DeviceSchedule, RefusesValuesThatNoOptimizerTakes) {
  SGD sgd({zeros({2}).set_requires_grad()}, {.lr = 1});
  LambdaLR schedule(sgd, [](int64_t step) { return step < 3 ? 1 : NAN; });
  EXPECT_EQ(error_of([&] { DeviceSchedule(schedule, 2); }), "no error");
  EXPECT_EQ(error_of([&] { DeviceSchedule(schedule, 3); }),
            "sgd: lr: got nan, expected a finite value, 0 or more");
}

}  // namespace
}  // namespace wick::testing
