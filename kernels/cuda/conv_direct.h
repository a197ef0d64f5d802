#pragma once

#include "wick/kernels/conv.h"

// Convolution by own kernels, for what the vendor's library lacks: one thread per element, channels
// side by side, nothing shared between threads. Meant for few channels per group.
namespace wick::cuda {

void direct_forward(const View& x, const View& weight, const View& bias, const View& y,
                    const Conv2dParams& params);
void direct_backward_data(const View& dy, const View& weight, const View& dx,
                          const Conv2dParams& params);
void direct_backward_weights(const View& x, const View& dy, const View& dweight,
                             const Conv2dParams& params, Workspace& workspace);

}  // namespace wick::cuda
