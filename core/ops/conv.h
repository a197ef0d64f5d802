#pragma once

#include "wick/core/tensor.h"

namespace wick {

// Cross-correlation, as PyTorch's convolutions. Where an argument has an entry per axis of the
// image, one entry counts for both. Sums are held in float (float64: double). Results are laid out
// channels-last; images and weights that are not are copied first. See wick/core/plans.h for
// how the algorithm is chosen.

/// As much padding as keeps the size, which takes a stride of 1, or none. Where it cannot be the
/// same on both sides there is one more behind.
enum class ConvPadding : uint8_t { kValid, kSame };

/// x: [N, C, H, W], weight: [K, C / groups, R, S], bias: [K] or undefined. Returns [N, K, P, Q]
/// with P = (H + 2 padding - dilation (R - 1) - 1) / stride + 1, rounded down. Without N in x there
/// is none in the result. Floating dtypes, all equal. Error where the shapes do not fit.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Shape& stride = {1, 1}, const Shape& padding = {0, 0},
              const Shape& dilation = {1, 1}, int64_t groups = 1);
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Shape& stride,
              ConvPadding padding, const Shape& dilation = {1, 1}, int64_t groups = 1);

/// The same along one axis. x: [N, C, L] or [C, L], weight: [K, C / groups, R], bias: [K] or
/// undefined; returns [N, K, P] or [K, P].
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, int64_t stride = 1,
              int64_t padding = 0, int64_t dilation = 1, int64_t groups = 1);
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t stride,
              ConvPadding padding, int64_t dilation = 1, int64_t groups = 1);

/// The same along three axes. x: [N, C, D, H, W] or [C, D, H, W], weight: [K, C / groups, T, R, S],
/// bias: [K] or undefined; returns [N, K, O, P, Q] or [K, O, P, Q]. Computed as conv2d of planes
/// with the channels of T planes, which are copied for it: T times the memory of x, for a moment.
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Shape& stride = 1, const Shape& padding = 0, const Shape& dilation = 1,
              int64_t groups = 1);
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Shape& stride,
              ConvPadding padding, const Shape& dilation = 1, int64_t groups = 1);

/// The gradient of conv2d with respect to its input, as a layer of its own. x: [N, C, H, W],
/// weight: [C, K / groups, R, S], bias: [K] or undefined. Returns [N, K, P, Q] with P = (H - 1)
/// stride - 2 padding + dilation (R - 1) + output_padding + 1. Without N in x there is none in the
/// result. `output_padding` must be less than the stride or less than the dilation.
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const Shape& stride = {1, 1}, const Shape& padding = {0, 0},
                        const Shape& output_padding = {0, 0}, int64_t groups = 1,
                        const Shape& dilation = {1, 1});

/// The same along one axis. x: [N, C, L] or [C, L], weight: [C, K / groups, R].
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        int64_t stride = 1, int64_t padding = 0, int64_t output_padding = 0,
                        int64_t groups = 1, int64_t dilation = 1);

/// The same along three axes. x: [N, C, D, H, W] or [C, D, H, W], weight: [C, K / groups, T, R, S].
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const Shape& stride = 1, const Shape& padding = 0,
                        const Shape& output_padding = 0, int64_t groups = 1,
                        const Shape& dilation = 1);

}  // namespace wick
