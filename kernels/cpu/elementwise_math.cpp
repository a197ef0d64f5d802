#include "wick/kernels/elementwise_ops_math.h"

#include "wick/kernels/cpu/elementwise_loop.h"

namespace wick::WICK_ISA {

WICK_MATH_DIFFERENTIABLE(WICK_INSTANTIATE_DIFFERENTIABLE)

}  // namespace wick::WICK_ISA
