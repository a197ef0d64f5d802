#include "wick/kernels/elementwise_ops_compare.h"

#include "wick/kernels/cpu/elementwise_loop.h"

namespace wick::WICK_ISA {

WICK_LINK(fn::Where)
WICK_LINK(fn::MaskedFill)

WICK_COMPARE_PLAIN(WICK_INSTANTIATE)

}  // namespace wick::WICK_ISA
