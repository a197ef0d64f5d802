#include "wick/optim/novograd.h"

#include <gtest/gtest.h>

#include <cmath>

#include "wick/tests/optim/reference.h"

namespace wick::testing {
namespace {

using namespace optim;

Rule rule_of(const NovoGradOptions& o) {
  return [o](Reference& p, const Numbers& g, int step) {
    const double square = norm_of(g) * norm_of(g);
    p.number = step == 1 && !o.init_zero ? square : o.beta2 * p.number + (1 - o.beta2) * square;
    const double bias1 = o.bias_correction ? 1 - std::pow(o.beta1, step) : 1;
    const double bias2 = o.bias_correction ? 1 - std::pow(o.beta2, step) : 1;
    const double size = std::sqrt(p.number / bias2) + o.eps;
    const double decay = o.decoupled_weight_decay ? 0 : o.weight_decay;
    for (size_t i = 0; i < g.size(); ++i) {
      const double d = o.maximize ? -g[i] : g[i];
      if (o.decoupled_weight_decay) p.w[i] *= 1 - o.lr * o.weight_decay;
      const double joins = d / size + decay * p.w[i];
      p.states[i][0] = o.beta1 * p.states[i][0] + (o.grad_averaging ? 1 - o.beta1 : 1) * joins;
      p.w[i] -= o.lr / bias1 * p.states[i][0];
    }
  };
}

[[maybe_unused]] const bool kNovogradCases[] = {
    add_case<NovoGrad>("novograd", rule_of, {}, kMeasuresFirst),
    add_case<NovoGrad>("novograd_all", rule_of,
                       {.lr = 0.02,
                        .beta1 = 0.7,
                        .beta2 = 0.8,
                        .weight_decay = 0.1,
                        .bias_correction = true,
                        .grad_averaging = true,
                        .init_zero = true,
                        .maximize = true},
                       kMeasuresFirst),
    add_case<NovoGrad>("novograd_decoupled", rule_of,
                       {.weight_decay = 0.1, .decoupled_weight_decay = true}, kMeasuresFirst),
};

TEST(Novograd, HasTheDefaultsOfItsPaper) {
  EXPECT_EQ(all_of(NovoGradOptions()),
            "lr 0.001, beta1 0.95, beta2 0.98, eps 1e-08, weight_decay 0, bias_correction 0, "
            "grad_averaging 0, init_zero 0, decoupled_weight_decay 0, maximize 0");
}

}  // namespace
}  // namespace wick::testing
