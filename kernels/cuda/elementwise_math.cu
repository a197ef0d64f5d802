#include "wick/kernels/elementwise_ops_math.h"

#include "wick/kernels/cuda/elementwise_loop.h"

namespace wick::cuda {

WICK_MATH_DIFFERENTIABLE(WICK_INSTANTIATE_DIFFERENTIABLE)

}  // namespace wick::cuda
