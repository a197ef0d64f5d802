#include "wick/core/ops/linear_cross_entropy.h"

#include "wick/core/ops/matmul.h"

namespace wick {

Tensor linear_cross_entropy(const Tensor& x, const Tensor& linear_weight, const Tensor& target,
                            const Tensor& linear_bias, const CrossEntropyOptions& options) {
  CrossEntropyOptions own = options;
  own.in_place = !is_floating(target.dtype("linear_cross_entropy"));
  return cross_entropy(linear(x, linear_weight, linear_bias), target, own);
}

}  // namespace wick
