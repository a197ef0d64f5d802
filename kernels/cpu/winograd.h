#pragma once

#include "wick/core/base/workspace.h"
#include "wick/kernels/conv.h"

// Winograd's convolution F(4x4, 3x3) with stride 1 and padding 0 to 2, on channels-last images of
// float32, or of bfloat16 but computed in float32: tiles of 6x6 elements are transformed, then
// multiplied in the transformed space with 36 multiplications where 144 were, and transformed back
// to 4x4 elements of the result. (Products in bfloat16 would lose a digit.)
// Lavin, Gray: Fast algorithms for convolutional neural networks (CVPR 2016).

// x, dx: [N, C, H, W], weight, dweight: [K, C, 3, 3], y, dy: [N, K, P, Q]. C and K are multiples of
// 16. The result is the same for any number of threads. A packed weight is a transformed one, of as
// many bytes as winograd_packed_bytes() says. bfloat16 has no residual and no ReLU.
#define WICK_WINOGRAD_KERNELS                                                                \
  void winograd_packed_bytes(const Shape& weight, int64_t* bytes);                           \
  void winograd_pack(const View& weight, void* packed);                                      \
  void winograd_forward(const View& x, const View& weight, const void* packed,               \
                        const ConvEpilogue& epilogue, const View& y, const int64_t* padding, \
                        Workspace& workspace);                                               \
  void winograd_backward_data(const View& dy, const View& weight, const View& dx,            \
                              const int64_t* padding, Workspace& workspace);                 \
  void winograd_backward_weights(const View& x, const View& dy, const View& dweight,         \
                                 const int64_t* padding, Workspace& workspace);

namespace wick::cpu_avx2 {
WICK_WINOGRAD_KERNELS
}
namespace wick::cpu_avx512 {
WICK_WINOGRAD_KERNELS
}
