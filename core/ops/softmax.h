#pragma once

#include "wick/core/tensor.h"

namespace wick {

/// exp(x) / sum(exp(x)) over `axis`. x: any shape, floating; returns x's shape and dtype,
/// accumulated in float. Error if `axis` is out of range.
Tensor softmax(const Tensor& x, int64_t axis);

/// softmax(-x, axis)
Tensor softmin(const Tensor& x, int64_t axis);
/// log(softmax(x, axis)), exact also where the softmax underflows.
Tensor log_softmax(const Tensor& x, int64_t axis);

}  // namespace wick
