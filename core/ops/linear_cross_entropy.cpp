#include "wick/core/ops/linear_cross_entropy.h"

#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/detail/wide.h"
#include "wick/core/ops/matmul.h"

namespace wick {

Tensor linear_cross_entropy(const Tensor& x, const Tensor& linear_weight, const Tensor& target,
                            const Tensor& linear_bias, const CrossEntropyOptions& options) {
  const char* op = "linear_cross_entropy";
  check_defined(op, x, linear_weight, target);
  CrossEntropyOptions own = options;
  own.in_place = !is_floating(target.dtype());
  const auto loss = [&](const std::vector<Tensor>& in) {
    return cross_entropy(linear(in[0], in[1], in[2]), in[3], own);
  };
  const std::vector<Tensor> inputs{x, linear_weight, linear_bias, target};
  const Dtype dtype = x.dtype();
  if (amp::is_on(x.device())) return loss(inputs);  // the layer and the loss choose their dtypes
  const auto check_dtype = [&](const Tensor& parameter) {
    WICK_CHECK(parameter.dtype() == dtype, op, ": dtypes differ: got ", to_string(dtype), " and ",
               to_string(parameter.dtype()));
  };
  check_dtype(linear_weight);
  if (linear_bias.defined()) check_dtype(linear_bias);
  return computed_wide(inputs, loss);
}

}  // namespace wick
