#include "wick/optim/adamax.h"

#include <gtest/gtest.h>

#include <cmath>

#include "wick/tests/optim/reference.h"

namespace wick::testing {
namespace {

using namespace optim;

Rule rule_of(const AdamaxOptions& o) {
  return by_element([o](double& w, double g, std::array<double, 4>& s, int step) {
    const double d = seen(o, w, g);
    s[0] = o.beta1 * s[0] + (1 - o.beta1) * d;
    s[1] = std::max(o.beta2 * s[1], std::abs(d) + o.eps);
    w -= o.lr / (1 - std::pow(o.beta1, step)) * s[0] / s[1];
  });
}

[[maybe_unused]] const bool kAdamaxCases[] = {
    add_case<Adamax>("adamax", rule_of),
    add_case<Adamax>("adamax_all", rule_of,
                     {.lr = 0.02,
                      .beta1 = 0.7,
                      .beta2 = 0.8,
                      .eps = 1e-3,
                      .weight_decay = 0.1,
                      .maximize = true}),
};

TEST(Adamax, HasTheDefaultsOfPyTorch) {
  EXPECT_EQ(all_of(AdamaxOptions()),
            "lr 0.002, beta1 0.9, beta2 0.999, eps 1e-08, weight_decay 0, "
            "decoupled_weight_decay 0, maximize 0");
}

}  // namespace
}  // namespace wick::testing
