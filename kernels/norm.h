#pragma once

#include "wick/core/base/workspace.h"
#include "wick/kernels/channel_norm_rules.h"
#include "wick/kernels/declare.h"

// Normalisations. Statistics are held in float64; weights, biases and their gradients in the
// accumulator's type of x. Views that are absent are undefined. x, residual, y and their gradients
// are dense, of one dtype and with the same strides: row-major and channels-last are one case.
namespace wick {

/// Pieces into which `rows` rows of `columns` elements are cut: per piece there is one line of
/// scratch.
WICK_INLINE int64_t norm_chunks(int64_t rows, int64_t columns) {
  const int64_t chunks = rows * columns / 32768;
  const int64_t most = rows < 64 ? rows : 64;
  return chunks < 1 ? 1 : (chunks < most ? chunks : most);
}

/// Bytes that keep, for `count` neighbouring elements, which of them a ReLU let pass. Each device
/// has its own order of the bits.
WICK_INLINE int64_t relu_mask_bytes(Dtype dtype, int64_t count) {
  return 2 * ((count + 15) / 16) * (dtype == Dtype::kFloat64 ? 2 : 1);
}

/// What batch and group norm work on; axis 1 of x are the channels, C of them. Batch norm has no
/// groups, group norm of N images G > 0; rows and groups are those of channel_layout().
struct ChannelNorm {
  View x, residual, weight, bias;  // weight, bias: [C]
  View running_mean, running_var;  // [C], floating, any stride; batch norm
  View y, mask;                    // mask: uint8 [rows, relu_mask_bytes(row)], may be absent
  View mean, invstd;               // float64, one per group: [C] or [N, G]
  View dy, dx, dresidual;          // backward
  View dweight, dbias;             // [C]
  Workspace* workspace = nullptr;
  int64_t groups = 0;
  double momentum = 0, eps = 0;
  bool training = true, relu = false;
  bool has_statistics = false;  // forward: mean and invstd hold their values already
};

/// y = (x - mean) * invstd * weight + bias, plus residual, then ReLU. Training: mean and invstd are
/// computed, running_mean and running_var updated where defined. Else they are taken from the
/// latter. With has_statistics neither happens.
WICK_KERNEL(channel_norm_forward, (const ChannelNorm& n));
/// dx, and dresidual, dweight and dbias where defined, from dy, x, weight, mean, invstd and mask.
WICK_KERNEL(channel_norm_backward, (const ChannelNorm& n));
/// y = 1 where the ReLU let pass, else 0; y as the x of the forward.
WICK_KERNEL(relu_mask, (const View& mask, const View& y));

/// What layer and RMS norm work on: rows of `size` neighbours, [rows, size].
struct RowNorm {
  View x = {}, residual = {}, weight = {}, bias = {};  // weight, bias: [size]
  View y = {}, sum = {};             // sum: x + residual, where there is a residual
  View mean = {}, invstd = {};       // float64 [rows]; RMS norm where mean is undefined
  View dy = {}, dsum = {}, dx = {};  // backward, where x is what was normalised; dx includes dsum
  View dweight = {}, dbias = {};     // [size]
  Workspace* workspace = nullptr;    // backward
  double eps = 0;
};

/// y = (x - mean) * invstd * weight + bias, with the sum in the place of x if there is a residual.
WICK_KERNEL(layer_norm_forward, (const RowNorm& n));
/// dx, dweight and dbias, those that are defined.
WICK_KERNEL(layer_norm_backward, (const RowNorm& n));

}  // namespace wick
