// The learning rate range test, the batch finder and the gradient noise scale.
#include <gtest/gtest.h>

#include <cmath>

#include "wick/core/core.h"
#include "wick/nn/nn.h"
#include "wick/optim/optim.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/train/batch_finder.h"
#include "wick/train/lr_finder.h"

namespace {

using namespace wick;

template <class Action>
void expect_error(const char* text, const Action& action) {
  const std::string error = wick::testing::error_of(action);
  EXPECT_NE(error.find(text), std::string::npos) << error;
}

// A small classifier with all that training changes: weights, running statistics, random draws.
struct Task {
  explicit Task(Device device) : device_(device) {
    manual_seed(5);
    net.push_back(nn::Linear(8, 32));
    net.push_back(nn::BatchNorm1d(32));
    net.push_back(nn::ReLU());
    net.push_back(nn::Dropout(0.2));
    net.push_back(nn::Linear(32, 4));
    net.apply([](const std::string& path, nn::Module& part) {
      if (path == "2") part.eval();  // a part that its user has frozen
    });
    net.to(device);
    x = randn({64, 8}).to(device);
    target = x.narrow(1, 0, 4).argmax(1);
    optimizer = std::make_unique<optim::AdamW>(net.parameters(), optim::AdamWOptions{.lr = 0.01});
    schedule = std::make_unique<optim::ExponentialLR>(*optimizer, 0.9);
    ema = std::make_unique<optim::Ema>(net.parameters(), 0.9);
  }
  double step() {
    optimizer->zero_grad();
    const Tensor loss = cross_entropy(net(x), target);
    scaler.scale(loss).backward();
    scaler.step(*optimizer);
    ema->update();
    scaler.update();
    schedule->step();
    ++position;
    return loss.item();
  }
  // What find_lr and find_batch_size are to put back beside model and optimizer.
  train::TrainingParts parts() {
    return {.scaler = &scaler,
            .ema = ema.get(),
            .schedule = schedule.get(),
            .rest = [this, now = position] { position = now; }};
  }
  // All of the state, as text.
  std::string state() {
    std::string text;
    net.apply(
        [&](const std::string&, nn::Module& part) { text += part.is_training() ? 't' : 'e'; });
    for (const auto& [name, tensor] : net.state_dict()) text += name + to_string(tensor);
    for (const auto& [name, tensor] : optimizer->state_dict()) text += name + to_string(tensor);
    for (const optim::StateDict& state :
         {scaler.state_dict(), ema->state_dict(), schedule->state_dict()}) {
      for (const auto& [name, tensor] : state) text += name + to_string(tensor);
    }
    for (const RandomKey& key : random_states()) text += concat(" ", key.seed, ":", key.offset);
    return text + concat(" at ", position);
  }

  Device device_;
  nn::Sequential net;
  Tensor x, target;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<optim::Schedule> schedule;
  std::unique_ptr<optim::Ema> ema;
  amp::GradScaler scaler{{.init_scale = 64, .growth_interval = 2}};
  int64_t position = 0;  // of a loader
};

class TuningOn : public ::testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    if (!GetParam().is_cpu() && !cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  }
};

TEST_P(TuningOn, RangeTestPutsEverythingBack) {
  Task task(GetParam());
  for (const int steps : {0, 3}) {  // before and after the optimizer has state
    for (int i = 0; i < steps; ++i) task.step();
    const std::string before = task.state();
    const train::LrFinderResult found = train::find_lr(
        task.net, *task.optimizer, [&] { return task.step(); }, {.num_iter = 30}, task.parts());
    EXPECT_GT(found.points.size(), 20u);
    EXPECT_EQ(task.state(), before);
    EXPECT_FALSE(task.net.parameters()[0].grad().defined());
  }
}

TEST_P(TuningOn, RangeTestPutsBackWhatTheDeviceHasCounted) {
  Task task(GetParam());
  optim::DeviceSchedule counted(*task.schedule, 8);
  const Tensor taken = zeros({}, kFloat32, GetParam());
  const auto step = [&] {
    task.optimizer->step({.found_inf = taken});
    counted.step(taken);
    return 1.0;
  };
  for (const Tensor& weight : task.net.parameters()) weight.set_grad(zeros_like(weight));
  step();
  train::TrainingParts parts{.counted = &counted};
  train::find_lr(task.net, *task.optimizer, step, {.num_iter = 7}, parts);
  EXPECT_EQ(task.optimizer->lr(), 0.01 * 0.9);
  EXPECT_EQ(task.optimizer->device_rates(0)[0].item(), 0.01 * 0.9);
  counted.step(taken);
  EXPECT_EQ(counted.settle(), 2);
  EXPECT_DOUBLE_EQ(task.optimizer->lr(), 0.01 * 0.9 * 0.9);
}

TEST_P(TuningOn, RangeTestThatFailsPutsEverythingBack) {
  Task task(GetParam());
  task.step();
  const std::string before = task.state();
  expect_error("enough", [&] {
    train::find_lr(
        task.net, *task.optimizer,
        [&] {
          task.step();
          task.optimizer->zero_grad();
          task.scaler.scale(cross_entropy(task.net(task.x), task.target)).backward();
          task.scaler.step(*task.optimizer);
          throw Error("enough");  // before the scaler's update
          return 0.0;
        },
        {}, task.parts());
  });
  EXPECT_EQ(task.state(), before);
  task.step();  // the scaler knows nothing of the step that was cut off
}

TEST_P(TuningOn, BatchFinderPutsEverythingBack) {
  Task task(GetParam());
  task.step();
  const std::string before = task.state();
  const size_t limit = allocator(GetParam()).memory_limit();
  const auto found = train::find_batch_size(
      task.net, *task.optimizer, GetParam(),
      [&](int64_t batch) {
        task.x = randn({batch, 8}, kFloat32, GetParam());
        task.target = zeros({batch}, kInt64, GetParam());
        task.step();
      },
      {.most = 64, .memory = int64_t{1} << 30}, task.parts());
  EXPECT_EQ(found.largest, 64);
  EXPECT_TRUE(found.exact);
  EXPECT_EQ(task.state(), before);
  EXPECT_EQ(allocator(GetParam()).memory_limit(), limit);
}

TEST_P(TuningOn, BatchFinderFindsTheLimitOfMemory) {
  Task task(GetParam());
  constexpr int64_t kSample = 4 << 20;  // bytes
  std::vector<int64_t> tried;
  const auto step = [&](int64_t batch) {
    tried.push_back(batch);
    const Tensor held = empty({batch, kSample}, kUint8, GetParam());
  };
  empty_cache(GetParam());
  const int64_t held = memory_reserved(GetParam());
  const auto found = train::find_batch_size(task.net, *task.optimizer, GetParam(), step,
                                            {.memory = held + 22 * kSample - (1 << 20)});
  EXPECT_EQ(found.largest, 21);
  EXPECT_TRUE(found.exact);
  EXPECT_EQ(tried, (std::vector<int64_t>{2, 2, 4, 4, 8, 8, 16, 16, 32, 24, 20, 20, 22, 21, 21}));
  for (const train::BatchTrial& trial : found.trials) {
    EXPECT_EQ(trial.fits, trial.batch <= 21);
    EXPECT_EQ(trial.samples_per_second > 0, trial.fits);
    EXPECT_TRUE(!trial.fits || trial.peak_bytes >= trial.batch * kSample);
  }
  EXPECT_GE(found.fastest, 1);
  // The allocator goes on as before.
  EXPECT_TRUE(empty({30, kSample}, kUint8, GetParam()).defined());
}

INSTANTIATE_TEST_SUITE_P(Devices, TuningOn, ::testing::Values(kCpu, cuda_device(0)),
                         [](const auto& device) { return device.param.is_cpu() ? "cpu" : "cuda"; });

TEST(BatchFinder, StopsAtItsLimits) {
  Task task(kCpu);
  int steps = 0;
  const auto step = [&](int64_t) { ++steps; };
  const auto few =
      train::find_batch_size(task.net, *task.optimizer, kCpu, step, {.steps = 3, .trials = 4});
  EXPECT_EQ(few.largest, 16);
  EXPECT_FALSE(few.exact);
  EXPECT_EQ(steps, 12);
  const auto none = train::find_batch_size(task.net, *task.optimizer, kCpu,
                                           [](int64_t) { throw std::bad_alloc(); }, {});
  EXPECT_EQ(none.largest, 0);
  EXPECT_EQ(none.fastest, 0);
  EXPECT_TRUE(none.exact);
  const std::string before = task.state();
  expect_error("test: no memory problem", [&] {
    train::find_batch_size(
        task.net, *task.optimizer, kCpu,
        [&](int64_t) {
          task.step();
          detail::fail("test: no memory problem");
        },
        {}, task.parts());
  });
  EXPECT_EQ(task.state(), before);
}

TEST(BatchFinder, MakesNoTrialOfBeforeAgain) {
  Task task(kCpu);
  std::vector<int64_t> tried;
  std::vector<train::BatchTrial> trials;
  const auto step = [&](int64_t batch) {
    tried.push_back(batch);
    if (batch > 11) throw std::bad_alloc();
  };
  train::BatchFinderOptions options;
  options.on_trial = [&](const train::BatchTrial& trial) { trials.push_back(trial); };
  const auto whole = train::find_batch_size(task.net, *task.optimizer, kCpu, step, options);
  options.done = {trials.begin(), trials.begin() + 5};  // of 2, 4, 8, 16, 12, 10, 11
  trials.clear(), tried.clear();
  const auto found = train::find_batch_size(task.net, *task.optimizer, kCpu, step, options);
  EXPECT_EQ(tried, (std::vector<int64_t>{10, 10, 11, 11}));
  EXPECT_EQ(trials.size(), 2u);
  EXPECT_EQ(found.largest, whole.largest);
  EXPECT_EQ(found.trials.size(), whole.trials.size());
  EXPECT_EQ(found.trials[1].samples_per_second, whole.trials[1].samples_per_second);
}

TEST(BatchFinder, RefusesWrongOptions) {
  Task task(kCpu);
  const auto find = [&](const train::BatchFinderOptions& options) {
    train::find_batch_size(
        task.net, *task.optimizer, kCpu, [](int64_t) {}, options);
  };
  expect_error("wrong batches: got 0", [&] { find({.start = 0}); });
  expect_error("wrong batches: got 8 to 4", [&] { find({.start = 8, .most = 4}); });
  expect_error("too few steps: got 1", [&] { find({.steps = 1}); });
  expect_error("too few trials: got 0", [&] { find({.trials = 0}); });
  expect_error("negative limit", [&] { find({.memory = -1}); });
}

// A step whose losses are given: the finder's rules alone.
train::LrFinderResult with_losses(const std::function<double(int64_t)>& loss,
                                  const train::LrFinderOptions& options,
                                  std::vector<double>* rates = nullptr) {
  nn::Linear model(1, 1);
  optim::SGD sgd({{{model.weight}, {.lr = 1}}, {{model.bias}, {.lr = 0.5}}});
  int64_t i = 0;
  const auto found = train::find_lr(
      model, sgd,
      [&] {
        if (rates != nullptr) rates->push_back(sgd.lr(1));
        return loss(i++);
      },
      options);
  EXPECT_EQ(sgd.lr(0), 1);
  EXPECT_EQ(sgd.lr(1), 0.5);
  return found;
}

TEST(LrFinder, RaisesRatesGeometricallyAndKeepsTheRatioOfGroups) {
  std::vector<double> second;
  const auto found = with_losses([](int64_t) { return 1.0; },
                                 {.start_lr = 1e-3, .end_lr = 10, .num_iter = 5}, &second);
  ASSERT_EQ(found.points.size(), 5u);
  for (int i = 0; i < 5; ++i) {
    const double lr = std::pow(10.0, i - 3);
    EXPECT_NEAR(found.points[static_cast<size_t>(i)].lr, lr, 1e-12 * lr);
    EXPECT_NEAR(second[static_cast<size_t>(i)], lr / 2, 1e-12 * lr);
  }
  EXPECT_FALSE(found.diverged);
  EXPECT_FALSE(found.suggestion.has_value());  // flat
  const auto linear =
      with_losses([](int64_t) { return 1.0; },
                  {.start_lr = 1, .end_lr = 5, .num_iter = 5, .exponential = false});
  EXPECT_DOUBLE_EQ(linear.points[2].lr, 3);
}

TEST(LrFinder, GoesOnBehindThePointsOfBefore) {
  const auto loss = [](int64_t i) { return 5 - 0.1 * static_cast<double>(i % 7 + i); };
  train::LrFinderOptions options{.num_iter = 30};
  std::vector<std::vector<train::LrFinderPoint>> seen;
  options.on_point = [&](const auto& points) { seen.push_back(points); };
  const auto whole = with_losses(loss, options);
  ASSERT_EQ(seen.size(), 30u);
  for (const size_t done : {1, 17, 30}) {
    options.done = seen[done - 1];
    std::vector<double> rates;
    const auto found = with_losses([&](int64_t i) { return loss(i + static_cast<int64_t>(done)); },
                                   options, &rates);
    EXPECT_EQ(rates.size(), 30 - done);
    EXPECT_EQ(found.suggestion, whole.suggestion);
    for (size_t i = 0; i < 30; ++i) {
      EXPECT_EQ(found.points[i].lr, whole.points[i].lr);
      EXPECT_EQ(found.points[i].smoothed, whole.points[i].smoothed);
    }
  }
  options.done.push_back({});
  expect_error("got 31 points of before", [&] { with_losses(loss, options); });
}

TEST(LrFinder, TakesNoStepWhereItHadDivergedBefore) {
  const auto found = with_losses([](int64_t) { return 1.0; },
                                 {.num_iter = 30, .done = {{1e-7, 1, 1}, {1e-6, 9, 9}}});
  EXPECT_TRUE(found.diverged);
  EXPECT_EQ(found.points.size(), 2u);
}

TEST(LrFinder, SmoothsAndStopsAtFiveTimesTheBest) {
  // Smoothed with s = 0.5: 2, 1.5, 1.25, 3.125, 10.5625.
  const std::vector<double> losses{2, 1, 1, 5, 18, 100};
  const auto found = with_losses([&](int64_t i) { return losses[static_cast<size_t>(i)]; },
                                 {.num_iter = 6, .smoothing = 0.5});
  ASSERT_EQ(found.points.size(), 5u);
  EXPECT_DOUBLE_EQ(found.points[2].smoothed, 1.25);
  EXPECT_DOUBLE_EQ(found.points[4].smoothed, 10.5625);
  EXPECT_TRUE(found.diverged);
}

// As a likelihood's may be: five times the best would be less.
TEST(LrFinder, GoesOnWhereTheLossIsBelowZero) {
  const auto found =
      with_losses([](int64_t i) { return -1 - static_cast<double>(i); }, {.num_iter = 20});
  EXPECT_EQ(found.points.size(), 20u);
  EXPECT_FALSE(found.diverged);
}

TEST(LrFinder, StopsAtALossThatIsNotFinite) {
  const auto found =
      with_losses([](int64_t i) { return i < 3 ? 1.0 : std::nan(""); }, {.num_iter = 50});
  EXPECT_EQ(found.points.size(), 3u);
  EXPECT_TRUE(found.diverged);
}

TEST(LrFinder, SuggestsTheSteepestDescentWithinTheKeptSteps) {
  // Steep at step 2, which is skipped, and around step 20; steeper still at the end, skipped too.
  const auto loss = [](int64_t i) {
    const auto x = static_cast<double>(i);
    return 10 - 2 / (1 + std::exp(-3 * (x - 2))) - 1 / (1 + std::exp(-(x - 20))) -
           3 / (1 + std::exp(-3 * (x - 38)));
  };
  const auto found = with_losses(loss, {.num_iter = 40, .smoothing = 0});
  ASSERT_TRUE(found.suggestion.has_value());
  EXPECT_EQ(*found.suggestion, found.points[20].lr);
  const auto whole =
      with_losses(loss, {.num_iter = 40, .smoothing = 0, .skip_start = 0, .skip_end = 0});
  EXPECT_EQ(*whole.suggestion, whole.points[38].lr);
  const auto too_few = with_losses(loss, {.num_iter = 16});
  EXPECT_FALSE(too_few.suggestion.has_value());
}

TEST(LrFinder, RefusesWrongOptions) {
  const auto find = [](const train::LrFinderOptions& options) {
    with_losses([](int64_t) { return 1.0; }, options);
  };
  expect_error("wrong range of rates: got 0 to 10", [&] { find({.start_lr = 0}); });
  expect_error("wrong range of rates", [&] { find({.start_lr = 1, .end_lr = 1}); });
  expect_error("wrong range of rates", [&] { find({.end_lr = INFINITY}); });
  expect_error("too few steps: got 1", [&] { find({.num_iter = 1}); });
  expect_error("smoothing out of range: got 1", [&] { find({.smoothing = 1}); });
  expect_error("divergence out of range: got 1", [&] { find({.divergence = 1}); });
  expect_error("skips must not be negative", [&] { find({.skip_end = -1}); });
}

TEST(NoiseScale, IsThatOfKnownGradients) {
  // Of w . x the gradient is x: normal numbers of mean 0.5 and deviation 2 in 50 dimensions.
  manual_seed(1);
  nn::Linear model(50, 1, {.bias = false});
  const int64_t batch = 16;
  const auto found = train::gradient_noise_scale(model, batch, 400, [&] {
    model(randn({batch, 50}) * 2 + 0.5).mean().backward();
  });
  EXPECT_NEAR(found.noise, 50 * 4, 10);
  EXPECT_NEAR(found.signal, 50 * 0.25, 0.7);
  ASSERT_TRUE(found.batch.has_value());
  EXPECT_NEAR(*found.batch, 16, 1.5);
  EXPECT_FALSE(model.weight.grad().defined());
  const auto lost = train::gradient_noise_scale(model, 1, 2, [&, flip = 1.0]() mutable {
    model(full({1, 50}, flip)).mean().backward();
    flip = -flip;
  });
  EXPECT_FALSE(lost.batch.has_value());
  expect_error("expected 2 or more", [&] { train::gradient_noise_scale(model, 1, 1, [] {}); });
}

TEST(ScaleLr, IsLinearOrBySquareRoot) {
  EXPECT_DOUBLE_EQ(train::scale_lr_linear(0.1, 32, 128), 0.4);
  EXPECT_DOUBLE_EQ(train::scale_lr_sqrt(0.1, 32, 128), 0.2);
  expect_error("wrong batches: got 0", [] { train::scale_lr_linear(0.1, 0, 128); });
}

}  // namespace
