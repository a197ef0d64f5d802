#pragma once

#include "wick/dist/process_group.h"

namespace wick::dist {

/// The sum of `x` over the ranks, as a new tensor: any shape, floating. Its gradient is the sum of
/// the ranks' gradients, so all ranks must differentiate it as well.
Tensor all_reduce_sum(const Tensor& x, const std::shared_ptr<ProcessGroup>& group);

}  // namespace wick::dist
