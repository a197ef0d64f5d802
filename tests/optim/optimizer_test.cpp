#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "wick/core/autograd.h"
#include "wick/core/base/parallel.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/stream.h"
#include "wick/tests/optim/reference.h"
#ifdef WICK_SIM
#include "wick/kernels/sim/simulator.h"
#include "wick/tests/harness/scoped_blocks.h"
#include "wick/tests/optim/launches.h"
#endif

// What every optimizer has in common, over all of them and their options.

namespace wick::testing {
namespace {

using optim::Optimizer;
using optim::StateDict;

class OptimizerTest : public ::testing::TestWithParam<OptimizerCase> {};
INSTANTIATE_TEST_SUITE_P(All, OptimizerTest, ::testing::ValuesIn(optimizer_cases()),
                         [](const auto& test) { return test.param.name; });

bool has_rule(const OptimizerCase& test) { return test.rule != nullptr; }
bool does_not_clip(const OptimizerCase& test) { return !clips(test); }

class OptimizerRuleTest : public OptimizerTest {};
INSTANTIATE_TEST_SUITE_P(All, OptimizerRuleTest, ::testing::ValuesIn(cases_with(has_rule)),
                         [](const auto& test) { return test.param.name; });

TEST(Optimizers, EachIsComparedWithPlainLoops) {
  const std::vector<OptimizerCase> cases = cases_with(has_rule);
  for (const std::string& name : optim::optimizer_names()) {
    EXPECT_TRUE(std::any_of(cases.begin(), cases.end(),
                            [&](const OptimizerCase& one) { return one.name == name; }))
        << "no case is called " << name;
  }
}

// A parameter that is trained, and what plain loops make of it.
struct Trained {
  // Before step `first`, and with `first` 0 always, its gradients are 0.
  Trained(const Shape& shape, uint64_t seed_in, Dtype dtype, MemoryFormat format,
          Device device = kCpu, int first_in = 1)
      : param(random_tensor(shape, seed_in, dtype).contiguous(format).clone().to(device)),
        want(param),
        seed(seed_in),
        first(first_in) {
    param.set_requires_grad();
  }
  void set_grad(int step) {
    const Tensor grad = random_tensor(param.shape(), seed + 1000 + static_cast<uint64_t>(step));
    const double factor = first > 0 && step >= first ? 1 : 0;
    param.set_grad((grad * factor).to(param.dtype()).to(param.device()));
  }
  void follow(const Rule& rule, int step, double factor = 1) {
    Numbers grad = doubles(param.grad());
    for (double& g : grad) g *= factor;
    rule(want, grad, step);
  }
  void expect_equal(double tolerance) const {
    const Numbers got = doubles(param);
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], want.w[i], tolerance * (1 + std::abs(want.w[i]))) << "element " << i;
    }
  }

  Tensor param;
  Reference want;
  uint64_t seed;
  int first;
};

// What an optimizer that clips multiplies all gradients by.
double clip_factor(const Optimizer& optimizer, const std::vector<Trained>& all) {
  const double most = own_max_norm(optimizer);
  double square = 0;
  for (const Trained& one : all) {
    if (!one.param.grad().defined()) continue;
    const double norm = norm_of(doubles(one.param.grad()));
    square += norm * norm;
  }
  return most == 0 ? 1 : std::min(1.0, most / (std::sqrt(square) + 1e-6));
}

void train_and_compare(const OptimizerCase& test, Device device, Dtype dtype) {
  const double tolerance = test.tolerance * (dtype == kFloat64 ? 5e-8 : 1);
  constexpr MemoryFormat kPlain = MemoryFormat::kContiguous;
  std::vector<Trained> all;
  all.emplace_back(Shape{}, 1, dtype, kPlain, device);
  all.emplace_back(Shape{0, 3}, 2, dtype, kPlain, device);
  all.emplace_back(Shape{127}, 3, dtype, kPlain, device);
  all.emplace_back(Shape{5, 3, 3, 7}, 4, dtype, MemoryFormat::kChannelsLast, device);
  all.emplace_back(Shape{16384 + 5}, 5, dtype, kPlain, device);  // two chunks
  all.emplace_back(Shape{9, 4}, 6, dtype, kPlain, device, 0);
  all.emplace_back(Shape{33}, 7, dtype, kPlain, device, 2);
  {
    const NoGrad no_grad;
    all.back().param.zero_();
    all.back().want = Reference(all.back().param);
  }
  std::vector<Tensor> params;
  for (const Trained& one : all) params.push_back(one.param);
  const auto optimizer = test.make(params);
  for (int step = 1; step <= 8; ++step) {
    for (Trained& one : all) one.set_grad(step);
    const double factor = clip_factor(*optimizer, all);
    optimizer->step();
    for (Trained& one : all) {
      one.follow(test.rule, step, factor);
      one.expect_equal(tolerance);
    }
  }
}

TEST_P(OptimizerRuleTest, FollowsPlainLoops) {
  for (const Dtype dtype : {kFloat32, kFloat64}) train_and_compare(GetParam(), kCpu, dtype);
}
TEST_P(OptimizerRuleTest, FollowsPlainLoopsOnAGpu) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  for (const Dtype dtype : {kFloat32, kFloat64}) {
    train_and_compare(GetParam(), cuda_device(0), dtype);
  }
}

TEST_P(OptimizerRuleTest, SkipsMissingGradientsButNotZeroOnes) {
  std::vector<Trained> all;
  for (const uint64_t seed : {1, 2}) {
    all.emplace_back(Shape{9}, seed, kFloat64, MemoryFormat::kContiguous);
  }
  Trained &present = all[0], &absent = all[1];
  const auto optimizer = GetParam().make({present.param, absent.param});
  int absent_steps = 0;
  for (int step = 1; step <= 6; ++step) {
    present.set_grad(step);
    if (step == 5) present.param.set_grad(zeros_like(present.param));
    const bool skipped = step == 1 || step == 4;
    absent.set_grad(step);
    if (skipped) absent.param.set_grad({});
    const double factor = clip_factor(*optimizer, all);
    optimizer->step();
    present.follow(GetParam().rule, step, factor);
    if (!skipped) absent.follow(GetParam().rule, ++absent_steps, factor);
    present.expect_equal(1e-12);
    absent.expect_equal(1e-12);
  }
}

// Gradient `step` of parameter i.
void set_grads(const std::vector<Tensor>& params, int step) {
  for (size_t i = 0; i < params.size(); ++i) {
    const uint64_t seed = 100 * static_cast<uint64_t>(step) + i;
    params[i].set_grad(
        random_tensor(params[i].shape(), seed, params[i].dtype()).to(params[i].device()));
  }
}

// `there`: the device to go on on.
void stop_and_go_on(const OptimizerCase& test, Device device, Device there) {
  const auto make_params = [&] {
    std::vector<Tensor> params{random_tensor({33}, 1).to(device),
                               random_tensor({4, 5, 3, 3}, 2, kFloat64).to(device)};
    for (const Tensor& param : params) param.set_requires_grad();
    return params;
  };
  const std::vector<Tensor> whole = make_params(), first = make_params();
  const auto one = test.make(whole);
  const auto two = test.make(first);
  for (int step = 0; step < 8; ++step) {
    set_grads(whole, step);
    one->step();
  }
  for (int step = 0; step < 4; ++step) {
    set_grads(first, step);
    two->step();
  }
  std::vector<Tensor> second;
  for (const Tensor& param : first) {
    second.push_back(param.detach().clone().to(there).set_requires_grad());
  }
  StateDict state;
  for (const auto& [name, value] : two->state_dict()) state[name] = value.clone();
  const auto three = test.make(second);
  three->set_lr(0.5);  // what is loaded replaces it
  three->load_state_dict(state);
  EXPECT_EQ(three->lr(), one->lr());
  for (int step = 4; step < 8; ++step) {
    set_grads(second, step);
    three->step();
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    const std::vector<double> got = doubles(second[i]), want = doubles(whole[i]);
    for (size_t k = 0; k < got.size(); ++k) {
      ASSERT_NEAR(got[k], want[k], there == device ? 0 : 1e-5 * (1 + std::abs(want[k])));
    }
  }
}

TEST_P(OptimizerTest, GoesOnFromItsStateWithTheSameBits) { stop_and_go_on(GetParam(), kCpu, kCpu); }
TEST_P(OptimizerTest, GoesOnOnAnotherDevice) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  stop_and_go_on(GetParam(), cuda_device(0), cuda_device(0));
  stop_and_go_on(GetParam(), kCpu, cuda_device(0));
  stop_and_go_on(GetParam(), cuda_device(0), kCpu);
}

TEST_P(OptimizerTest, OneAndTwoThreadsGiveTheSameBits) {
  const int threads = num_threads();
  std::vector<std::vector<double>> results;
  for (const int count : {1, 2}) {
    set_num_threads(count);
    const Tensor param = random_tensor({70001}, 7).set_requires_grad();
    const auto optimizer = GetParam().make({param});
    for (int step = 0; step < 3; ++step) {
      set_grads({param}, step);
      optimizer->step();
    }
    results.push_back(doubles(param));
  }
  set_num_threads(threads);
  EXPECT_EQ(results[0], results[1]);
}

class OptimizerAloneTest : public OptimizerTest {};
INSTANTIATE_TEST_SUITE_P(All, OptimizerAloneTest, ::testing::ValuesIn(cases_with(does_not_clip)),
                         [](const auto& test) { return test.param.name; });

void update_together(const OptimizerCase& test, Device device, int64_t large) {
  // A simulated step takes its time; of the numbers of 250 all fit one launch.
  const bool is_slow = device.is_cuda() && device_properties(device).simulated;
  const uint64_t count = is_slow && test.name != "adamw" ? 250 : 1000;
  std::vector<Tensor> together, alone;
  for (uint64_t i = 0; i < count; ++i) {
    const auto n = static_cast<int64_t>(i % 200 == 0 ? static_cast<uint64_t>(large) + i : i % 60);
    const Dtype dtype = i % 5 == 0 ? kFloat64 : kFloat32;
    together.push_back(random_tensor({n}, i, dtype).to(device).set_requires_grad());
    alone.push_back(random_tensor({n}, i, dtype).to(device).set_requires_grad());
  }
  set_grads(together, 1);
  set_grads(alone, 1);
  test.make(together)->step();
  for (size_t i = 0; i < alone.size(); ++i) {
    test.make({alone[i]})->step();
    ASSERT_EQ(doubles(together[i]), doubles(alone[i])) << "tensor " << i;
  }
}

TEST_P(OptimizerAloneTest, UpdatesAThousandTensorsLikeEachAlone) {
  update_together(GetParam(), kCpu, 17000);
}
TEST_P(OptimizerAloneTest, UpdatesManyTensorsOnAGpuInFewKernels) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  update_together(GetParam(), cuda_device(0), 4097);
#ifdef WICK_SIM
  const int64_t passes = GetParam().passes;
  if (passes == 0) return;
  std::vector<Tensor> params;
  for (int i = 0; i < 1000; ++i) params.push_back(zeros({3}, kFloat32, cuda_device(0)));
  for (const Tensor& param : params) param.set_requires_grad().set_grad(zeros_like(param));
  const auto optimizer = GetParam().make(params);
  const int states = states_of(GetParam().make);
  std::vector<uint64_t> blocks;  // all of those that make records
  for (uint64_t b = 0; b < 16; ++b) blocks.push_back(b);
  const ScopedBlocks only(blocks);
  optimizer->step();
  const int64_t before = sim::calls();
  optimizer->step();
  EXPECT_EQ(sim::calls() - before,
            passes * (launches_for_records(1000) + launches_for_elements(1000, states)));
  synchronize(cuda_device(0));
#endif
}

class OptimizerElementsTest : public OptimizerTest {};
INSTANTIATE_TEST_SUITE_P(All, OptimizerElementsTest,
                         ::testing::ValuesIn(cases_with(is_elementwise)),
                         [](const auto& test) { return test.param.name; });

void spoil_one(const OptimizerCase& test, Device device) {
  const Tensor param = ones({40}, kFloat32, device).set_requires_grad();
  const auto optimizer = test.make({param});
  for (int step = 0; step < 2; ++step) {
    std::vector<float> grad(40, 1.0f);
    if (step == 0) grad[33] = NAN;
    param.set_grad(tensor(grad).to(device));
    optimizer->step();
  }
  const std::vector<double> got = doubles(param);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(std::isnan(got[i]), i == 33) << i;
}
TEST_P(OptimizerElementsTest, KeepsNotANumber) { spoil_one(GetParam(), kCpu); }
TEST_P(OptimizerElementsTest, KeepsNotANumberOnAGpu) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  spoil_one(GetParam(), cuda_device(0));
}

}  // namespace
}  // namespace wick::testing
