#pragma once

#include "wick/core/base/workspace.h"
#include "wick/kernels/conv.h"

// Convolutions of channels-last images as matrix products, whose left operand is gathered from the
// image while it is packed: float32, float64 and, with AVX-512's dot product of pairs, bfloat16.
// Every stride, padding, dilation and number of groups. Each result is summed in one order, which
// depends on the sizes alone: in float32 and float64 the bits are the same for any number of
// threads and on every instruction set. Private to this folder and to products/.
#define WICK_DIRECT_CONVOLUTION(isa)                                                             \
  namespace wick::isa {                                                                          \
  /* float32 and float64 alone have a residual and ReLU. */                                      \
  void direct_forward(const View& x, const View& weight, const void* packed,                     \
                      const ConvEpilogue& epilogue, const View& y, const Conv2dParams& params,   \
                      Workspace& workspace);                                                     \
  /* A weight in panels for float32's forward pass; views of x and y need no data. */            \
  void direct_packed_bytes(const View& x, const View& weight, const View& y,                     \
                           const Conv2dParams& params, int64_t* bytes);                          \
  void direct_pack(const View& x, const View& weight, const View& y, const Conv2dParams& params, \
                   void* packed);                                                                \
  void direct_backward_data(const View& dy, const View& weight, const View& dx,                  \
                            const Conv2dParams& params, Workspace& workspace);                   \
  void direct_backward_weights(const View& x, const View& dy, const View& dweight,               \
                               const Conv2dParams& params, Workspace& workspace);                \
  /* Of one channel in and out per group. */                                                     \
  void depthwise_forward(const View& x, const View& weight, const View& bias, const View& y,     \
                         const Conv2dParams& params, Workspace& workspace);                      \
  void depthwise_backward_data(const View& dy, const View& weight, const View& dx,               \
                               const Conv2dParams& params, Workspace& workspace);                \
  void depthwise_backward_weights(const View& x, const View& dy, const View& dweight,            \
                                  const Conv2dParams& params, Workspace& workspace);             \
  }
WICK_DIRECT_CONVOLUTION(cpu_avx2)
WICK_DIRECT_CONVOLUTION(cpu_avx512)
#undef WICK_DIRECT_CONVOLUTION
