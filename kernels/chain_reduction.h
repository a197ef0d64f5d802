#pragma once

#include "wick/kernels/elementwise_chain.h"
#include "wick/kernels/reduce.h"

namespace wick {

/// y = `factor` times the reduction of the chain's result, with the bits of reduce(). Nothing else
/// is written. `views`: the result's, which has no data, then those that are read; it is floating.
namespace cpu_avx2 {
void reduce_chain(const ElementwiseChain& chain, const View* views, Reduction kind, const View& y,
                  double factor);
}
namespace cpu_avx512 {
void reduce_chain(const ElementwiseChain& chain, const View* views, Reduction kind, const View& y,
                  double factor);
}

}  // namespace wick
