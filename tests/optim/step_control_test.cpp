#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "wick/core/autograd.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/stream.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/host_array.h"
#include "wick/tests/optim/reference.h"

// What a step can be told on the device: to divide, to clip, to do nothing; and 16-bit parameters.

namespace wick::testing {
namespace {

using namespace optim;

Tensor flag(double value, Device device) { return full({}, value, kFloat32, device); }

std::vector<Tensor> make_params(Device device, Dtype dtype = kFloat32) {
  std::vector<Tensor> params;
  uint64_t seed = 0;
  for (const Shape& shape : {Shape{}, Shape{33}, Shape{4, 5}, Shape{4100}}) {
    params.push_back(random_tensor(shape, ++seed, dtype).to(device).set_requires_grad());
  }
  return params;
}

void set_grads(const std::vector<Tensor>& params, int step, double factor = 1) {
  for (size_t i = 0; i < params.size(); ++i) {
    const Tensor grad = random_tensor(params[i].shape(), 100 * static_cast<uint64_t>(step) + i + 7);
    params[i].set_grad((grad * factor).to(params[i].dtype()).to(params[i].device()));
  }
}

// All that a checkpoint would hold, bit by bit.
StateDict all_state(const Optimizer& optimizer) {
  StateDict all;
  add_copies(all, "", optimizer.state_dict());
  for (int g = 0; g < optimizer.num_groups(); ++g) {
    for (size_t i = 0; i < optimizer.params(g).size(); ++i) {
      all[concat("param.", g, ".", i)] = optimizer.params(g)[i].detach().cpu().clone();
    }
  }
  return all;
}

class StepControlTest : public ::testing::TestWithParam<OptimizerCase> {};
INSTANTIATE_TEST_SUITE_P(All, StepControlTest, ::testing::ValuesIn(optimizer_cases()),
                         [](const auto& test) { return test.param.name; });

TEST_P(StepControlTest, ASkippedStepChangesNothing) {
  for (const Device device : devices()) {
    for (const Dtype dtype : {kFloat32, kBFloat16}) {
      const std::vector<Tensor> with = make_params(device, dtype),
                                without = make_params(device, dtype);
      const auto one = GetParam().make(with), other = GetParam().make(without);
      int taken = 0;
      for (int step = 0; step < 7; ++step) {
        const bool skipped = step == 0 || step == 3 || step == 4;
        set_grads(with, skipped ? 50 : taken);
        if (skipped) with[1].grad().fill_(INFINITY);
        const StateDict before = all_state(*one);
        one->step({.found_inf = flag(skipped ? 1 : 0, device)});
        if (skipped) {
          expect_same(all_state(*one), before);
          continue;
        }
        set_grads(without, taken++);
        other->step();
        expect_same(all_state(*one), all_state(*other));
      }
    }
  }
}

// By the norm of its own gradients, with clipping and without.
TEST_P(StepControlTest, SkipsAStepWhoseGradientsAreNotFinite) {
  for (const Device device : devices()) {
    for (const std::optional<double> max_norm : {std::optional<double>(), std::optional(0.5)}) {
      const StepControl control{.max_norm = max_norm, .skip_non_finite = true};
      const std::vector<Tensor> with = make_params(device), without = make_params(device);
      const auto one = GetParam().make(with), other = GetParam().make(without);
      int taken = 0;
      for (int step = 0; step < 4; ++step) {
        const bool skipped = step == 0 || step == 2;
        set_grads(with, skipped ? 50 : taken);
        if (skipped) with[3].grad()[4099].fill_(step == 0 ? INFINITY : NAN);
        const StateDict before = all_state(*one);
        const Tensor norm = one->step(control);
        EXPECT_EQ(found_inf_of(norm).item(), skipped ? 1 : 0);
        if (skipped) {
          expect_same(all_state(*one), before);
          continue;
        }
        set_grads(without, taken++);
        other->step({.max_norm = max_norm});
        expect_same(all_state(*one), all_state(*other));
      }
    }
  }
}

TEST_P(StepControlTest, DividesByTheScale) {
  for (const Device device : devices()) {
    const std::vector<Tensor> scaled = make_params(device), plain = make_params(device);
    const auto one = GetParam().make(scaled), other = GetParam().make(plain);
    for (int step = 0; step < 3; ++step) {
      set_grads(scaled, step, 1024);
      set_grads(plain, step);
      const Tensor norm = one->step({.grad_scale = flag(1024, device)});
      EXPECT_EQ(norm.defined(), clips(GetParam()));
      other->step();
      expect_same(all_state(*one), all_state(*other));
    }
  }
}

TEST_P(StepControlTest, ClipsWithinTheUpdate) {
  for (const Device device : devices()) {
    const std::vector<Tensor> fused = make_params(device, kFloat64);
    const std::vector<Tensor> plain = make_params(device, kFloat64);
    const auto one = GetParam().make(fused), other = GetParam().make(plain);
    for (int step = 0; step < 3; ++step) {
      set_grads(fused, step, 8);
      set_grads(plain, step);
      const Tensor norm = one->step({.grad_scale = flag(8, device), .max_norm = 0.5});
      EXPECT_NEAR(norm.item(), clip_grad_norm_(plain, 0.5).item(), 1e-9);
      other->step();
      for (size_t i = 0; i < fused.size(); ++i) {
        const std::vector<double> got = doubles(fused[i]), want = doubles(plain[i]);
        for (size_t k = 0; k < got.size(); ++k) ASSERT_NEAR(got[k], want[k], 1e-9);
      }
    }
  }
}

// The master of each parameter of `narrow`, which is what it rounds to, and that of `wide`.
void expect_near_masters(const Optimizer& narrow, const Optimizer& wide) {
  const StateDict state = narrow.state_dict();
  for (int g = 0; g < narrow.num_groups(); ++g) {
    for (size_t i = 0; i < narrow.params(g).size(); ++i) {
      const Tensor& param = narrow.params(g)[i];
      const Tensor& master = state.at(concat("state.", g, ".", i, ".master"));
      EXPECT_TRUE(bit_equal(param.detach().cpu(), master.to(param.dtype()).cpu()));
      const std::vector<double> got = doubles(master), want = doubles(wide.params(g)[i]);
      for (size_t k = 0; k < got.size(); ++k) {
        ASSERT_NEAR(got[k], want[k], 2e-6 * (1 + std::abs(want[k])));
      }
    }
  }
}

TEST_P(StepControlTest, KeepsAMasterOf16BitParameters) {
  for (const Device device : devices()) {
    for (const Dtype dtype : {kFloat16, kBFloat16}) {
      std::vector<Tensor> narrow = make_params(device, dtype), wide;
      for (const Tensor& param : narrow) {
        wide.push_back(param.detach().to(kFloat32).set_requires_grad());
      }
      const auto one = GetParam().make(narrow), other = GetParam().make(wide);
      for (int step = 0; step < 4; ++step) {
        set_grads(narrow, step);
        for (size_t i = 0; i < wide.size(); ++i) wide[i].set_grad(narrow[i].grad().to(kFloat32));
        if (step == 2) {  // somebody else changes a parameter
          const NoGrad no_grad;
          narrow[2].fill_(0.25);
          wide[2].fill_(0.25);
        }
        one->step();
        other->step();
        expect_near_masters(*one, *other);
      }
    }
  }
}

TEST_P(StepControlTest, ReadsRatesOnTheDevice) {
  for (const Device device : devices()) {
    const std::vector<Tensor> there = make_params(device), plain = make_params(device);
    const auto one = GetParam().make(there), other = GetParam().make(plain);
    one->make_capturable();
    const int groups = one->num_groups();
    for (int step = 0; step < 3; ++step) {
      set_grads(there, step);
      set_grads(plain, step);
      one->set_lr(0.01 * (step + 1));
      other->set_lr(0.01 * (step + 1));
      for (int g = 0; g < groups; ++g) {
        EXPECT_EQ(one->device_rates(g)[0].item(), 0.01 * (step + 1));
      }
      one->step();
      other->step();
      expect_same(all_state(*one), all_state(*other));
    }
    for (int g = 0; g < groups; ++g) {
      one->device_rates(g)[0].fill_(0.5);  // as a captured step's host would
    }
    one->step();
    other->set_lr(0.5);
    other->step();
    for (size_t i = 0; i < there.size(); ++i) {
      EXPECT_TRUE(bit_equal(there[i].detach().cpu(), plain[i].detach().cpu()));
    }
  }
}

TEST_P(StepControlTest, WaitsForNothing) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  const Device device = cuda_device(0);
  const std::vector<Tensor> params = make_params(device);
  const auto optimizer = GetParam().make(params);
  const Tensor scale = flag(4, device), found = flag(0, device);
  set_grads(params, 1);
  const int64_t before = synchronization_count();
  for (int step = 0; step < 5; ++step) {
    const Tensor norm = optimizer->step(
        {.grad_scale = scale, .found_inf = found, .max_norm = 1.0, .skip_non_finite = true});
    found_inf_of(norm);
    optimizer->set_lr(0.01);
  }
  EXPECT_EQ(synchronization_count(), before);
}

TEST(StepControl, RefusesWhatIsNotItsKind) {
  const Tensor param = random_tensor({3}, 1).set_requires_grad();
  SGD optimizer({param});
  EXPECT_EQ(error_of([&] { optimizer.step({.found_inf = zeros({1})}); }),
            "sgd: step: found_inf: got float32 of shape [1] on cpu, expected float32 of shape [] "
            "on cpu");
  EXPECT_EQ(error_of([&] { optimizer.step({.grad_scale = zeros({}, kFloat64)}); }),
            "sgd: step: grad_scale: got float64 of shape [] on cpu, expected float32 of shape [] "
            "on cpu");
  EXPECT_EQ(error_of([&] { optimizer.step({.max_norm = -1.0}); }),
            "sgd: step: max_norm: got -1, expected 0 or more");
}

// Of those that go by the norms of parameters each is compared with loops of its own.
TEST(DecoupledDecay, ShrinksBeforeTheUpdate) {
  for (const std::string& name : optimizer_names()) {
    for (const Device device : devices()) {
      const Tensor x = random_tensor({40}, 3, kFloat64).to(device).set_requires_grad();
      const Tensor y = x.detach().clone().set_requires_grad();
      const auto one = find_optimizer(name).make_default({x});
      const auto other = find_optimizer(name).make_default({y});
      if (!one->is_elementwise() || !one->hyperparameter(0, "decoupled_weight_decay")) continue;
      one->set_hyperparameters(
          {{{"lr", 0.5}, {"weight_decay", 0.1}, {"decoupled_weight_decay", 1}}});
      other->set_hyperparameters({{{"lr", 0.5}, {"weight_decay", 0}}});
      x.set_grad(random_tensor({40}, 9, kFloat64).to(device));
      y.set_grad(x.grad());
      one->step();
      {
        const NoGrad no_grad;
        y.mul_(1 - 0.5 * 0.1);
      }
      other->step();
      const std::vector<double> got = doubles(x), want = doubles(y);
      for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-14) << name;
    }
  }
}

}  // namespace
}  // namespace wick::testing
