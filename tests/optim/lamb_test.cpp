#include "wick/optim/lamb.h"

#include <gtest/gtest.h>

#include <cmath>

#include "wick/tests/optim/reference.h"

namespace wick::testing {
namespace {

using namespace optim;

Rule rule_of(const LAMBOptions& o) {
  return [o](Reference& p, const Numbers& g, int step) {
    const double bias1 = o.bias_correction ? 1 - std::pow(o.beta1, step) : 1;
    const double bias2 = o.bias_correction ? 1 - std::pow(o.beta2, step) : 1;
    Numbers u(g.size());
    for (size_t i = 0; i < g.size(); ++i) {
      const double d = o.maximize ? -g[i] : g[i];
      p.states[i][0] = o.beta1 * p.states[i][0] + (o.grad_averaging ? 1 - o.beta1 : 1) * d;
      p.states[i][1] = o.beta2 * p.states[i][1] + (1 - o.beta2) * d * d;
      u[i] = p.states[i][0] / bias1 / (std::sqrt(p.states[i][1] / bias2) + o.eps) +
             o.weight_decay * p.w[i];
    }
    const double size = norm_of(p.w), length = norm_of(u);
    const bool adapts = (o.weight_decay != 0 || o.use_nvlamb) && size > 0 && length > 0;
    for (size_t i = 0; i < g.size(); ++i) p.w[i] -= o.lr * (adapts ? size / length : 1) * u[i];
  };
}

[[maybe_unused]] const bool kLambCases[] = {
    add_case<LAMB>("lamb", rule_of, {}, kMeasuresFirst),
    add_case<LAMB>("lamb_without_decay", rule_of,
                   {.lr = 0.02, .beta1 = 0.7, .beta2 = 0.9, .weight_decay = 0, .max_grad_norm = 0},
                   kMeasuresFirst),
    add_case<LAMB>("lamb_all", rule_of,
                   {.lr = 0.02,
                    .weight_decay = 0,
                    .max_grad_norm = 50,
                    .bias_correction = false,
                    .grad_averaging = false,
                    .use_nvlamb = true,
                    .maximize = true},
                   kMeasuresFirst),
};

TEST(Lamb, HasTheDefaultsOfApex) {
  EXPECT_EQ(all_of(LAMBOptions()),
            "lr 0.001, beta1 0.9, beta2 0.999, eps 1e-06, weight_decay 0.01, max_grad_norm 1, "
            "bias_correction 1, grad_averaging 1, use_nvlamb 0, maximize 0");
}

}  // namespace
}  // namespace wick::testing
