#include "wick/tests/optim/reference.h"

#include <gtest/gtest.h>

#include <cmath>

#include "wick/core/base/philox.h"
#include "wick/tests/harness/host_array.h"

namespace wick::testing {

using namespace optim;

namespace {

using State = std::array<double, 4>;

// Gradient as the rules see it.
template <class Options>
double seen(const Options& o, double w, double g) {
  return (o.maximize ? -g : g) + o.weight_decay * w;
}

Rule rule_of(const SGDOptions& o) {
  return [o](double& w, double g, State& s, int step) {
    double d = seen(o, w, g);
    if (o.momentum != 0) {
      s[0] = step == 1 ? d : o.momentum * s[0] + (1 - o.dampening) * d;
      d = o.nesterov ? d + o.momentum * s[0] : s[0];
    }
    w -= o.lr * d;
  };
}

template <bool kDecoupled>
Rule rule_of(const AdamOptionsOf<kDecoupled>& o) {
  return [o](double& w, double g, State& s, int step) {
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
  };
}

Rule rule_of(const AdamaxOptions& o) {
  return [o](double& w, double g, State& s, int step) {
    const double d = seen(o, w, g);
    s[0] = o.beta1 * s[0] + (1 - o.beta1) * d;
    s[1] = std::max(o.beta2 * s[1], std::abs(d) + o.eps);
    w -= o.lr / (1 - std::pow(o.beta1, step)) * s[0] / s[1];
  };
}

Rule rule_of(const NAdamOptions& o) {
  return [o](double& w, double g, State& s, int step) {
    const auto momentum = [&](int t) {
      return o.beta1 * (1 - 0.5 * std::pow(0.96, t * o.momentum_decay));
    };
    const double d = o.decoupled_weight_decay ? (o.maximize ? -g : g) : seen(o, w, g);
    const double mu = momentum(step), next = momentum(step + 1);
    if (o.decoupled_weight_decay) w *= 1 - o.lr * o.weight_decay;
    s[2] = (step == 1 ? 1 : s[2]) * mu;
    s[0] = o.beta1 * s[0] + (1 - o.beta1) * d;
    s[1] = o.beta2 * s[1] + (1 - o.beta2) * d * d;
    const double root = std::sqrt(s[1] / (1 - std::pow(o.beta2, step))) + o.eps;
    w -= o.lr * (1 - mu) / (1 - s[2]) * d / root;
    w -= o.lr * next / (1 - s[2] * next) * s[0] / root;
  };
}

Rule rule_of(const RAdamOptions& o) {
  return [o](double& w, double g, State& s, int step) {
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
  };
}

Rule rule_of(const RMSpropOptions& o) {
  return [o](double& w, double g, State& s, int) {
    const double d = seen(o, w, g);
    s[0] = o.alpha * s[0] + (1 - o.alpha) * d * d;
    s[1] = o.alpha * s[1] + (1 - o.alpha) * d;
    const double update = d / (std::sqrt(s[0] - (o.centered ? s[1] * s[1] : 0)) + o.eps);
    s[2] = o.momentum * s[2] + update;
    w -= o.lr * s[2];
  };
}

Rule rule_of(const AdagradOptions& o) {
  return [o](double& w, double g, State& s, int step) {
    const double d = seen(o, w, g);
    s[0] = (step == 1 ? o.initial_accumulator_value : s[0]) + d * d;
    w -= o.lr / (1 + (step - 1) * o.lr_decay) * d / (std::sqrt(s[0]) + o.eps);
  };
}

Rule rule_of(const AdadeltaOptions& o) {
  return [o](double& w, double g, State& s, int) {
    const double d = seen(o, w, g);
    s[0] = o.rho * s[0] + (1 - o.rho) * d * d;
    const double update = std::sqrt(s[1] + o.eps) / std::sqrt(s[0] + o.eps) * d;
    s[1] = o.rho * s[1] + (1 - o.rho) * update * update;
    w -= o.lr * update;
  };
}

Rule rule_of(const ASGDOptions& o) {
  return [o](double& w, double g, State& s, int step) {
    const double d = seen(o, w, g);
    const double eta = step == 1 ? o.lr : s[1];
    w = w * (1 - o.lambd * eta) - eta * d;
    s[1] = o.lr / std::pow(1 + o.lambd * o.lr * step, o.alpha);
  };
}

template <class O>
OptimizerCase case_of(const char* name, const typename O::Options& options = {}) {
  return {name,
          [options](std::vector<Tensor> params) {
            return std::make_unique<O>(std::move(params), options);
          },
          rule_of(options)};
}

template <class O>
OptimizerCase adapting(const char* name) {
  return {
      name, [](std::vector<Tensor> params) { return std::make_unique<O>(std::move(params)); }, {}};
}

}  // namespace

std::vector<OptimizerCase> optimizer_cases() {
  return {
      case_of<SGD>("sgd"),
      case_of<SGD>("sgd_decay", {.lr = 0.1, .weight_decay = 0.1, .maximize = true}),
      case_of<SGD>("sgd_momentum",
                   {.lr = 0.1, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.01}),
      case_of<SGD>(
          "sgd_nesterov",
          {.lr = 0.1, .momentum = 0.8, .weight_decay = 0.02, .nesterov = true, .maximize = true}),
      case_of<Adam>("adam"),
      case_of<Adam>("adam_all", {.lr = 0.02,
                                 .beta1 = 0.7,
                                 .beta2 = 0.9,
                                 .eps = 1e-3,
                                 .weight_decay = 0.1,
                                 .amsgrad = true,
                                 .maximize = true}),
      case_of<AdamW>("adamw"),
      case_of<AdamW>("adamw_all", {.lr = 0.02,
                                   .beta1 = 0.7,
                                   .beta2 = 0.9,
                                   .eps = 1e-3,
                                   .weight_decay = 0.3,
                                   .amsgrad = true,
                                   .maximize = true}),
      case_of<Adamax>("adamax"),
      case_of<Adamax>("adamax_all", {.lr = 0.02,
                                     .beta1 = 0.7,
                                     .beta2 = 0.8,
                                     .eps = 1e-3,
                                     .weight_decay = 0.1,
                                     .maximize = true}),
      case_of<NAdam>("nadam"),
      case_of<NAdam>("nadam_decoupled", {.weight_decay = 0.1, .decoupled_weight_decay = true}),
      case_of<NAdam>("nadam_all", {.lr = 0.02,
                                   .beta1 = 0.7,
                                   .beta2 = 0.8,
                                   .eps = 1e-3,
                                   .weight_decay = 0.1,
                                   .momentum_decay = 0.5,
                                   .maximize = true}),
      case_of<RAdam>("radam"),
      case_of<RAdam>("radam_all", {.lr = 0.02,
                                   .beta1 = 0.7,
                                   .beta2 = 0.98,
                                   .eps = 1e-3,
                                   .weight_decay = 0.1,
                                   .maximize = true}),
      case_of<RMSprop>("rmsprop"),
      case_of<RMSprop>("rmsprop_momentum", {.lr = 0.02, .momentum = 0.7}),
      case_of<RMSprop>("rmsprop_centered", {.lr = 0.02, .eps = 1e-2, .centered = true}),
      case_of<RMSprop>("rmsprop_all", {.lr = 0.02,
                                       .alpha = 0.8,
                                       .eps = 1e-2,
                                       .weight_decay = 0.1,
                                       .momentum = 0.7,
                                       .centered = true,
                                       .maximize = true}),
      case_of<Adagrad>("adagrad"),
      case_of<Adagrad>("adagrad_all", {.lr = 0.1,
                                       .lr_decay = 0.2,
                                       .weight_decay = 0.1,
                                       .initial_accumulator_value = 0.5,
                                       .eps = 1e-3,
                                       .maximize = true}),
      case_of<Adadelta>("adadelta"),
      case_of<Adadelta>(
          "adadelta_all",
          {.lr = 0.7, .rho = 0.8, .eps = 1e-3, .weight_decay = 0.1, .maximize = true}),
      case_of<ASGD>("asgd"),
      case_of<ASGD>(
          "asgd_all",
          {.lr = 0.1, .lambd = 0.2, .alpha = 0.6, .t0 = 3, .weight_decay = 0.1, .maximize = true}),
  };
}

std::vector<OptimizerCase> every_optimizer_case() {
  std::vector<OptimizerCase> cases = optimizer_cases();
  cases.push_back(adapting<LARS>("lars"));
  cases.push_back(adapting<LAMB>("lamb"));
  cases.push_back(adapting<NovoGrad>("novograd"));
  return cases;
}

SGD make_sgd(double lr, double momentum) {
  return SGD({zeros({1}).set_requires_grad()}, {.lr = lr, .momentum = momentum});
}

std::vector<double> random_numbers(int64_t count, uint64_t seed) {
  PhiloxStream stream(seed, 0);
  std::vector<double> numbers;
  for (int64_t i = 0; i < count; ++i) {
    numbers.push_back(2 * static_cast<double>(stream.uniform()) - 1);
  }
  return numbers;
}

Tensor random_tensor(const Shape& shape, uint64_t seed, Dtype dtype) {
  return tensor(random_numbers(shape.numel(), seed), shape).to(dtype);
}

std::vector<Tensor> buffers_of(const nn::Module& module) {
  std::vector<Tensor> buffers;
  for (const auto& [name, buffer] : module.named_buffers()) buffers.push_back(buffer);
  return buffers;
}

void add_copies(TensorMap& all, const std::string& prefix, const TensorMap& part) {
  for (const auto& [name, value] : part) all[prefix + name] = value.cpu().clone();
}

void expect_same(const TensorMap& got, const TensorMap& want) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, value] : want) {
    ASSERT_TRUE(got.contains(name)) << name;
    EXPECT_TRUE(bit_equal(got.at(name), value)) << name;
  }
}

std::vector<double> doubles(const Tensor& tensor) {
  return tensor.to(kFloat64).to_vector<double>();
}

}  // namespace wick::testing
