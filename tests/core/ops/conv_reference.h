#pragma once

#include "wick/tests/harness/host_array.h"

namespace wick::testing {

/// The arguments of a convolution, per axis of the image.
struct ConvSetting {
  Shape stride{1, 1}, padding{0, 0}, dilation{1, 1};
  int64_t groups = 1;
};

/// conv2d by plain loops. x: [N, C, H, W], weight: [K, C / groups, R, S], bias: [K] or null.
HostArray conv2d_reference(const HostArray& x, const HostArray& weight, const HostArray* bias,
                           const ConvSetting& setting);

/// Its gradients with respect to x and weight for the incoming gradient dy.
struct ConvGradients {
  HostArray dx, dweight;
};
ConvGradients conv2d_gradient_reference(const HostArray& x, const HostArray& weight,
                                        const HostArray& dy, const ConvSetting& setting);

/// conv_transpose2d by plain loops: every element of x adds a copy of the kernel to the result.
HostArray conv_transpose2d_reference(const HostArray& x, const HostArray& weight,
                                     const HostArray* bias, const ConvSetting& setting,
                                     const Shape& output_padding);

}  // namespace wick::testing
