#include "wick/optim/adadelta.h"

#include "wick/kernels/optim/adadelta.h"
#include "wick/optim/detail/offer.h"
#include "wick/optim/detail/run_rule.h"

namespace wick::optim {

bool AdadeltaOptions::check_value(std::string_view name, double value) {
  if (name != "rho") return false;
  WICK_CHECK(value >= 0 && value <= 1, "adadelta: rho: got ", value,
             ", expected a value in [0, 1]");
  return true;
}

Adadelta::Adadelta(std::vector<Tensor> params, const AdadeltaOptions& options)
    : Adadelta(std::vector<ParamGroup<AdadeltaOptions>>{{std::move(params), options}}) {}

Adadelta::Adadelta(std::vector<ParamGroup<AdadeltaOptions>> groups)
    : OptimizerOf("adadelta", std::move(groups), {"square_avg", "acc_delta"}) {}

void Adadelta::update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) {
  const AdadeltaOptions& o = options(group);
  run_rule(tensors, rules::adadelta::Args{common_args(o), o.rho, o.eps}, step);
}

[[maybe_unused]] static const bool adadelta_offered =
    offer<Adadelta>("adadelta", 1, 0, {.decoupled_weight_decay = true});

}  // namespace wick::optim
