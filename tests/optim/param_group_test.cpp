#include <gtest/gtest.h>

#include <cmath>

#include "wick/core/ops/elementwise.h"
#include "wick/optim/optim.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/host_array.h"
#include "wick/tests/optim/reference.h"

// Frozen parameters, and groups that are added to an optimizer.

namespace wick::testing {
namespace {

using namespace optim;

Tensor weight(uint64_t seed) {
  const Tensor param = random_tensor({3}, seed);
  param.set_requires_grad();
  return param;
}

void set_grads(const std::vector<Tensor>& params) {
  for (const Tensor& param : params) {
    if (param.requires_grad()) param.set_grad(random_tensor(param.shape(), 7));
  }
}

TEST(FrozenParameters, AreSkippedUntilTheyTrain) {
  for (const OptimizerCase& each : optimizer_cases()) {
    const Tensor frozen = random_tensor({3}, 1), trained = weight(2), late = weight(3);
    const Tensor before = frozen.clone();
    late.set_requires_grad(false);
    const auto optimizer = each.make({frozen, trained, late});
    for (int step = 0; step < 2; ++step) {
      set_grads({trained, late});
      optimizer->step();
      optimizer->zero_grad();
    }
    for (const auto& [name, value] : optimizer->state_dict()) {
      EXPECT_TRUE(name.starts_with("group.") || name.starts_with("state.0.1.")) << name;
    }
    EXPECT_TRUE(bit_equal(frozen, before)) << each.name;
    const Tensor kept = late.clone();
    late.set_requires_grad();
    trained.set_requires_grad(false);
    const Tensor of_trained = trained.clone();
    set_grads({trained, late});
    optimizer->step({.max_norm = 100});
    EXPECT_FALSE(bit_equal(late.detach(), kept)) << each.name;
    EXPECT_TRUE(bit_equal(trained, of_trained)) << each.name;
    EXPECT_EQ(optimizer->state_dict().at("state.0.2.step").item<int64_t>(), 1) << each.name;
    // Its state is that of an optimizer that freezes the same.
    const auto other = each.make({frozen.clone(), trained.clone(), weight(9)});
    other->load_state_dict(optimizer->state_dict());
    EXPECT_EQ(other->state_dict().size(), optimizer->state_dict().size());
  }
}

TEST(AddParamGroup, TrainsWithWhatTheFirstGroupWasMadeWith) {
  const Tensor a = weight(1), b = weight(2), c = weight(3);
  SGD optimizer({a}, {.lr = 0.5, .weight_decay = 1});
  optimizer.set_lr(0.25);
  optimizer.add_param_group({b}, {{"weight_decay", 0}});
  optimizer.add_param_group({c}, {{"lr", 0.125}});
  EXPECT_EQ(optimizer.num_groups(), 3);
  EXPECT_EQ(optimizer.options(1).lr, 0.5);
  EXPECT_EQ(optimizer.options(2).weight_decay, 1);
  const std::vector<double> of_b = doubles(b), of_c = doubles(c);
  set_grads({a, b, c});
  const std::vector<double> grad = doubles(b.grad());
  optimizer.step();
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(doubles(b)[i], of_b[i] - 0.5 * grad[i], 1e-6);
    EXPECT_NEAR(doubles(c)[i], of_c[i] - 0.125 * (grad[i] + of_c[i]), 1e-6);
  }
  SGD resumed({a}, {.lr = 0.5});
  resumed.add_param_group({b});
  resumed.add_param_group({c});
  resumed.load_state_dict(optimizer.state_dict());
  EXPECT_EQ(resumed.options(1).weight_decay, 0);
  EXPECT_EQ(resumed.lr(2), 0.125);
}

TEST(AddParamGroup, RefusesWhatDoesNotFitAndChangesNothing) {
  const Tensor a = weight(1), b = weight(2);
  AdamW optimizer({a});
  EXPECT_EQ(error_of([&] {
              optimizer.add_param_group({b, a});
            }),
            "adamw: a parameter appears twice, as number 0 of group 0 and as number 1 of group 1: "
            "its shape is [3]");
  EXPECT_EQ(error_of([&] { optimizer.add_param_group({}); }),
            "adamw: a parameter group is empty: got group 1 without tensors, "
            "expected one or more, as parameters() of a module whose parts add() has registered");
  EXPECT_EQ(error_of([&] {
              optimizer.add_param_group({b}, {{"momentum", 1}});
            }),
            "adamw: no hyperparameter named momentum: expected one of lr, beta1, beta2, eps, "
            "weight_decay, amsgrad, maximize");
  EXPECT_EQ(error_of([&] {
              optimizer.add_param_group({b}, {{"beta1", 2}});
            }),
            "adamw: beta1: got 2, expected a value in [0, 1)");
  EXPECT_EQ(optimizer.num_groups(), 1);
  EXPECT_EQ(optimizer.state_dict().size(), AdamW({a}).state_dict().size());
  optimizer.make_capturable();
  EXPECT_EQ(error_of([&] { optimizer.add_param_group({b}); }),
            "adamw: add_param_group: steps that were captured would leave the group out: add it "
            "before make_capturable() and device_rates()");
  EXPECT_EQ(optimizer.num_groups(), 1);
}

TEST(AddParamGroup, IsLeftAloneBySchedulesMadeBefore) {
  SGD optimizer({weight(1)}, {.lr = 1, .momentum = 0.9});
  ExponentialLR schedule(optimizer, 0.5);
  ReduceLROnPlateau plateau(optimizer, {.factor = 0.5, .patience = 0, .min_lr = {0.01}});
  optimizer.add_param_group({weight(2)}, {{"lr", 0.1}});
  schedule.step();
  EXPECT_EQ(optimizer.lr(0), 0.5);
  EXPECT_EQ(optimizer.lr(1), 0.1);
  plateau.step(1);
  plateau.step(2);
  EXPECT_EQ(optimizer.lr(0), 0.25);
  EXPECT_EQ(optimizer.lr(1), 0.1);
  schedule.load_state_dict(schedule.state_dict());
  OneCycleLR next(optimizer, {.max_lr = {1, 2}, .total_steps = 10});
  EXPECT_NEAR(optimizer.lr(1), 2.0 / 25, 1e-15);
  optimizer.add_param_group({weight(3)});
  next.step();
  next.load_state_dict(next.state_dict());
  EXPECT_EQ(optimizer.lr(2), 1);
  ExponentialLR all(optimizer, 0.5);
  all.step();
  EXPECT_EQ(optimizer.lr(2), 0.5);
}

TEST(ParamGroups, NamesAGroupThatIsNot) {
  SGD optimizer({ones({2}).set_requires_grad()});
  const StepLR schedule(optimizer, 3);
  const auto expect_refused = [](int group, const auto& call) {
    EXPECT_EQ(error_of(call),
              concat("sgd: no such parameter group: got ", group, ", expected 0 to 0"));
  };
  for (const int group : {-1, 1}) {
    expect_refused(group, [&] { optimizer.lr(group); });
    expect_refused(group, [&] { optimizer.set_lr(group, 0.1); });
    expect_refused(group, [&] { optimizer.params(group); });
    expect_refused(group, [&] { optimizer.options(group); });
    expect_refused(group, [&] { optimizer.base_lr(group); });
    expect_refused(group, [&] { optimizer.device_rates(group); });
    EXPECT_EQ(error_of([&] { schedule.base_lr(group); }),
              concat("schedule: no such parameter group: got ", group, ", expected 0 to 0"));
  }
}

}  // namespace
}  // namespace wick::testing
