#include "wick/optim/optim.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "wick/core/ops/index.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/sort.h"
#include "wick/core/sparse_rows.h"
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

// The rows of a matrix that are not zeros, as the gradient of an embedding has them.
Tensor sparse(const Tensor& dense) {
  const Tensor rows = nonzero(any(dense, {1})).flatten();
  return sparse_tensor(rows, index_select(dense, 0, rows), dense.shape());
}

// Gradients of step `step`. A parameter without one has none in the file.
void set_gradients(const Case& golden_case, int64_t step, const std::vector<Tensor>& params) {
  for (size_t i = 0; i < params.size(); ++i) {
    const auto found = golden_case.tensors.find(concat("g", step, "_", i));
    if (found == golden_case.tensors.end()) {
      params[i].set_grad({});
      continue;
    }
    const Tensor grad = found->second.to(golden_case.device).clone();
    params[i].set_grad(golden_case.json->value("sparse", false) ? sparse(grad) : grad);
  }
}

void run_steps(const Case& golden_case) {
  const std::vector<Tensor> params = load(golden_case, "p");
  for (const Tensor& param : params) param.set_requires_grad();
  Args args = golden_case.args();
  const auto optimizer = make_optimizer(golden_case.op, params, args);
  try {
    args.finish();
  } catch (const Error& unknown) {
    throw Missing(unknown.what());
  }
  for (int64_t step = 0; step < golden_case.integer("steps"); ++step) {
    set_gradients(golden_case, step, params);
    try {
      optimizer->step();
    } catch (const Error& error) {
      throw Missing(concat("refused: ", error.what()));
    }
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

namespace {

std::unique_ptr<Optimizer> default_optimizer(const std::string& name, std::vector<Tensor> params,
                                             Args& args) {
  if (name == "SparseAdam") return std::make_unique<optim::SparseAdam>(std::move(params));
  std::string lower = name;
  for (char& c : lower) c = static_cast<char>(std::tolower(c));
  if (name == "Adam" && args.flag("decoupled_weight_decay", false)) lower = "adamw";
  const std::vector<std::string> known = optim::optimizer_names();
  if (std::find(known.begin(), known.end(), lower) == known.end()) {
    throw Missing("no such optimizer");
  }
  return optim::find_optimizer(lower).make_default(params);
}

// The numbers of a tuple of PyTorch's, which are options of their own here.
void add_tuple(Args& args, const std::string& tuple, const std::vector<const char*>& names,
               Optimizer::Hyperparameters& values) {
  const std::vector<double> numbers = args.numbers(tuple, {});
  if (numbers.empty()) return;
  WICK_CHECK(numbers.size() == names.size(), "argument '", tuple, "': got ", numbers.size(),
             " numbers, expected ", names.size());
  for (size_t i = 0; i < names.size(); ++i) values.emplace_back(names[i], numbers[i]);
}

double adjust_lr_of(Args& args) {
  const std::string name = args.text("adjust_lr_fn");
  if (name == "original") return static_cast<double>(optim::AdjustLr::kOriginal);
  if (name == "match_rms_adamw") return static_cast<double>(optim::AdjustLr::kMatchRmsAdamw);
  if (name == "spectral_unclamped") {
    return static_cast<double>(optim::AdjustLr::kSpectralUnclamped);
  }
  throw Missing("argument 'adjust_lr_fn': got " + name);
}

}  // namespace

// PyTorch's classes have the names of ours, and their arguments, but for tuples, those of ours.
std::unique_ptr<Optimizer> make_optimizer(const std::string& name, std::vector<Tensor> params,
                                          Args& args) {
  auto optimizer = default_optimizer(name, std::move(params), args);
  args.ignore({"foreach", "capturable", "differentiable", "fused"});
  Optimizer::Hyperparameters values;
  add_tuple(args, "betas", {"beta1", "beta2"}, values);
  add_tuple(args, "ns_coefficients", {"ns_a", "ns_b", "ns_c"}, values);
  if (args.has("adjust_lr_fn")) values.emplace_back("adjust_lr_fn", adjust_lr_of(args));
  for (const auto& [key, value] : optimizer->state_dict()) {
    const std::string option = key.substr(std::string("group.0.").size());
    const bool known = std::any_of(values.begin(), values.end(),
                                   [&](const auto& entry) { return entry.first == option; });
    if (known || option == "adjust_lr_fn") continue;
    values.emplace_back(
        option, args.is_flag(option) ? args.flag(option) : args.number(option, value.item()));
  }
  optimizer->set_hyperparameters({values});
  return optimizer;
}

}  // namespace wick::golden
