#include "wick/optim/radam.h"

#include <gtest/gtest.h>

#include <cmath>

#include "wick/tests/optim/reference.h"

namespace wick::testing {
namespace {

using namespace optim;

Rule rule_of(const RAdamOptions& o) {
  return by_element([o](double& w, double g, std::array<double, 4>& s, int step) {
    const double d = seen(o, w, g);
    s[0] = o.beta1 * s[0] + (1 - o.beta1) * d;
    s[1] = o.beta2 * s[1] + (1 - o.beta2) * d * d;
    const double m = s[0] / (1 - std::pow(o.beta1, step));
    const double longest = 2 / (1 - o.beta2) - 1, faded = std::pow(o.beta2, step);
    const double length = longest - 2 * step * faded / (1 - faded);
    if (length <= 5) {
      w -= o.lr * m;
      return;
    }
    const double rectify =
        std::sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length));
    w -= o.lr * m * rectify * std::sqrt(1 - faded) / (std::sqrt(s[1]) + o.eps);
  });
}

[[maybe_unused]] const bool kRadamCases[] = {
    add_case<RAdam>("radam", rule_of),
    add_case<RAdam>("radam_all", rule_of,
                    {.lr = 0.02,
                     .beta1 = 0.7,
                     .beta2 = 0.98,
                     .eps = 1e-3,
                     .weight_decay = 0.1,
                     .maximize = true}),
};

TEST(Radam, HasTheDefaultsOfPyTorch) {
  EXPECT_EQ(all_of(RAdamOptions()),
            "lr 0.001, beta1 0.9, beta2 0.999, eps 1e-08, weight_decay 0, "
            "decoupled_weight_decay 0, maximize 0");
}

}  // namespace
}  // namespace wick::testing
