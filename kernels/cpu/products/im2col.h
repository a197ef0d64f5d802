#pragma once

// Convolution by matrix multiplication. Private to this folder.

#include "wick/kernels/conv.h"

namespace wick::cpu {

void im2col_forward(const View& x, const View& weight, const ConvEpilogue& epilogue, const View& y,
                    const Conv2dParams& params, Workspace& workspace);
void im2col_backward_data(const View& dy, const View& weight, const View& dx,
                          const Conv2dParams& params, Workspace& workspace);
void im2col_backward_weights(const View& x, const View& dy, const View& dweight,
                             const Conv2dParams& params, Workspace& workspace);

}  // namespace wick::cpu
