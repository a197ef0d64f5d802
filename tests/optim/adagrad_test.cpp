#include "wick/optim/adagrad.h"

#include <gtest/gtest.h>

#include <cmath>

#include "wick/tests/optim/reference.h"

namespace wick::testing {
namespace {

using namespace optim;

Rule rule_of(const AdagradOptions& o) {
  return by_element([o](double& w, double g, std::array<double, 4>& s, int step) {
    const double d = seen(o, w, g);
    s[0] = (step == 1 ? o.initial_accumulator_value : s[0]) + d * d;
    w -= o.lr / (1 + (step - 1) * o.lr_decay) * d / (std::sqrt(s[0]) + o.eps);
  });
}

[[maybe_unused]] const bool kAdagradCases[] = {
    add_case<Adagrad>("adagrad", rule_of),
    add_case<Adagrad>("adagrad_all", rule_of,
                      {.lr = 0.1,
                       .lr_decay = 0.2,
                       .weight_decay = 0.1,
                       .initial_accumulator_value = 0.5,
                       .eps = 1e-3,
                       .maximize = true}),
};

TEST(Adagrad, HasTheDefaultsOfPyTorch) {
  EXPECT_EQ(all_of(AdagradOptions()),
            "lr 0.01, lr_decay 0, weight_decay 0, initial_accumulator_value 0, eps 1e-10, "
            "decoupled_weight_decay 0, maximize 0");
}

}  // namespace
}  // namespace wick::testing
