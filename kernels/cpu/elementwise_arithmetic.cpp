#include "wick/kernels/elementwise_ops_arithmetic.h"

#include "wick/kernels/cpu/elementwise_loop.h"

namespace wick::WICK_ISA {

WICK_ARITHMETIC_PLAIN(WICK_INSTANTIATE)
WICK_ARITHMETIC_DIFFERENTIABLE(WICK_INSTANTIATE_DIFFERENTIABLE)

}  // namespace wick::WICK_ISA
