#include "wick/kernels/elementwise_ops_activation.h"

#include "wick/kernels/cpu/elementwise_loop.h"

namespace wick::WICK_ISA {

WICK_ACTIVATION_DIFFERENTIABLE(WICK_INSTANTIATE_DIFFERENTIABLE)

}  // namespace wick::WICK_ISA
