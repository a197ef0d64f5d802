#include "wick/kernels/elementwise_ops_compare.h"

#include "wick/kernels/cpu/elementwise_loop.h"

namespace wick::WICK_ISA {

WICK_INSTANTIATE(fn::Eq);
WICK_INSTANTIATE(fn::Ne);
WICK_INSTANTIATE(fn::Lt);
WICK_INSTANTIATE(fn::Le);
WICK_INSTANTIATE(fn::Gt);
WICK_INSTANTIATE(fn::Ge);
WICK_INSTANTIATE(fn::LogicalAnd);
WICK_INSTANTIATE(fn::LogicalOr);
WICK_INSTANTIATE(fn::LogicalXor);
WICK_INSTANTIATE(fn::LogicalNot);
WICK_INSTANTIATE(fn::IsNan);
WICK_INSTANTIATE(fn::IsFinite);
WICK_INSTANTIATE(fn::IsInf);
WICK_INSTANTIATE(fn::BitwiseAnd);
WICK_INSTANTIATE(fn::BitwiseOr);
WICK_INSTANTIATE(fn::BitwiseXor);
WICK_INSTANTIATE(fn::Where);
WICK_INSTANTIATE(fn::MaskedFill);
WICK_INSTANTIATE(fn::WithConstant<fn::Eq>);
WICK_INSTANTIATE(fn::WithConstant<fn::Ne>);
WICK_INSTANTIATE(fn::WithConstant<fn::Lt>);
WICK_INSTANTIATE(fn::WithConstant<fn::Le>);
WICK_INSTANTIATE(fn::WithConstant<fn::Gt>);
WICK_INSTANTIATE(fn::WithConstant<fn::Ge>);

}  // namespace wick::WICK_ISA
