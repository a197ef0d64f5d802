#include "wick/optim/asgd.h"

#include <gtest/gtest.h>

#include <cmath>

#include "wick/tests/optim/reference.h"

namespace wick::testing {
namespace {

using namespace optim;

Rule rule_of(const ASGDOptions& o) {
  return by_element([o](double& w, double g, std::array<double, 4>& s, int step) {
    const double d = seen(o, w, g);
    const double eta = step == 1 ? o.lr : s[1];
    w = w * (1 - o.lambd * eta) - eta * d;
    s[1] = o.lr / std::pow(1 + o.lambd * o.lr * step, o.alpha);
  });
}

[[maybe_unused]] const bool kAsgdCases[] = {
    add_case<ASGD>("asgd", rule_of),
    add_case<ASGD>(
        "asgd_all", rule_of,
        {.lr = 0.1, .lambd = 0.2, .alpha = 0.6, .t0 = 3, .weight_decay = 0.1, .maximize = true}),
};

TEST(Asgd, HasTheDefaultsOfPyTorch) {
  EXPECT_EQ(all_of(ASGDOptions()),
            "lr 0.01, lambd 1e-04, alpha 0.75, t0 1e+06, weight_decay 0, "
            "decoupled_weight_decay 0, maximize 0");
}

TEST(Asgd, AveragesAfterT0) {
  const Tensor param = zeros({1}, kFloat64).set_requires_grad();
  ASGD optimizer({param}, {.lr = 1, .lambd = 0, .t0 = 2});
  double average = 0;
  for (int step = 1; step <= 6; ++step) {
    param.set_grad(full({1}, -1.0, kFloat64));  // w is the number of steps
    optimizer.step();
    const double share = 1 / std::max(1.0, step - 1 - 2.0);
    average += share * (step - average);
    EXPECT_NEAR(optimizer.state_dict().at("state.0.0.ax").item(), average, 1e-12);
  }
  EXPECT_NEAR(average, (4 + 5 + 6) / 3.0, 1e-12);
}

}  // namespace
}  // namespace wick::testing
