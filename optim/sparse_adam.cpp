#include "wick/optim/sparse_adam.h"

#include "wick/kernels/optim/sparse_adam.h"
#include "wick/optim/detail/run_rule.h"

namespace wick::optim {

SparseAdam::SparseAdam(std::vector<Tensor> params, const SparseAdamOptions& options)
    : SparseAdam(std::vector<ParamGroup<SparseAdamOptions>>{{std::move(params), options}}) {}

SparseAdam::SparseAdam(std::vector<ParamGroup<SparseAdamOptions>> groups)
    : OptimizerOf("sparse_adam", std::move(groups), {"exp_avg", "exp_avg_sq"}) {}

void SparseAdam::check_gradient(int, const Tensor& gradient) const {
  WICK_CHECK(gradient.is_sparse(), "sparse_adam: a gradient is dense: got that of a parameter of ",
             "shape ", gradient.shape(),
             ", expected one of an embedding with sparse = true: use Adam for the others");
}

void SparseAdam::update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) {
  const SparseAdamOptions& o = options(group);
  run_rule(tensors, rules::sparse_adam::Args{{o.lr, 0, o.maximize}, o.beta1, o.beta2, o.eps}, step);
}

}  // namespace wick::optim
