#include "wick/optim/grad_scaler.h"

#include <gtest/gtest.h>

#include <cmath>

#include "wick/core/autograd.h"
#include "wick/core/base/philox.h"
#include "wick/core/memory/allocator.h"
#include "wick/core/memory/stats.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/stream.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/host_array.h"
#include "wick/tests/optim/reference.h"
#ifdef WICK_SIM
#include "wick/kernels/sim/simulator.h"
#endif

namespace wick::testing {
namespace {

using amp::GradScaler;
using amp::GradScalerOptions;
using namespace optim;

Tensor parameter(const Shape& shape, uint64_t seed, Device device = kCpu) {
  return random_tensor(shape, seed).to(device).set_requires_grad();
}

// A gradient of `size` elements, with an infinity or NaN if `bad`.
void set_grad(const Tensor& param, bool bad, uint64_t seed = 5) {
  const Tensor grad = random_tensor(param.shape(), seed);
  if (bad) grad.reshape({-1})[grad.numel() / 2].fill_(seed % 2 == 0 ? INFINITY : NAN);
  param.set_grad(grad.to(param.device()));
}

// Memory ran out in the first step, which makes the state; some was freed, and it is repeated.
TEST(GradScaler, StepCanBeRepeated) {
  const Tensor small = parameter({8}, 2), x = parameter({1 << 20}, 1);
  Adam optimizer({{.params = {small}}, {.params = {x}}});  // there is memory for the first
  GradScaler scaler({.init_scale = 8});
  scaler.scale(zeros({}));
  set_grad(small, false);
  set_grad(x, false);
  const std::vector<double> before = doubles(small);
  CachingAllocator& memory = allocator(kCpu);
  const size_t limit = memory.memory_limit();
  empty_cache(kCpu);
  memory.set_memory_limit(static_cast<size_t>(memory_allocated(kCpu)) + (1 << 20));
  EXPECT_THROW(scaler.step(optimizer), OutOfMemory);
  EXPECT_EQ(doubles(small), before);
  memory.set_memory_limit(limit);
  scaler.step(optimizer);
  scaler.update();
  for (const char* step : {"state.0.0.step", "state.1.0.step"}) {
    EXPECT_EQ(optimizer.state_dict().at(step).item<int64_t>(), 1);
  }
}

// The rule, as its definition says it.
struct ScalerRule {
  GradScalerOptions options;
  float scale;
  int64_t tracker = 0;

  explicit ScalerRule(const GradScalerOptions& o)
      : options(o), scale(static_cast<float>(o.init_scale)) {}
  void update(bool found_inf) {
    if (found_inf) {
      scale = static_cast<float>(std::max(scale * options.backoff_factor, options.min_scale));
      tracker = 0;
    } else if (++tracker == options.growth_interval) {
      const auto larger = static_cast<float>(scale * options.growth_factor);
      if (std::isfinite(larger)) scale = larger;
      tracker = 0;
    }
  }
};

void follow_the_rule(Device device, int sequences) {
  PhiloxStream random(7, 0);
  const auto draw = [&](int n) {
    return static_cast<int>(random.uniform() * static_cast<float>(n));
  };
  for (int sequence = 0; sequence < sequences; ++sequence) {
    GradScalerOptions options;
    options.init_scale = std::ldexp(1.0, draw(130) - 1);
    options.growth_factor = 1.5 + draw(3);
    options.backoff_factor = 0.1 + 0.2 * draw(4);
    options.growth_interval = 1 + draw(4);
    options.min_scale = draw(2) == 0 ? 0 : options.init_scale / 8;
    const int often = 1 + draw(5);
    GradScaler scaler(options);
    ScalerRule rule(options);
    const Tensor a = parameter({3}, 1, device), b = parameter({2}, 2, device);
    SGD one({a}), other({b});
    scaler.scale(zeros({}, kFloat32, device));
    const std::vector<double> start = doubles(a);
    for (int step = 0; step < 8; ++step) {
      const bool bad_a = draw(often) == 0, bad_b = draw(2 * often) == 0;
      set_grad(a, bad_a);
      set_grad(b, bad_b);
      if (step % 2 == 0) scaler.unscale_(one);
      a.set_grad(bad_a ? a.grad() : zeros_like(a));
      scaler.step(one);
      scaler.step(other);
      scaler.update();
      rule.update(bad_a || bad_b);
      ASSERT_EQ(scaler.get_scale(), static_cast<double>(rule.scale)) << sequence << " " << step;
      ASSERT_EQ(scaler.growth_tracker(), rule.tracker) << sequence << " " << step;
    }
    ASSERT_EQ(doubles(a), start);
  }
}

TEST(GradScaler, FollowsItsRuleOverRandomInfinities) { follow_the_rule(kCpu, 10000); }
TEST(GradScaler, FollowsItsRuleOverRandomInfinitiesOnAGpu) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  follow_the_rule(cuda_device(0), 12);
}

TEST(GradScaler, GivesTheStepOfUnscaledGradients) {
  for (const Device device : devices()) {
    for (const bool unscales : {false, true}) {
      const Tensor x = parameter({50}, 1, device), y = parameter({50}, 1, device);
      AdamW scaled({x}), plain({y});
      GradScaler scaler;
      for (int step = 0; step < 4; ++step) {
        x.set_grad({});
        y.set_grad({});
        scaler.scale((x * x * x).sum()).backward();
        (y * y * y).sum().backward();
        EXPECT_EQ(doubles(x.grad())[3], 65536 * doubles(y.grad())[3]);
        if (unscales) {
          scaler.unscale_(scaled);
          EXPECT_TRUE(bit_equal(x.grad().cpu(), y.grad().cpu()));
        }
        EXPECT_FALSE(scaler.step(scaled).defined());
        EXPECT_EQ(scaler.found_inf(scaled).item(), 0);
        scaler.update();
        plain.step();
        EXPECT_TRUE(bit_equal(x.detach().cpu(), y.detach().cpu()));
      }
    }
  }
}

TEST(GradScaler, ScalesEachOfSeveralLosses) {
  for (const Device device : devices()) {
    GradScaler scaler({.init_scale = 8}), disabled({.enabled = false});
    const std::vector<Tensor> losses = {full({}, 0.5, kFloat32, device), ones({2}).to(device)};
    const std::vector<Tensor> scaled = scaler.scale(losses);
    ASSERT_EQ(scaled.size(), 2u);
    EXPECT_EQ(doubles(scaled[0]), (std::vector<double>{4}));
    EXPECT_EQ(doubles(scaled[1]), (std::vector<double>{8, 8}));
    EXPECT_TRUE(disabled.scale(losses)[1].is_same(losses[1]));
  }
}

TEST(GradScaler, ClipsWhileItUnscales) {
  for (const Device device : devices()) {
    for (const bool unscales : {false, true}) {
      const Tensor x = parameter({50}, 1, device), y = parameter({50}, 1, device);
      SGD scaled({x}, {.lr = 0.1}), plain({y}, {.lr = 0.1});
      GradScaler scaler;
      scaler.scale((x * x * x).sum()).backward();
      (y * y * y).sum().backward();
      if (unscales) scaler.unscale_(scaled);
      const Tensor norm = scaler.step(scaled, 0.5);
      EXPECT_NEAR(norm.item(), clip_grad_norm_({y}, 0.5).item(), 1e-5);
      plain.step();
      for (size_t i = 0; i < 50; ++i) EXPECT_NEAR(doubles(x)[i], doubles(y)[i], 1e-6);
    }
  }
}

TEST(GradScaler, WaitsForNothing) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  const Device device = cuda_device(0);
  const Tensor x = parameter({300}, 1, device);
  AdamW optimizer({x});
  GradScaler scaler({.growth_interval = 3, .max_skips = 200});
  const Tensor spoil = ones({300}, kFloat32, device), fine = ones({300}, kFloat32, device);
  spoil[7].fill_(INFINITY);
  const int64_t before = synchronization_count();
  for (int step = 0; step < 100; ++step) {
    optimizer.zero_grad();
    scaler.scale((x * (step % 4 == 3 ? spoil : fine)).sum()).backward();
    if (step % 2 == 0) scaler.unscale_(optimizer);
    scaler.step(optimizer, 1.0);
    scaler.update();
  }
  EXPECT_EQ(synchronization_count(), before);
  EXPECT_EQ(scaler.get_scale(), 65536);  // 25 times three steps that grow it and one that does not
  EXPECT_EQ(optimizer.state_dict().at("state.0.0.step").item<int64_t>(), 75);
}

// Those of PyTorch 2.15's kernel, which multiplies in double precision; in float32 the second would
// be 53084.15625.
TEST(GradScaler, RoundsTheScaleOnce) {
  for (const Device device : devices()) {
    const Tensor x = parameter({3}, 1, device);
    SGD optimizer({x});
    GradScaler scaler({.backoff_factor = 0.9});
    scaler.scale(zeros({}, kFloat32, device));
    for (const double scale : {58982.3984375, 53084.16015625, 47775.7421875}) {
      set_grad(x, true);
      scaler.step(optimizer);
      scaler.update();
      EXPECT_EQ(scaler.get_scale(), scale);
    }
  }
}

TEST(GradScaler, StopsAfterSkipsAndNamesTheFirstGradient) {
  for (const Device device : devices()) {
    const Tensor fine = parameter({40000}, 1, device), bad = parameter({20000, 2}, 2, device);
    const Tensor worse = parameter({3}, 3, device);
    SGD optimizer({fine, bad, worse});
    GradScaler scaler({.max_skips = 2});
    scaler.name_parameters({{"fc.weight", bad}, {"fc.bias", worse}});
    scaler.scale(zeros({}, kFloat32, device));
    const auto iterate = [&](bool spoilt) {
      set_grad(fine, false);
      set_grad(bad, spoilt);
      set_grad(worse, spoilt);
      scaler.step(optimizer);
      scaler.update();
      scaler.check_skips();
    };
    for (const bool spoilt : {true, true, false, true, true}) iterate(spoilt);
    EXPECT_EQ(error_of([&] { iterate(true); }),
              "grad_scaler: 3 steps in a row were skipped, up to step 6: the gradient of parameter "
              "fc.weight, of shape [20000, 2], is the first that is not finite; the scale is 2048, "
              "and max_skips is 2");
    EXPECT_THROW(iterate(true), amp::NonFiniteGradients);
  }
}

TEST(GradScaler, LearnsOfSkipsOnAGpuWithoutWaiting) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  const Tensor x = parameter({4}, 1, cuda_device(0));
  SGD optimizer({x});
  GradScaler scaler({.max_skips = 3});
  scaler.scale(zeros({}, kFloat32, x.device()));
  bool stopped = false;
  for (int step = 0; step < 20 && !stopped; ++step) {
    set_grad(x, true);
    scaler.step(optimizer);
    try {
      scaler.update();
    } catch (const amp::NonFiniteGradients&) {
      stopped = true;
      EXPECT_GE(step, 3);
    }
    synchronize(x.device());  // what a run does now and then
  }
  EXPECT_TRUE(stopped);
}

#ifdef WICK_SIM
TEST(GradScaler, AsksForSkipsOnlyIfTheyAreLimited) {
  const auto calls_of_update = [](int64_t max_skips) {
    const Tensor x = parameter({4}, 1, cuda_device(0));
    SGD optimizer({x});
    GradScaler scaler({.max_skips = max_skips});
    scaler.scale(zeros({}, kFloat32, x.device()));
    set_grad(x, false);
    scaler.step(optimizer);
    const int64_t before = sim::calls();
    scaler.update();
    return sim::calls() - before;
  };
  EXPECT_EQ(calls_of_update(0), 1);  // the kernel
  EXPECT_GT(calls_of_update(3), 1);
}
#endif

TEST(GradScaler, RefusesMisuse) {
  const Tensor x = parameter({4}, 1), y = parameter({4}, 2);
  SGD optimizer({x}), other({y});
  GradScaler scaler;
  set_grad(x, false);
  EXPECT_EQ(error_of([&] { scaler.step(optimizer); }),
            "grad_scaler: step() before any scale(): the loss that was differentiated was not "
            "scaled");
  EXPECT_EQ(error_of([&] { scaler.unscale_(optimizer); }),
            "grad_scaler: unscale_() before any scale(): the loss that was differentiated was not "
            "scaled");
  EXPECT_EQ(error_of([&] { scaler.update(); }),
            "grad_scaler: update() before any scale(): the loss that was differentiated was not "
            "scaled");
  scaler.scale(zeros({}));
  const std::string unseen =
      "grad_scaler: update(): no gradients were looked at since the last one";
  EXPECT_EQ(error_of([&] { scaler.update(); }), unseen);
  EXPECT_EQ(
      error_of([&] { scaler.found_inf(optimizer); }),
      "grad_scaler: found_inf: neither step() nor unscale_() of this optimizer since the last "
      "update()");
  EXPECT_EQ(error_of([&] { scaler.step(other); }),
            "grad_scaler: no parameter of the optimizer has a gradient");
  scaler.unscale_(optimizer);
  EXPECT_EQ(error_of([&] { scaler.unscale_(optimizer); }),
            "grad_scaler: unscale_() twice for an optimizer since the last update()");
  scaler.step(optimizer);
  EXPECT_EQ(error_of([&] { scaler.step(optimizer); }),
            "grad_scaler: step() twice for an optimizer since the last update()");
  EXPECT_EQ(error_of([&] { scaler.unscale_(optimizer); }),
            "grad_scaler: unscale_() after step(): expected update() in between");
  scaler.update();
  EXPECT_EQ(error_of([&] { scaler.update(); }), unseen);
  scaler.unscale_(optimizer);
}

TEST(GradScaler, RefusesBadOptions) {
  EXPECT_EQ(error_of([] { GradScaler({.growth_factor = 1}); }),
            "grad_scaler: growth_factor: got 1, expected more than 1");
  EXPECT_EQ(error_of([] { GradScaler({.backoff_factor = 1}); }),
            "grad_scaler: backoff_factor: got 1, expected a value between 0 and 1");
  EXPECT_EQ(error_of([] { GradScaler({.init_scale = INFINITY}); }),
            "grad_scaler: scale: got inf, expected a finite value above 0");
  EXPECT_EQ(error_of([] { GradScaler({.growth_interval = 0}); }),
            "grad_scaler: growth_interval: got 0, expected 1 or more");
}

TEST(GradScaler, TakesFloat16GradientsInStepAlone) {
  for (const Device device : devices()) {
    const Tensor x = ones({20}, kFloat16, device).set_requires_grad();
    SGD optimizer({x}, {.lr = 0.5});
    GradScaler scaler({.init_scale = 1024});
    scaler.scale(zeros({}, kFloat32, device));
    x.set_grad(full({20}, 512, kFloat16, device));
    EXPECT_EQ(error_of([&] { scaler.unscale_(optimizer); }),
              "grad_scaler: unscale_: gradients are float16, which division by the scale would let "
              "vanish: call step() alone");
    scaler.step(optimizer);
    scaler.update();
    EXPECT_EQ(doubles(x)[11], 0.75);
    x.set_grad(full({20}, INFINITY, kFloat16, device));
    scaler.step(optimizer);
    scaler.update();
    EXPECT_EQ(doubles(x)[11], 0.75);
    EXPECT_EQ(scaler.get_scale(), 512);
  }
}

TEST(GradScaler, DoesNothingIfDisabled) {
  const Tensor x = parameter({4}, 1), y = parameter({4}, 1);
  GradScaler scaler({.enabled = false});
  SGD optimizer({x}), plain({y});
  const Tensor loss = x.sum();
  EXPECT_TRUE(scaler.scale(loss).is_same(loss));
  set_grad(x, false);
  set_grad(y, false);
  scaler.unscale_(optimizer);
  scaler.unscale_(optimizer);
  scaler.step(optimizer);
  scaler.update();
  plain.step();
  EXPECT_EQ(doubles(x), doubles(y));
  EXPECT_EQ(scaler.get_scale(), 1);
  EXPECT_TRUE(scaler.state_dict().empty());
  scaler.load_state_dict({});
}

TEST(GradScaler, KeepsItsState) {
  GradScaler first({.init_scale = 64, .growth_interval = 5});
  const Tensor x = parameter({4}, 1);
  SGD optimizer({x});
  first.scale(zeros({}));
  for (const bool bad : {true, false, false}) {
    set_grad(x, bad);
    first.step(optimizer);
    first.update();
  }
  const StateDict state = first.state_dict();
  EXPECT_EQ(state.size(), 7u);
  EXPECT_EQ(state.at("scale").item(), 32);
  EXPECT_EQ(state.at("_growth_tracker").item<int64_t>(), 2);
  for (const bool started : {false, true}) {
    GradScaler second;
    if (started) second.scale(zeros({}));
    second.load_state_dict(state);
    EXPECT_EQ(second.get_scale(), 32);
    EXPECT_EQ(second.growth_tracker(), 2);
    second.scale(zeros({}));
    for (int step = 0; step < 3; ++step) {
      set_grad(x, false);
      second.step(optimizer);
      second.update();
    }
    EXPECT_EQ(second.get_scale(), 64);
  }
  EXPECT_EQ(error_of([&] { first.load_state_dict({}); }),
            "grad_scaler: load_state_dict: the state is empty: it is that of a disabled scaler");
  StateDict incomplete = state;
  incomplete.erase("_growth_tracker");
  EXPECT_EQ(error_of([&] { first.load_state_dict(incomplete); }),
            "grad_scaler: load_state_dict: missing _growth_tracker");
  for (const int64_t tracker : {-1, 5}) {
    StateDict other = state;
    other["_growth_tracker"] = scalar_tensor(tracker, kInt64);
    EXPECT_EQ(error_of([&] { first.load_state_dict(other); }),
              concat("grad_scaler: load_state_dict: _growth_tracker: got ", tracker,
                     ", expected 0 or more, and less than the growth_interval of 5"));
    EXPECT_EQ(first.growth_tracker(), 2);
  }
  first.update(8);
  EXPECT_EQ(first.get_scale(), 8);
}

TEST(GradScaler, KeepsTheNumbersOfStepsAndOfSkipsInARow) {
  for (const Device device : devices()) {
    const Tensor x = parameter({4}, 1, device);
    SGD optimizer({x});
    const auto skip = [&](GradScaler& scaler) {
      scaler.scale(zeros({}, kFloat32, device));
      set_grad(x, true);
      scaler.step(optimizer);
      scaler.update();
      scaler.check_skips();
    };
    GradScaler first({.max_skips = 2});
    skip(first);
    skip(first);
    StateDict state = first.state_dict();
    EXPECT_EQ(state.at("skips").item<int64_t>(), 2);
    GradScaler second({.max_skips = 2});
    second.load_state_dict(state);
    EXPECT_EQ(second.state_dict().at("skips").item<int64_t>(), 2);
    EXPECT_NE(error_of([&] { skip(second); }).find("3 steps in a row were skipped, up to step 3"),
              std::string::npos);
    state["updates"] = scalar_tensor(int64_t{-2}, kInt64);
    EXPECT_EQ(error_of([&] { second.load_state_dict(state); }),
              "grad_scaler: load_state_dict: updates: got -2, expected 0 or more");
    state.erase("updates");
    state["skips"] = scalar_tensor(int64_t{-1}, kInt64);
    EXPECT_EQ(error_of([&] { second.load_state_dict(state); }),
              "grad_scaler: load_state_dict: skips: got -1, expected 0 or more");
    state.erase("skips");  // as PyTorch's
    second.load_state_dict(state);
    skip(second);
    skip(second);
    EXPECT_THROW(skip(second), amp::NonFiniteGradients);
  }
}

}  // namespace
}  // namespace wick::testing
