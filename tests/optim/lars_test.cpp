#include "wick/optim/lars.h"

#include <gtest/gtest.h>

#include <cmath>

#include "wick/tests/optim/reference.h"

namespace wick::testing {
namespace {

using namespace optim;

Rule rule_of(const LARSOptions& o) {
  return [o](Reference& p, const Numbers& g, int) {
    const double decay = o.decoupled_weight_decay ? 0 : o.weight_decay;
    const double size = norm_of(p.w), slope = norm_of(g);
    double local = 1;
    if (o.trust_coefficient > 0 && size > 0 && slope > 0) {
      local = o.trust_coefficient * size / (slope + decay * size + o.eps);
    }
    for (size_t i = 0; i < g.size(); ++i) {
      const double d = (o.maximize ? -g[i] : g[i]);
      if (o.decoupled_weight_decay) p.w[i] *= 1 - o.lr * o.weight_decay;
      p.states[i][0] = o.momentum * p.states[i][0] + o.lr * local * (d + decay * p.w[i]);
      p.w[i] -= p.states[i][0];
    }
  };
}

[[maybe_unused]] const bool kLarsCases[] = {
    add_case<LARS>("lars", rule_of, {}, kMeasuresFirst),
    add_case<LARS>("lars_all", rule_of,
                   {.lr = 2,
                    .momentum = 0.8,
                    .weight_decay = 0.1,
                    .trust_coefficient = 0.02,
                    .maximize = true},
                   kMeasuresFirst),
    add_case<LARS>("lars_decoupled", rule_of, {.weight_decay = 0.1, .decoupled_weight_decay = true},
                   kMeasuresFirst),
    add_case<LARS>("lars_unscaled", rule_of, {.lr = 0.01, .trust_coefficient = 0}, kMeasuresFirst),
};

TEST(Lars, HasTheDefaultsOfItsPaper) {
  EXPECT_EQ(all_of(LARSOptions()),
            "lr 0.1, momentum 0.9, weight_decay 0, trust_coefficient 0.001, eps 1e-08, "
            "decoupled_weight_decay 0, maximize 0");
}

}  // namespace
}  // namespace wick::testing
