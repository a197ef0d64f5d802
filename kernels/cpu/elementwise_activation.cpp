#include "wick/kernels/elementwise_ops_activation.h"

#include "wick/kernels/cpu/elementwise_loop.h"

namespace wick::WICK_ISA {

WICK_LINK_DIFFERENTIABLE(fn::Relu)
WICK_LINK_DIFFERENTIABLE(fn::Relu6)
WICK_LINK_DIFFERENTIABLE(fn::Hardswish)
WICK_LINK_DIFFERENTIABLE(fn::Hardsigmoid)
WICK_LINK_DIFFERENTIABLE(fn::LeakyRelu)
WICK_LINK_DIFFERENTIABLE(fn::Clamp)

WICK_ACTIVATION_DIFFERENTIABLE(WICK_INSTANTIATE_DIFFERENTIABLE)

}  // namespace wick::WICK_ISA
