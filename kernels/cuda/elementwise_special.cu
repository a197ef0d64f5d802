#include "wick/kernels/elementwise_ops_special.h"

#include "wick/kernels/cuda/common/real_special.h"
#include "wick/kernels/cuda/elementwise_loop.h"
#include "wick/kernels/elementwise_ops_shrink.h"

namespace wick::cuda {

WICK_SPECIAL_DIFFERENTIABLE(WICK_INSTANTIATE_DIFFERENTIABLE)
WICK_SPECIAL_PLAIN(WICK_INSTANTIATE)
WICK_SHRINK_DIFFERENTIABLE(WICK_INSTANTIATE_DIFFERENTIABLE)

}  // namespace wick::cuda
