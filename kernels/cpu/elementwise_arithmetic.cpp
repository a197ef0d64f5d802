#include "wick/kernels/elementwise_ops_arithmetic.h"

#include "wick/kernels/cpu/elementwise_loop.h"

namespace wick::WICK_ISA {

WICK_LINK(fn::Identity)
WICK_LINK(fn::Add)
WICK_LINK(fn::Mul)
WICK_LINK(fn::Div)
WICK_LINK(fn::Maximum)
WICK_LINK(fn::Minimum)
WICK_LINK_DIFFERENTIABLE(fn::AddScalar)
WICK_LINK_DIFFERENTIABLE(fn::MulScalar)
WICK_LINK_DIFFERENTIABLE(fn::DivScalar)
WICK_LINK_DIFFERENTIABLE(fn::SubFromScalar)
WICK_LINK_DIFFERENTIABLE(fn::DivScalarBy)

WICK_ARITHMETIC_PLAIN(WICK_INSTANTIATE)
WICK_ARITHMETIC_DIFFERENTIABLE(WICK_INSTANTIATE_DIFFERENTIABLE)

}  // namespace wick::WICK_ISA
