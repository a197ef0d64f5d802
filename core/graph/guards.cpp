#include <algorithm>

#include "wick/core/graph/detail/guards.h"
#include "wick/core/sparse_rows.h"

namespace wick::graph {

bool Guards::hold() const {
  const auto is_flag_set = [](const Flag& flag) {
    return flag.tensor.requires_grad() == flag.requires_grad;
  };
  const auto is_gradient = [](const Gradient& read) {
    const Tensor gradient = read.leaf.grad();
    return gradient.defined() == read.is_defined &&
           (!read.same.defined() || gradient.is_same(read.same));
  };
  return std::all_of(flags.begin(), flags.end(), is_flag_set) &&
         std::all_of(gradients.begin(), gradients.end(), is_gradient);
}

Tensor current(const Constant& constant) {
  return constant.gradient_of.defined() ? constant.gradient_of.grad() : constant.tensor;
}

bool is_like(const Tensor& constant, const Value& value) {
  return constant.defined() && !constant.is_sparse() && constant.dtype() == value.dtype &&
         constant.device() == value.device && constant.shape() == value.shape &&
         constant.strides() == value.strides;
}

void drop_gradients(const std::vector<Tensor>& leaves) {
  for (const Tensor& leaf : leaves) zero_gradient(leaf, /*set_to_none=*/true);
}

}  // namespace wick::graph
