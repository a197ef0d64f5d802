#include "wick/kernels/elementwise_ops_arithmetic.h"

#include "wick/kernels/cuda/elementwise_loop.h"

namespace wick::cuda {

WICK_ARITHMETIC_PLAIN(WICK_INSTANTIATE)
WICK_ARITHMETIC_DIFFERENTIABLE(WICK_INSTANTIATE_DIFFERENTIABLE)

}  // namespace wick::cuda
