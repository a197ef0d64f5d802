#pragma once

#include "wick/core/tensor.h"

namespace wick {

/// `index` as contiguous int64; an error of `op` for other types, and on the CPU for an entry
/// outside [low, high). On a GPU the kernels check it.
Tensor checked_index(const char* op, const Tensor& index, int64_t low, int64_t high);

}  // namespace wick
