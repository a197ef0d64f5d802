#pragma once

#include <vector>

#include "wick/kernels/optim_rule.h"

namespace wick::optim {

/// What all rules are told, of options that have these names.
template <class Options>
OptimArgs common_args(const Options& options) {
  OptimArgs args{options.lr, options.weight_decay, options.maximize};
  if constexpr (requires { options.decoupled_weight_decay; }) {
    args.decoupled = options.decoupled_weight_decay;
  }
  return args;
}

/// Updates the tensors by the rule of `args`, where they are.
template <class Args>
void run_rule(const std::vector<OptimTensor>& tensors, const Args& args, const OptimStep& step) {
  WICK_DISPATCH(tensors[0].param.device,
                optim_step(tensors.data(), static_cast<int64_t>(tensors.size()), args, step));
}

}  // namespace wick::optim
