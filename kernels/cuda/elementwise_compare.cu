#include "wick/kernels/elementwise_ops_compare.h"

#include "wick/kernels/cuda/elementwise_loop.h"

namespace wick::cuda {

WICK_COMPARE_PLAIN(WICK_INSTANTIATE)

}  // namespace wick::cuda
