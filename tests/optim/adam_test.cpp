#include "wick/optim/adam.h"

#include <gtest/gtest.h>

#include <cmath>

#include "wick/tests/optim/reference.h"

namespace wick::testing {
namespace {

using namespace optim;

template <bool kDecoupled>
Rule rule_of(const AdamOptionsOf<kDecoupled>& o) {
  return by_element([o](double& w, double g, std::array<double, 4>& s, int step) {
    double d = seen(o, w, g);
    if (kDecoupled) {
      d = o.maximize ? -g : g;
      w *= 1 - o.lr * o.weight_decay;
    }
    s[0] = o.beta1 * s[0] + (1 - o.beta1) * d;
    s[1] = o.beta2 * s[1] + (1 - o.beta2) * d * d;
    s[2] = std::max(s[2], s[1]);
    const double second = o.amsgrad ? s[2] : s[1];
    const double root = std::sqrt(second) / std::sqrt(1 - std::pow(o.beta2, step)) + o.eps;
    w -= o.lr / (1 - std::pow(o.beta1, step)) * s[0] / root;
  });
}

[[maybe_unused]] const bool kAdamCases[] = {
    add_case<Adam>("adam", rule_of<false>),
    add_case<Adam>("adam_all", rule_of<false>,
                   {.lr = 0.02,
                    .beta1 = 0.7,
                    .beta2 = 0.9,
                    .eps = 1e-3,
                    .weight_decay = 0.1,
                    .amsgrad = true,
                    .maximize = true}),
    add_case<AdamW>("adamw", rule_of<true>),
    add_case<AdamW>("adamw_all", rule_of<true>,
                    {.lr = 0.02,
                     .beta1 = 0.7,
                     .beta2 = 0.9,
                     .eps = 1e-3,
                     .weight_decay = 0.3,
                     .amsgrad = true,
                     .maximize = true}),
};

TEST(Adam, HasTheDefaultsOfPyTorch) {
  EXPECT_EQ(all_of(AdamOptions()),
            "lr 0.001, beta1 0.9, beta2 0.999, eps 1e-08, weight_decay 0, amsgrad 0, maximize 0");
  EXPECT_EQ(
      all_of(AdamWOptions()),
      "lr 0.001, beta1 0.9, beta2 0.999, eps 1e-08, weight_decay 0.01, amsgrad 0, maximize 0");
}

}  // namespace
}  // namespace wick::testing
