#include "wick/optim/sgd.h"

#include <gtest/gtest.h>

#include <cmath>

#include "wick/tests/optim/reference.h"

namespace wick::testing {
namespace {

using namespace optim;

Rule rule_of(const SGDOptions& o) {
  return by_element([o](double& w, double g, std::array<double, 4>& s, int step) {
    double d = seen(o, w, g);
    if (o.momentum != 0) {
      s[0] = step == 1 ? d : o.momentum * s[0] + (1 - o.dampening) * d;
      d = o.nesterov ? d + o.momentum * s[0] : s[0];
    }
    w -= o.lr * d;
  });
}

[[maybe_unused]] const bool kSgdCases[] = {
    add_case<SGD>("sgd", rule_of),
    add_case<SGD>("sgd_decay", rule_of, {.lr = 0.1, .weight_decay = 0.1, .maximize = true}),
    add_case<SGD>("sgd_momentum", rule_of,
                  {.lr = 0.1, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.01}),
    add_case<SGD>(
        "sgd_nesterov", rule_of,
        {.lr = 0.1, .momentum = 0.8, .weight_decay = 0.02, .nesterov = true, .maximize = true}),
};

TEST(Sgd, HasTheDefaultsOfPyTorch) {
  EXPECT_EQ(all_of(SGDOptions()),
            "lr 0.001, momentum 0, dampening 0, weight_decay 0, nesterov 0, "
            "decoupled_weight_decay 0, maximize 0");
}

}  // namespace
}  // namespace wick::testing
