#pragma once

#include <string_view>

#include "wick/core/autograd.h"

// What the engine refuses, shared by its parts.
namespace wick {

/// Error unless `gradient` can be that of `tensor`: same shape, dtype and device.
void check_gradient(std::string_view source, const Tensor& gradient, const TensorMeta& tensor);

/// Error if `tensor` is a view whose memory was changed in place, by a change that was recorded,
/// after it was made: the change is missing from the graph behind it.
void check_history(std::string_view op, const Tensor& tensor);

}  // namespace wick
