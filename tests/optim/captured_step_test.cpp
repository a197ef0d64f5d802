#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "wick/core/amp.h"
#include "wick/core/cuda_graph.h"
#include "wick/core/memory/stats.h"
#include "wick/core/ops/loss.h"
#include "wick/core/random.h"
#include "wick/core/stream.h"
#include "wick/nn/nn.h"
#include "wick/optim/optim.h"
#include "wick/tests/harness/deterministic.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/host_array.h"
#include "wick/tests/optim/reference.h"
#include "wick/train/training_snapshot.h"

// ScaledTraining steps captured in a graph: replays do to the bit what the calls would.

namespace wick::testing {
namespace {

using namespace optim;

struct DropoutNet : nn::Module {
  nn::Handle<nn::Conv2d> conv = add("conv", nn::Conv2d(3, 8, 3));
  nn::Handle<nn::BatchNorm2d> norm = add("norm", nn::BatchNorm2d(8));
  nn::Handle<nn::Dropout> drop = add("drop", nn::Dropout(0.3));
  nn::Handle<nn::Linear> fc = add("fc", nn::Linear(8, 4));

  Tensor forward(const Tensor& x) override { return fc(drop(norm(conv(x)).relu()).mean({2, 3})); }
};

// Everything of a step in float16: scaled, clipped, skipped where it must be, averaged, with rates
// that follow a schedule on the device.
class ScaledTraining {
 public:
  ScaledTraining() {
    for (const Tensor& param : net_.parameters()) {
      param.detach().copy_(random_tensor(param.shape(), static_cast<uint64_t>(param.numel())));
    }
    net_.to(kGpu);
    optimizer_ = std::make_unique<AdamW>(net_.parameters(), AdamWOptions{.lr = 0.05});
    schedule_ = std::make_unique<OneCycleLR>(*optimizer_,
                                             OneCycleOptions{.max_lr = 0.05, .total_steps = 200});
    counted_ = std::make_unique<DeviceSchedule>(*schedule_, 200);
    rollback_ = std::make_unique<Rollback>(buffers_of(net_));
    ema_ = std::make_unique<Ema>(net_.parameters(), 0.9);
    manual_seed(9);
  }

  void set_input(uint64_t seed, bool spoilt) {
    Tensor x = random_tensor({4, 3, 6, 6}, seed);
    if (spoilt) x.view({-1})[5].fill_(INFINITY);
    x_.copy_(x);
  }

  void step() {
    step_without_update();
    scaler_.update();
  }

  void step_without_update() {
    optimizer_->zero_grad();
    rollback_->remember();
    {
      const amp::Autocast autocast(kGpu, kFloat16);
      loss_ = cross_entropy(net_(x_), target_);
    }
    scaler_.scale(loss_).backward();
    scaler_.step(*optimizer_, 1.0);
    const Tensor found = scaler_.found_inf(*optimizer_);
    rollback_->restore(found);
    ema_->update(found);
    counted_->step(found);
  }

  TensorMap state() {
    counted_->settle();
    TensorMap all;
    add_copies(all, "net.", net_.state_dict());
    add_copies(all, "optimizer.", optimizer_->state_dict());
    add_copies(all, "schedule.", schedule_->state_dict());
    add_copies(all, "ema.", ema_->state_dict());
    add_copies(all, "scaler.", scaler_.state_dict());
    add_copies(all, "", {{"loss", loss_.detach()}});
    const RandomKey random = default_generator(kGpu).get_state();
    add_copies(all, "", {{"draws", scalar_tensor(static_cast<int64_t>(random.offset), kInt64)}});
    return all;
  }

  amp::GradScaler& scaler() { return scaler_; }

 private:
  DropoutNet net_;
  std::unique_ptr<AdamW> optimizer_;
  std::unique_ptr<OneCycleLR> schedule_;
  std::unique_ptr<DeviceSchedule> counted_;
  std::unique_ptr<Rollback> rollback_;
  std::unique_ptr<Ema> ema_;
  amp::GradScaler scaler_{{.growth_interval = 3, .max_skips = 3}};
  Tensor x_ = zeros({4, 3, 6, 6}, kFloat32, kGpu);
  Tensor target_ = tensor(std::vector<int64_t>{0, 1, 2, 3}).to(kGpu);
  Tensor loss_;
};

// Convolutions, too, are to give the same bits.
class CapturedStep : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  }

 private:
  const Deterministic same_bits_;
};

constexpr int kWarmUps = 3;

TEST_F(CapturedStep, IsTheStepToTheBitAlsoWhereItIsSkipped) {
  const auto spoilt = [](int step) { return step == 1 || step == 5 || step == 6 || step == 11; };
  std::vector<TensorMap> want;
  {
    ScaledTraining training;
    for (int step = 0; step < 14; ++step) {
      training.set_input(static_cast<uint64_t>(step), spoilt(step));
      training.step();
      want.push_back(training.state());
    }
    EXPECT_LT(training.scaler().get_scale(), 65536);
  }
  ScaledTraining training;
  for (int step = 0; step < kWarmUps; ++step) {
    training.set_input(static_cast<uint64_t>(step), spoilt(step));
    training.step();
  }
  CudaGraph graph(kGpu, [&] { training.step(); });
  for (int step = kWarmUps; step < 14; ++step) {
    SCOPED_TRACE(step);
    training.set_input(static_cast<uint64_t>(step), spoilt(step));
    graph.replay();
    expect_same(training.state(), want[static_cast<size_t>(step)]);
  }
}

TEST_F(CapturedStep, MakesNobodyWaitAndAsksForNoMemory) {
  ScaledTraining training;
  for (int step = 0; step < kWarmUps; ++step) training.step();
  CudaGraph graph(kGpu, [&] { training.step(); });
  graph.replay();
  const int64_t waits = synchronization_count();
  const MemoryStats before = memory_stats(kGpu);
  for (int step = 0; step < 100; ++step) graph.replay();
  EXPECT_EQ(synchronization_count(), waits);
  const MemoryStats after = memory_stats(kGpu);
  EXPECT_EQ(after.all.allocation.allocated, before.all.allocation.allocated);
  EXPECT_EQ(after.num_device_alloc, before.num_device_alloc);
}

// The scaler counts on the device, and is asked when it suits.
TEST_F(CapturedStep, StopsAfterTooManySkips) {
  ScaledTraining training;
  for (int step = 0; step < kWarmUps; ++step) training.step();
  CudaGraph graph(kGpu, [&] { training.step(); });
  graph.replay();
  training.step();  // of the host's calls the last one
  training.scaler().check_skips();
  training.set_input(1, /*spoilt=*/true);
  for (int step = 0; step < 4; ++step) graph.replay();
  const std::string error = error_of([&] { training.scaler().check_skips(); });
  EXPECT_NE(error.find("4 steps in a row were skipped, up to step 9: the gradient of parameter"),
            std::string::npos)
      << error;
}

// Steps may be taken in between as ever.
TEST_F(CapturedStep, GoesOnBetweenReplays) {
  TensorMap want;
  {
    ScaledTraining training;
    for (int step = 0; step < 9; ++step) {
      training.set_input(static_cast<uint64_t>(step), false);
      training.step();
    }
    want = training.state();
  }
  ScaledTraining training;
  std::unique_ptr<CudaGraph> graph;
  for (int step = 0; step < 9; ++step) {
    training.set_input(static_cast<uint64_t>(step), false);
    if (step == kWarmUps) graph = std::make_unique<CudaGraph>(kGpu, [&] { training.step(); });
    if (graph && step % 3 != 2) {
      graph->replay();
    } else {
      training.step();
    }
  }
  TensorMap got = training.state();
  got.erase("loss");  // that of the last call, which was none of the graph's
  want.erase("loss");
  expect_same(got, want);
}

TEST_F(CapturedStep, RefusesToMakeStateThatReplaysWouldMakeAgain) {
  const Tensor w = random_tensor({40}, 1).to(kGpu).set_requires_grad();
  const std::string makes =
      "cuda_graph: captured work must not make an optimizer's state, which its first step makes: "
      "none of it has run on cuda:0 yet";
  AdamW optimizer({w});
  const auto step = [&] {
    optimizer.zero_grad();
    (w * w).sum().backward();
    optimizer.step();
  };
  EXPECT_EQ(error_of([&] { CudaGraph graph(kGpu, [&] { optimizer.device_rates(0); }); }), makes);
  optimizer.make_capturable();
  EXPECT_EQ(error_of([&] { CudaGraph graph(kGpu, step); }), makes);
  step();
  CudaGraph graph(kGpu, step);
  amp::GradScaler scaler;
  EXPECT_EQ(error_of([&] { CudaGraph scaled(kGpu, [&] { scaler.scale((w * w).sum()); }); }),
            "cuda_graph: captured work must not be the first to use a scaler: none of it has run "
            "on cuda:0 yet");
  scaler.scale((w * w).sum());
  EXPECT_EQ(error_of([&] { CudaGraph scaled(kGpu, [&] { scaler.update(8); }); }),
            "cuda_graph: captured work must not set the scale, which each replay would set: none "
            "of it has run on cuda:0 yet");
}

// Back to before the first step, and on from there: without state, where the graph knows it to be.
TEST_F(CapturedStep, FollowsASnapshotThatIsPutBack) {
  for (const int steps_before : {0, 1}) {
    nn::Linear model(40, 1);
    model.to(kGpu);
    AdamW optimizer(model.parameters(), {.lr = 0.1});
    optimizer.make_capturable();
    const Tensor x = random_tensor({8, 40}, 1).to(kGpu);
    const auto step = [&] {
      optimizer.zero_grad();
      model(x).square().sum().backward();
      optimizer.step();
    };
    for (int i = 0; i < steps_before; ++i) step();
    const train::TrainingSnapshot snapshot(model, optimizer);
    step();
    CudaGraph graph(kGpu, step);
    graph.replay();
    snapshot.restore();
    std::vector<Tensor> others;
    for (int i = 0; i < 20; ++i) others.push_back(full({40}, 100 + i, kFloat32, kGpu));
    for (int i = 0; i < 3; ++i) graph.replay();
    TensorMap got;
    add_copies(got, "", model.state_dict());
    add_copies(got, "", optimizer.state_dict());
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(others[static_cast<size_t>(i)].min().item(), 100 + i);
    }
    snapshot.restore();
    for (int i = 0; i < 3; ++i) step();
    TensorMap want;
    add_copies(want, "", model.state_dict());
    add_copies(want, "", optimizer.state_dict());
    expect_same(got, want);
  }
}

// A rate that replays would not follow, or would set again.
TEST_F(CapturedStep, RefusesRatesOfTheHost) {
  const Tensor w = random_tensor({40}, 1).to(kGpu).set_requires_grad();
  SGD optimizer({w}, {.lr = 0.1});
  ExponentialLR schedule(optimizer, 0.5);
  const auto step = [&] {
    optimizer.zero_grad();
    (w * w).sum().backward();
    optimizer.step();
  };
  step();
  EXPECT_EQ(error_of([&] { CudaGraph graph(kGpu, step); }),
            "sgd: step: captured, it would keep the rates it has now: call make_capturable() "
            "before");
  optimizer.make_capturable();
  const auto and_schedule = [&] {
    step();
    schedule.step();
  };
  EXPECT_EQ(error_of([&] { CudaGraph graph(kGpu, and_schedule); }),
            "cuda_graph: captured work must not set hyperparameters, which each replay would set: "
            "none of it has run on cuda:0 yet");
}

// An error in the middle of an iteration: it is of no other.
TEST_F(CapturedStep, GoesOnAfterACaptureThatFails) {
  TensorMap want;
  {
    ScaledTraining training;
    for (int step = 0; step < 5; ++step) training.step();
    want = training.state();
  }
  ScaledTraining training;
  for (int step = 0; step < kWarmUps; ++step) training.step();
  EXPECT_THROW(CudaGraph(kGpu,
                         [&] {
                           training.step_without_update();
                           throw Error("in the middle");
                         }),
               Error);
  for (int step = kWarmUps; step < 5; ++step) training.step();
  expect_same(training.state(), want);
}

// What a graph works on stays where it is.
TEST_F(CapturedStep, FollowsAStateThatIsLoaded) {
  const Tensor w = random_tensor({40}, 1, kBFloat16).to(kGpu).set_requires_grad();
  AdamW optimizer({w}, {.lr = 0.1});
  optimizer.make_capturable();
  amp::GradScaler scaler({.growth_interval = 2});
  const auto step = [&] {
    optimizer.zero_grad();
    scaler.scale((w * w).sum()).backward();
    scaler.step(optimizer);
    scaler.update();
  };
  const auto copy_of = [](const TensorMap& state) {
    TensorMap copy;
    add_copies(copy, "", state);
    return copy;
  };
  const auto state = [&] {
    TensorMap all = copy_of(optimizer.state_dict());
    for (const auto& [name, value] : scaler.state_dict()) all["scaler." + name] = value.clone();
    all["w"] = w.detach().cpu().clone();
    return all;
  };
  step();
  const TensorMap of_optimizer = copy_of(optimizer.state_dict());
  const TensorMap of_scaler = copy_of(scaler.state_dict());
  const Tensor weights = w.detach().clone();
  CudaGraph graph(kGpu, step);
  graph.replay();
  const TensorMap want = state();
  graph.replay();
  optimizer.load_state_dict(of_optimizer);
  scaler.load_state_dict(of_scaler);
  w.detach().copy_(weights);
  graph.replay();
  expect_same(state(), want);
}

class CapturedOptimizer : public ::testing::TestWithParam<OptimizerCase> {};
INSTANTIATE_TEST_SUITE_P(All, CapturedOptimizer, ::testing::ValuesIn(optimizer_cases()),
                         [](const auto& test) { return test.param.name; });

// With rates on the device, which change from step to step, and 16-bit weights.
TEST_P(CapturedOptimizer, IsTheStepToTheBit) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  for (const Dtype dtype : {kFloat32, kBFloat16}) {
    std::vector<TensorMap> ends;
    for (const bool captured : {false, true}) {
      std::vector<Tensor> params;
      for (const Shape& shape : {Shape{}, Shape{33}, Shape{4, 5}, Shape{4100}}) {
        params.push_back(random_tensor(shape, params.size(), dtype).to(kGpu).set_requires_grad());
      }
      const std::unique_ptr<Optimizer> optimizer = GetParam().make(params);
      optimizer->make_capturable();
      const Tensor x = ones({}, dtype, kGpu);
      const auto step = [&] {
        optimizer->zero_grad();
        Tensor loss = zeros({}, dtype, kGpu);
        for (const Tensor& param : params) loss = loss + (param * param * x).sum();
        loss.backward();
        optimizer->step();
      };
      std::unique_ptr<CudaGraph> graph;
      for (int i = 0; i < 6; ++i) {
        x.fill_(0.5 + 0.1 * i);
        for (int g = 0; g < optimizer->num_groups(); ++g) {
          optimizer->set_hyperparameter(g, "lr", 0.01 / (1 + i));
        }
        if (captured && i == 2) graph = std::make_unique<CudaGraph>(kGpu, step);
        graph ? graph->replay() : step();
      }
      TensorMap end;
      add_copies(end, "", optimizer->state_dict());
      for (size_t i = 0; i < params.size(); ++i) {
        end[concat("param.", i)] = params[i].detach().cpu().clone();
      }
      ends.push_back(std::move(end));
    }
    expect_same(ends[1], ends[0]);
  }
}

}  // namespace
}  // namespace wick::testing
