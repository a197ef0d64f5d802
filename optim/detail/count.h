#pragma once

#include <cstdint>
#include <string_view>

#include "wick/core/tensor.h"

namespace wick::optim {

/// A count that a state holds as `name`. Error unless `value` is a whole number, 0 or more and
/// below 2^53, which a double has exactly.
int64_t count_in(std::string_view who, std::string_view name, const Tensor& value);

}  // namespace wick::optim
