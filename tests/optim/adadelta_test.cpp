#include "wick/optim/adadelta.h"

#include <gtest/gtest.h>

#include <cmath>

#include "wick/tests/optim/reference.h"

namespace wick::testing {
namespace {

using namespace optim;

Rule rule_of(const AdadeltaOptions& o) {
  return by_element([o](double& w, double g, std::array<double, 4>& s, int) {
    const double d = seen(o, w, g);
    s[0] = o.rho * s[0] + (1 - o.rho) * d * d;
    const double update = std::sqrt(s[1] + o.eps) / std::sqrt(s[0] + o.eps) * d;
    s[1] = o.rho * s[1] + (1 - o.rho) * update * update;
    w -= o.lr * update;
  });
}

[[maybe_unused]] const bool kAdadeltaCases[] = {
    add_case<Adadelta>("adadelta", rule_of),
    add_case<Adadelta>("adadelta_all", rule_of,
                       {.lr = 0.7, .rho = 0.8, .eps = 1e-3, .weight_decay = 0.1, .maximize = true}),
};

TEST(Adadelta, HasTheDefaultsOfPyTorch) {
  EXPECT_EQ(all_of(AdadeltaOptions()),
            "lr 1, rho 0.9, eps 1e-06, weight_decay 0, decoupled_weight_decay 0, maximize 0");
}

}  // namespace
}  // namespace wick::testing
