#include "wick/optim/optim.h"

#include <cctype>

#include "wick/tests/golden/golden.h"
#include "wick/tests/golden/training.h"

namespace wick::golden {

namespace {

using optim::Optimizer;
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

// PyTorch's classes have the names of ours, and their arguments, but for betas, those of ours.
std::unique_ptr<Optimizer> make_optimizer(const std::string& name, std::vector<Tensor> params,
                                          Args& args) {
  std::string lower = name;
  for (char& c : lower) c = static_cast<char>(std::tolower(c));
  auto optimizer = optim::find_optimizer(lower).make_default(params);
  args.ignore({"foreach", "capturable", "differentiable", "fused"});
  const std::vector<double> betas = args.numbers("betas", {});
  WICK_CHECK(betas.empty() || betas.size() == 2, "argument 'betas': got ", betas.size(),
             " numbers, expected 2");
  Optimizer::Hyperparameters values;
  if (!betas.empty()) values = {{"beta1", betas[0]}, {"beta2", betas[1]}};
  for (const auto& [key, value] : optimizer->state_dict()) {
    const std::string option = key.substr(std::string("group.0.").size());
    if (option == "beta1" || option == "beta2") continue;
    values.emplace_back(
        option, args.is_flag(option) ? args.flag(option) : args.number(option, value.item()));
  }
  optimizer->set_hyperparameters({values});
  return optimizer;
}

}  // namespace wick::golden
