#include "wick/optim/rmsprop.h"

#include <gtest/gtest.h>

#include <cmath>

#include "wick/tests/optim/reference.h"

namespace wick::testing {
namespace {

using namespace optim;

Rule rule_of(const RMSpropOptions& o) {
  return by_element([o](double& w, double g, std::array<double, 4>& s, int) {
    const double d = seen(o, w, g);
    s[0] = o.alpha * s[0] + (1 - o.alpha) * d * d;
    s[1] = o.alpha * s[1] + (1 - o.alpha) * d;
    const double update = d / (std::sqrt(s[0] - (o.centered ? s[1] * s[1] : 0)) + o.eps);
    s[2] = o.momentum * s[2] + update;
    w -= o.lr * s[2];
  });
}

[[maybe_unused]] const bool kRmspropCases[] = {
    add_case<RMSprop>("rmsprop", rule_of),
    add_case<RMSprop>("rmsprop_momentum", rule_of, {.lr = 0.02, .momentum = 0.7}),
    add_case<RMSprop>("rmsprop_centered", rule_of, {.lr = 0.02, .eps = 1e-2, .centered = true}),
    add_case<RMSprop>("rmsprop_all", rule_of,
                      {.lr = 0.02,
                       .alpha = 0.8,
                       .eps = 1e-2,
                       .weight_decay = 0.1,
                       .momentum = 0.7,
                       .centered = true,
                       .maximize = true}),
};

TEST(Rmsprop, HasTheDefaultsOfPyTorch) {
  EXPECT_EQ(all_of(RMSpropOptions()),
            "lr 0.01, alpha 0.99, eps 1e-08, weight_decay 0, momentum 0, centered 0, "
            "decoupled_weight_decay 0, maximize 0");
}

}  // namespace
}  // namespace wick::testing
