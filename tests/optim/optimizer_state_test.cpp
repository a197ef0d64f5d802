#include <gtest/gtest.h>

#include <cmath>

#include "wick/core/ops/elementwise.h"
#include "wick/optim/optim.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/optim/reference.h"
#include "wick/train/lr_finder.h"

// Groups, hyperparameters, state and errors.

namespace wick::testing {
namespace {

using namespace optim;
using ::testing::Test;

Tensor parameter(const Shape& shape, uint64_t seed = 1) {
  const Tensor param = random_tensor(shape, seed);
  param.set_requires_grad();
  param.set_grad(random_tensor(shape, seed + 50));
  return param;
}

TEST(Groups, HaveTheirOwnOptions) {
  const Tensor a = parameter({4}), b = parameter({4});
  const std::vector<double> before = doubles(a), grad = doubles(a.grad());
  SGD optimizer({{.params = {a}, .options = {.lr = 0.1}},
                 {.params = {b}, .options = {.lr = 0.5, .weight_decay = 1}}});
  EXPECT_EQ(optimizer.num_groups(), 2);
  EXPECT_EQ(optimizer.lr(1), 0.5);
  optimizer.step();
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(doubles(a)[i], before[i] - 0.1 * grad[i], 1e-6);
    EXPECT_NEAR(doubles(b)[i], before[i] - 0.5 * (grad[i] + before[i]), 1e-6);
  }
}

TEST(Hyperparameters, AreReadAndChangedByName) {
  AdamW optimizer({parameter({2})}, {.lr = 0.3, .amsgrad = true});
  EXPECT_EQ(optimizer.hyperparameter(0, "beta2"), 0.999);
  EXPECT_EQ(optimizer.hyperparameter(0, "amsgrad"), 1);
  EXPECT_EQ(optimizer.hyperparameter(0, "momentum"), std::nullopt);
  optimizer.set_hyperparameter(0, "beta1", 0.5);
  EXPECT_EQ(optimizer.options().beta1, 0.5);
  EXPECT_EQ(error_of([&] { optimizer.set_hyperparameter(0, "momentum", 1); }),
            "adamw: no hyperparameter named momentum: expected one of lr, beta1, beta2, eps, "
            "weight_decay, amsgrad, maximize");
  optimizer.set_lr(0.25);
  EXPECT_EQ(optimizer.lr(), 0.25);
  EXPECT_EQ(error_of([&] { optimizer.set_lr(-1); }),
            "adamw: lr: got -1, expected a finite value, 0 or more");
  EXPECT_EQ(error_of([&] { optimizer.set_hyperparameter(0, "beta1", 1.5); }),
            "adamw: beta1: got 1.5, expected a value in [0, 1)");
  EXPECT_EQ(error_of([&] { optimizer.set_hyperparameter(0, "amsgrad", NAN); }),
            "adamw: amsgrad: got nan, expected a finite value, 0 or more");
  EXPECT_EQ(optimizer.options().beta1, 0.5);
  EXPECT_TRUE(optimizer.options().amsgrad);
  Adadelta adadelta({parameter({2})});
  EXPECT_EQ(error_of([&] { adadelta.set_hyperparameter(0, "rho", 1.5); }),
            "adadelta: rho: got 1.5, expected a value in [0, 1]");
}

TEST(Hyperparameters, ThatDoNotFitAreNotSetInAnyGroup) {
  SGD optimizer({{.params = {parameter({2})}, .options = {.lr = 1}},
                 {.params = {parameter({2})}, .options = {.lr = 2}}});
  EXPECT_EQ(error_of([&] {
              optimizer.set_hyperparameters({{{"lr", 3}}, {{"lr", INFINITY}}});
            }),
            "sgd: lr: got inf, expected a finite value, 0 or more");
  EXPECT_EQ(error_of([&] {
              optimizer.set_hyperparameters({{{"lr", 3}}, {{"nesterov", 1}}});
            }),
            "sgd: nesterov needs a momentum and no dampening: got momentum 0, dampening 0");
  EXPECT_EQ(error_of([&] {
              optimizer.set_hyperparameters({{{"lr", 3}}});
            }),
            "optimizer: hyperparameters: got those of 1 groups, expected 2");
  EXPECT_EQ(optimizer.lr(0), 1);
  EXPECT_EQ(optimizer.lr(1), 2);
  // Neither may come alone.
  optimizer.set_hyperparameters({{}, {{"nesterov", 1}, {"momentum", 0.9}}});
  EXPECT_EQ(error_of([&] { optimizer.set_hyperparameter(1, "momentum", 0); }),
            "sgd: nesterov needs a momentum and no dampening: got momentum 0, dampening 0");
  EXPECT_EQ(optimizer.options(1).momentum, 0.9);
}

TEST(Defaults, OfSchedulesAndScalersAreThoseOfPyTorch) {
  SGD sgd({parameter({1})}, {.momentum = 0.5});
  const LinearLR linear(sgd);
  EXPECT_EQ(
      linear.options(),
      (ScheduleOptions{{"start_factor", 1.0 / 3}, {"end_factor", 1.0}, {"total_iters", 5.0}}));
  const ConstantLR constant(sgd);
  EXPECT_EQ(constant.options(), (ScheduleOptions{{"factor", 1.0 / 3}, {"total_iters", 5.0}}));
  const PolynomialLR polynomial(sgd);
  EXPECT_EQ(polynomial.options(), (ScheduleOptions{{"total_iters", 5.0}, {"power", 1.0}}));
  const CyclicOptions cyclic;
  EXPECT_EQ(cyclic.step_size_up, 2000);
  EXPECT_FALSE(cyclic.step_size_down.has_value());
  EXPECT_EQ(cyclic.base_momentum[0], 0.8);
  EXPECT_EQ(cyclic.max_momentum[0], 0.9);
  const PlateauOptions plateau;
  EXPECT_EQ(plateau.patience, 10);
  EXPECT_EQ(plateau.factor, 0.1);
  EXPECT_EQ(plateau.threshold, 1e-4);
  EXPECT_EQ(plateau.eps, 1e-8);
  const train::LrFinderOptions finder;
  EXPECT_EQ(finder.start_lr, 1e-7);
  EXPECT_EQ(finder.end_lr, 10);
  EXPECT_EQ(finder.num_iter, 100);
  EXPECT_EQ(finder.smoothing, 0.05);
  EXPECT_EQ(finder.skip_start, 10);
  EXPECT_EQ(finder.skip_end, 5);
  const amp::GradScalerOptions scaler;
  EXPECT_EQ(scaler.init_scale, 65536);
  EXPECT_EQ(scaler.growth_factor, 2);
  EXPECT_EQ(scaler.backoff_factor, 0.5);
  EXPECT_EQ(scaler.growth_interval, 2000);
}

TEST(ZeroGrad, ForgetsOrZeroes) {
  const Tensor param = parameter({3});
  SGD optimizer({param});
  optimizer.zero_grad(false);
  EXPECT_EQ(doubles(param.grad()), std::vector<double>(3, 0));
  optimizer.zero_grad();
  EXPECT_FALSE(param.grad().defined());
  optimizer.zero_grad();
}

TEST(Step, CountsAsAChangeOfTheParameter) {
  const Tensor param = parameter({3});
  SGD optimizer({param});
  const uint64_t before = param.version();
  optimizer.step();
  EXPECT_GT(param.version(), before);
}

struct PreparedOptions {
  double lr = 1;
  static constexpr optim::NumberField<PreparedOptions> fields[] = {
      optim::number_field<&PreparedOptions::lr>("lr")};
};

// Lacks what its second group needs.
class Prepared final : public OptimizerOf<PreparedOptions> {
 public:
  explicit Prepared(std::vector<ParamGroup<PreparedOptions>> groups)
      : OptimizerOf("prepared", std::move(groups), {}) {}
  int updates = 0;

 protected:
  void prepare_update(int group, const std::vector<OptimTensor>&, const OptimStep&) override {
    WICK_CHECK(group == 0, "prepared: no memory");
  }
  void update(int, const std::vector<OptimTensor>&, const OptimStep&) override { ++updates; }
};

TEST(Step, PreparesEveryGroupBeforeItUpdatesAny) {
  const Tensor first = parameter({3}), second = parameter({3});
  Prepared optimizer({{.params = {first}}, {.params = {second}}});
  const uint64_t before = first.version();
  EXPECT_EQ(error_of([&] { optimizer.step(); }), "prepared: no memory");
  EXPECT_EQ(optimizer.updates, 0);
  EXPECT_EQ(first.version(), before);
  second.set_grad({});
  optimizer.step();
  EXPECT_EQ(optimizer.updates, 1);
}

// Denormal moments slow the CPU down, and rounding would keep the smallest from vanishing.
TEST(Step, LetsMomentsOfNoGradientVanish) {
  const Tensor param = parameter({4000});
  AdamW optimizer({param}, {.weight_decay = 0});
  optimizer.step();
  param.grad().zero_();
  for (int step = 0; step < 900; ++step) optimizer.step();
  EXPECT_EQ(optimizer.state_dict().at("state.0.0.exp_avg").abs().max().item(), 0);
  param.set_grad(full(param.shape(), 1e-21));
  optimizer.step();
  EXPECT_GT(optimizer.state_dict().at("state.0.0.exp_avg").abs().max().item(), 0);
}

TEST(Step, ReadsTensorsOfOneDeviceOnly) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  const Tensor here = parameter({3}), there = ones({3}, kFloat32, cuda_device(0));
  there.set_requires_grad();
  there.set_grad(ones({3}, kFloat32, there.device()));
  SGD mixed({here, there});
  mixed.step();  // what the host knows will do for both
  EXPECT_EQ(error_of([&] { mixed.step({.grad_norm = zeros({}, kFloat64)}); }),
            "sgd: step: with grad_scale, found_inf or grad_norm, parameters must be on one device: "
            "got cuda:0 and cpu");
  EXPECT_EQ(error_of([&] { mixed.make_capturable(); }),
            "sgd: device_rates: the parameters of group 0 must be on one device: got cuda:0 and "
            "cpu");
  SGD apart({{.params = {here}}, {.params = {there}}});
  apart.make_capturable();
  const double before = here.max().item();
  apart.step();
  EXPECT_NE(here.max().item(), before);
}

TEST(Step, TakesGradientsOfAnotherLayout) {
  const Tensor param = zeros({2, 3, 4, 5}).contiguous(MemoryFormat::kChannelsLast);
  param.set_requires_grad();
  const Tensor grad = random_tensor({2, 3, 4, 5}, 4);
  param.set_grad(grad);
  SGD({param}, {.lr = 1}).step();
  const std::vector<double> got = doubles(param), want = doubles(grad);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], -want[i]);
}

TEST(Step, RefusesAParameterOfAnotherDtypeThanItsState) {
  const Tensor param = parameter({3});
  Adam optimizer({param});
  optimizer.step();
  // As Module::to does.
  const Tensor wide = param.detach().to(kFloat64);
  param.set_requires_grad(false);
  param.impl()->storage = wide.impl()->storage;
  param.impl()->dtype = kFloat64;
  param.set_requires_grad();
  param.set_grad(zeros({3}, kFloat64));
  EXPECT_EQ(error_of([&] { optimizer.step(); }),
            "adam: a parameter of shape [3] has another dtype, layout or device than in the last "
            "step");
}

TEST(State, IsMadeWhenNeeded) {
  const Tensor used = parameter({3}), unused = random_tensor({3}, 9).set_requires_grad();
  SGD plain({used});
  plain.step();
  EXPECT_FALSE(plain.state_dict().contains("state.0.0.momentum_buffer"));
  Adam optimizer({used, unused});
  EXPECT_FALSE(optimizer.state_dict().contains("state.0.0.step"));
  optimizer.step();
  const StateDict state = optimizer.state_dict();
  EXPECT_EQ(state.at("state.0.0.step").item<int64_t>(), 1);
  EXPECT_TRUE(state.contains("state.0.0.exp_avg_sq"));
  EXPECT_FALSE(state.contains("state.0.0.max_exp_avg_sq"));
  EXPECT_FALSE(state.contains("state.0.1.step"));
  EXPECT_EQ(state.at("group.0.lr").item(), 1e-3);
}

// Momentum that is switched on between two steps: what the next one needs is in the state.
TEST(State, HasWhatTheNextStepNeeds) {
  const Tensor param = parameter({3});
  SGD optimizer({param});
  optimizer.step();
  optimizer.set_hyperparameter(0, "momentum", 0.9);
  SGD other({parameter({3})});
  other.load_state_dict(optimizer.state_dict());
  EXPECT_EQ(other.hyperparameter(0, "momentum"), 0.9);
  EXPECT_EQ(other.state_dict().at("state.0.0.momentum_buffer").to_vector<float>(),
            std::vector<float>(3, 0));
}

// What the buffer is at first does not hang on how many steps there were before without one.
TEST(State, MomentumBeginsWithTheWholeGradientWhenItIsTurnedOn) {
  for (const bool resumed : {false, true}) {
    const Tensor param = zeros({1}).set_requires_grad();
    SGD optimizer({param}, {.lr = 1, .dampening = 0.5});
    param.set_grad(ones({1}));
    optimizer.step();
    optimizer.set_hyperparameter(0, "momentum", 0.5);
    if (resumed) optimizer.load_state_dict(optimizer.state_dict());
    for (const double value : {-2.0, -3.0, -4.0}) {  // buffer: 1, 0.5 + 0.5, the same
      optimizer.step();
      EXPECT_EQ(param.item(), value);
      if (resumed) optimizer.load_state_dict(optimizer.state_dict());
    }
  }
}

TEST(State, OfSgdMayCountNoStepsWithMomentum) {
  for (const double momentum : {0.0, 0.9}) {
    const Tensor param = parameter({3});
    SGD optimizer({param}, {.momentum = momentum, .dampening = 0.5});
    optimizer.step();
    optimizer.step();
    StateDict state = optimizer.state_dict();
    EXPECT_EQ(state.at("state.0.0.momentum_steps").item(), momentum == 0 ? 0 : 2);
    state.erase("state.0.0.momentum_steps");
    optimizer.load_state_dict(state);
    EXPECT_EQ(optimizer.state_dict().at("state.0.0.momentum_steps").item(), momentum == 0 ? 0 : 2);
  }
}

TEST(State, OfOtherParametersIsRefusedAndChangesNothing) {
  const Tensor param = parameter({3});
  Adam source({parameter({3}), parameter({2})}, {.lr = 0.5});
  source.step();
  Adam optimizer({param}, {.lr = 0.1});
  optimizer.step();
  EXPECT_EQ(
      error_of([&] { optimizer.load_state_dict(source.state_dict()); }),
      "adam: load_state_dict: the state is for other parameters: 3 of its 13 entries fit none "
      "of these: state.0.1.exp_avg is the first");
  Adam other_shape({parameter({2})}, {.lr = 0.5});
  other_shape.step();
  EXPECT_EQ(error_of([&] { optimizer.load_state_dict(other_shape.state_dict()); }),
            "adam: load_state_dict: state.0.0.exp_avg: got shape [2], expected [3]");
  StateDict incomplete = optimizer.state_dict();
  incomplete.erase("group.0.beta1");
  EXPECT_EQ(error_of([&] { optimizer.load_state_dict(incomplete); }),
            "adam: load_state_dict: missing group.0.beta1");
  StateDict half = other_shape.state_dict();
  half.erase("state.0.0.exp_avg_sq");
  half.at("state.0.0.exp_avg") = zeros({3});
  EXPECT_EQ(error_of([&] { optimizer.load_state_dict(half); }),
            "adam: load_state_dict: missing state.0.0.exp_avg_sq");
  for (const double steps : {-5.0, double{NAN}, 0.5}) {
    StateDict counted = other_shape.state_dict();
    counted.at("state.0.0.step") = scalar_tensor(steps, kFloat64);
    EXPECT_EQ(error_of([&] { other_shape.load_state_dict(counted); }),
              concat("adam: load_state_dict: state.0.0.step: got ", steps, ", expected ",
                     steps < 0 ? "0 or more" : "a whole number below 2^53"));
  }
  StateDict empty = optimizer.state_dict();
  empty.at("group.0.beta1") = Tensor();
  EXPECT_EQ(error_of([&] { optimizer.load_state_dict(empty); }),
            "adam: load_state_dict: missing group.0.beta1");
  StateDict wild = other_shape.state_dict();
  wild.at("group.0.beta2") = scalar_tensor(1.5, kFloat64);
  EXPECT_EQ(error_of([&] { optimizer.load_state_dict(wild); }),
            "adam: beta2: got 1.5, expected a value in [0, 1)");
  EXPECT_EQ(optimizer.lr(), 0.1);
  EXPECT_EQ(optimizer.state_dict().at("state.0.0.step").item<int64_t>(), 1);
}

TEST(State, WithOptionsThatDoNotGoTogetherIsRefused) {
  SGD plain({parameter({3})}, {.lr = 0.5}), with_nesterov({parameter({3})}, {.lr = 0.1});
  StateDict state = plain.state_dict();
  state.at("group.0.nesterov") = scalar_tensor(1.0, kFloat64);
  EXPECT_EQ(error_of([&] { with_nesterov.load_state_dict(state); }),
            "sgd: nesterov needs a momentum and no dampening: got momentum 0, dampening 0");
  EXPECT_EQ(with_nesterov.lr(), 0.1);
  // From one allowed pair to the other, neither half of which fits the rest.
  with_nesterov.set_hyperparameters({{{"momentum", 0.9}, {"nesterov", 1}}});
  const StateDict pair = with_nesterov.state_dict();
  with_nesterov.load_state_dict(plain.state_dict());
  EXPECT_FALSE(with_nesterov.options().nesterov);
  with_nesterov.load_state_dict(pair);
  EXPECT_TRUE(with_nesterov.options().nesterov);

  Adadelta adadelta({parameter({3})});
  StateDict wild = adadelta.state_dict();
  wild.at("group.0.rho") = scalar_tensor(1.5, kFloat64);
  EXPECT_EQ(error_of([&] { adadelta.load_state_dict(wild); }),
            "adadelta: rho: got 1.5, expected a value in [0, 1]");
}

TEST(Errors, SayWhatIsWrong) {
  const Tensor param = parameter({3});
  EXPECT_EQ(error_of([&] { SGD({param}, {.lr = -0.1}); }),
            "sgd: lr: got -0.1, expected a finite value, 0 or more");
  EXPECT_EQ(error_of([&] { SGD({param}, {.lr = NAN}); }),
            "sgd: lr: got nan, expected a finite value, 0 or more");
  EXPECT_EQ(error_of([&] { RMSprop({param}, {.eps = HUGE_VAL}); }),
            "rmsprop: eps: got inf, expected a finite value, 0 or more");
  EXPECT_EQ(error_of([&] { Adam({param}, {.beta2 = 1}); }),
            "adam: beta2: got 1, expected a value in [0, 1)");
  EXPECT_EQ(error_of([&] { Adadelta({param}, {.rho = 1.5}); }),
            "adadelta: rho: got 1.5, expected a value in [0, 1]");
  EXPECT_EQ(error_of([&] { SGD({param}, {.nesterov = true}); }),
            "sgd: nesterov needs a momentum and no dampening: got momentum 0, dampening 0");
  EXPECT_EQ(error_of([&] { SGD(std::vector<Tensor>{}); }),
            "sgd: a parameter group is empty: got group 0 without tensors, "
            "expected one or more, as parameters() of a module whose parts add() has registered");
  EXPECT_EQ(error_of([&] { SGD(std::vector<ParamGroup<SGDOptions>>{}); }), "sgd: no parameters");
  EXPECT_EQ(
      error_of([&] {
        SGD({{.params = {param}}, {.params = {param}}});
      }),
      "sgd: a parameter appears twice, as number 0 of group 0 and as number 0 of group 1: its "
      "shape is [3]");
  EXPECT_EQ(error_of([&] { SGD({ones({2}, kInt64)}); }),
            "sgd: parameters must be floating: got int64");
  EXPECT_EQ(error_of([&] {
              SGD({ones({4, 4}).slice(1, 0, 4, 2)});
            }),
            "sgd: parameters must be dense: got strides [4, 2] for shape [4, 2]");
  EXPECT_EQ(
      error_of([&] { SGD({param + 1.0}); }),
      "sgd: parameters must be leaves: got the result of add_scalar(other=1), expected tensors "
      "made by no operation");
}

}  // namespace
}  // namespace wick::testing
