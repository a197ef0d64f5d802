#include "wick/kernels/elementwise_ops_arithmetic.h"

#include "wick/kernels/cpu/elementwise_loop.h"

namespace wick::WICK_ISA {

WICK_INSTANTIATE(fn::Add);
WICK_INSTANTIATE(fn::Mul);
WICK_INSTANTIATE(fn::Div);
WICK_INSTANTIATE(fn::Pow);
WICK_INSTANTIATE(fn::Maximum);
WICK_INSTANTIATE(fn::Minimum);
WICK_INSTANTIATE_DIFFERENTIABLE(fn::AddScalar);
WICK_INSTANTIATE_DIFFERENTIABLE(fn::MulScalar);
WICK_INSTANTIATE_DIFFERENTIABLE(fn::DivScalar);
WICK_INSTANTIATE_DIFFERENTIABLE(fn::SubFromScalar);
WICK_INSTANTIATE_DIFFERENTIABLE(fn::DivScalarBy);
WICK_INSTANTIATE_DIFFERENTIABLE(fn::PowScalar);

}  // namespace wick::WICK_ISA
