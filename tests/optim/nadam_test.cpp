#include "wick/optim/nadam.h"

#include <gtest/gtest.h>

#include <cmath>

#include "wick/tests/optim/reference.h"

namespace wick::testing {
namespace {

using namespace optim;

Rule rule_of(const NAdamOptions& o) {
  return by_element([o](double& w, double g, std::array<double, 4>& s, int step) {
    const auto momentum = [&](int t) {
      return o.beta1 * (1 - 0.5 * std::pow(0.96, t * o.momentum_decay));
    };
    const double d = o.decoupled_weight_decay ? (o.maximize ? -g : g) : seen(o, w, g);
    const double mu = momentum(step), next = momentum(step + 1);
    if (o.decoupled_weight_decay) w *= 1 - o.lr * o.weight_decay;
    s[2] = (step == 1 ? 1 : s[2]) * mu;
    s[0] = o.beta1 * s[0] + (1 - o.beta1) * d;
    s[1] = o.beta2 * s[1] + (1 - o.beta2) * d * d;
    const double root = std::sqrt(s[1] / (1 - std::pow(o.beta2, step))) + o.eps;
    w -= o.lr * (1 - mu) / (1 - s[2]) * d / root;
    w -= o.lr * next / (1 - s[2] * next) * s[0] / root;
  });
}

[[maybe_unused]] const bool kNadamCases[] = {
    add_case<NAdam>("nadam", rule_of),
    add_case<NAdam>("nadam_decoupled", rule_of,
                    {.weight_decay = 0.1, .decoupled_weight_decay = true}),
    add_case<NAdam>("nadam_all", rule_of,
                    {.lr = 0.02,
                     .beta1 = 0.7,
                     .beta2 = 0.8,
                     .eps = 1e-3,
                     .weight_decay = 0.1,
                     .momentum_decay = 0.5,
                     .maximize = true}),
};

TEST(Nadam, HasTheDefaultsOfPyTorch) {
  EXPECT_EQ(all_of(NAdamOptions()),
            "lr 0.002, beta1 0.9, beta2 0.999, eps 1e-08, weight_decay 0, momentum_decay 0.004, "
            "decoupled_weight_decay 0, maximize 0");
}

}  // namespace
}  // namespace wick::testing
