#pragma once

#include "wick/optim/optimizer.h"
#include "wick/tests/golden/golden.h"

namespace wick::golden {

/// The optimizer that PyTorch calls `name`, with PyTorch's arguments. The caller calls
/// args.finish().
std::unique_ptr<optim::Optimizer> make_optimizer(const std::string& name,
                                                 std::vector<Tensor> params, Args& args);

}  // namespace wick::golden
