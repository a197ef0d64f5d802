#include "wick/kernels/elementwise_ops_activation.h"

#include "wick/kernels/cuda/elementwise_loop.h"

namespace wick::cuda {

WICK_ACTIVATION_DIFFERENTIABLE(WICK_INSTANTIATE_DIFFERENTIABLE)

}  // namespace wick::cuda
