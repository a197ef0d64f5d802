#pragma once

#include <string>
#include <vector>

#include "wick/core/tensor.h"

namespace wick::testing {

/// Names of the ops in the graph behind `outputs`.
std::vector<std::string> graph_ops(const std::vector<Tensor>& outputs);

}  // namespace wick::testing
