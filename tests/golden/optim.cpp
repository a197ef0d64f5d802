#include "wick/optim/optim.h"

#include "wick/tests/golden/golden.h"
#include "wick/tests/golden/training.h"

namespace wick::golden {

namespace {

using optim::Optimizer;
using MakeOptimizer = std::unique_ptr<Optimizer> (*)(std::vector<Tensor> params, Args& a);

// Options have PyTorch's names, but for betas.
template <class O>
std::unique_ptr<Optimizer> make(std::vector<Tensor> params, Args& a) {
  typename O::Options options;
  a.ignore({"foreach", "capturable", "differentiable", "fused"});
  const std::vector<double> betas = a.numbers("betas", {});
  WICK_CHECK(betas.empty() || betas.size() == 2, "argument 'betas': got ", betas.size(),
             " numbers, expected 2");
  for_each_field(options, [&](const std::string& name, auto& value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, bool>) {
      value = a.flag(name, value);
    } else if (name == "beta1" || name == "beta2") {
      if (!betas.empty()) value = betas[name == "beta1" ? 0 : 1];
    } else {
      value = a.number(name, value);
    }
  });
  return std::make_unique<O>(std::move(params), options);
}

const std::map<std::string, MakeOptimizer>& optimizers() {
  static const std::map<std::string, MakeOptimizer> all = {
      {"SGD", make<optim::SGD>},         {"Adam", make<optim::Adam>},
      {"AdamW", make<optim::AdamW>},     {"RMSprop", make<optim::RMSprop>},
      {"Adagrad", make<optim::Adagrad>}, {"Adadelta", make<optim::Adadelta>},
      {"Adamax", make<optim::Adamax>},   {"NAdam", make<optim::NAdam>},
      {"RAdam", make<optim::RAdam>},     {"ASGD", make<optim::ASGD>},
  };
  return all;
}

std::vector<Tensor> load(const Case& golden_case, const std::string& prefix) {
  std::vector<Tensor> tensors;
  for (int64_t i = 0; i < golden_case.integer("params"); ++i) {
    tensors.push_back(golden_case.tensor(concat(prefix, i)).to(golden_case.device).clone());
  }
  return tensors;
}

void run_steps(const Case& golden_case) {
  const std::vector<Tensor> params = load(golden_case, "p");
  for (const Tensor& param : params) param.set_requires_grad();
  Args args = golden_case.args();
  const auto optimizer = make_optimizer(golden_case.op, params, args);
  args.finish();
  for (int64_t step = 0; step < golden_case.integer("steps"); ++step) {
    const std::vector<Tensor> grads = load(golden_case, concat("g", step, "_"));
    for (size_t i = 0; i < params.size(); ++i) params[i].set_grad(grads[i]);
    optimizer->step();
    for (size_t i = 0; i < params.size(); ++i) {
      golden_case.expect(concat("parameter ", i, " after step ", step), params[i],
                         concat("y", step, "_", i));
    }
  }
}

void run_clip(const Case& golden_case) {
  std::vector<Tensor> params;
  for (const Tensor& grad : load(golden_case, "g0_")) {
    params.push_back(zeros_like(grad).set_requires_grad());
    params.back().set_grad(grad);
  }
  Args args = golden_case.args();
  if (golden_case.op == "clip_grad_norm") {
    const double max_norm = args.number("max_norm");
    const Tensor total = optim::clip_grad_norm_(params, max_norm, args.number("norm_type", 2.0),
                                                args.flag("error_if_nonfinite", false));
    golden_case.expect("total norm", total.reshape({1}), "total_norm");
  } else {
    optim::clip_grad_value_(params, args.number("clip_value"));
  }
  args.ignore({"foreach"});
  args.finish();
  for (size_t i = 0; i < params.size(); ++i) {
    golden_case.expect(concat("gradient ", i), params[i].grad(), concat("y0_", i));
  }
}

const Family optim_family("optim", [](const Case& golden_case) {
  const bool clip = golden_case.op == "clip_grad_norm" || golden_case.op == "clip_grad_value";
  clip ? run_clip(golden_case) : run_steps(golden_case);
});

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const std::string& name, std::vector<Tensor> params,
                                          Args& args) {
  const auto found = optimizers().find(name);
  WICK_CHECK(found != optimizers().end(), "unknown optimizer '", name, "'");
  return found->second(std::move(params), args);
}

}  // namespace wick::golden
