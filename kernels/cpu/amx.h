#pragma once

#include "wick/core/base/workspace.h"
#include "wick/kernels/conv.h"
#include "wick/kernels/cpu/product.h"
#include "wick/kernels/fused_attention.h"

// Kernels on matrix units (AMX): bfloat16 numbers, summed in float32.
//
// Convolutions of channels-last images. The images are numbered so that each tap of the kernel is
// one distance, wherever it is applied, and tiles of 16 pixels by 16 channels need no patches.
// Channels are multiples of 32, in one group; kernels have at most kMostTaps elements; every
// stride, padding and dilation. The result is the same for any number of threads.
//
// The first layer has few channels: kernel columns times channels, of these an even number, are at
// most kMostLine there. It has no gradient of the images, no dilation of columns, and the rest as
// the others.
namespace wick::cpu_avx512 {

inline constexpr int64_t kMostLine = 32;
inline constexpr int64_t kMostTaps = 49;

void amx_forward(const View& x, const View& weight, const View& bias, const View& y,
                 const Conv2dParams& params, Workspace& workspace);
void amx_first_layer(const View& x, const View& weight, const View& bias, const View& y,
                     const Conv2dParams& params, Workspace& workspace);
void amx_first_backward_weights(const View& x, const View& dy, const View& dweight,
                                const Conv2dParams& params, Workspace& workspace);
void amx_backward_data(const View& dy, const View& weight, const View& dx,
                       const Conv2dParams& params, Workspace& workspace);
void amx_backward_weights(const View& x, const View& dy, const View& dweight,
                          const Conv2dParams& params, Workspace& workspace);

/// fused_attention() of numbers of bfloat16, also by dot products of pairs.
void bfloat16_attention(const FusedAttention& a, cpu::BFloat16Unit unit, Workspace& workspace);
/// Its gradients. False, and nothing is written, where those of o are no numbers of bfloat16.
bool bfloat16_attention_backward(const FusedAttention& a, const FusedAttentionGradients& gradients,
                                 cpu::BFloat16Unit unit, Workspace& workspace);

}  // namespace wick::cpu_avx512
