#include "wick/core/ops/linear_cross_entropy.h"

#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/matmul.h"

namespace wick {

Tensor linear_cross_entropy(const Tensor& x, const Tensor& linear_weight, const Tensor& target,
                            const Tensor& linear_bias, const CrossEntropyOptions& options) {
  check_defined("linear_cross_entropy", x, linear_weight, target);
  CrossEntropyOptions own = options;
  own.in_place = !is_floating(target.dtype("linear_cross_entropy"));
  return cross_entropy(linear(x, linear_weight, linear_bias), target, own);
}

}  // namespace wick
