#pragma once

#include "wick/core/base/workspace.h"
#include "wick/kernels/declare.h"

namespace wick {

inline constexpr uintptr_t kAttentionAlignment = 16;  // bytes

/// softmax(q · kᵀ · scale) · v for each of B batches and H heads. q: [B, H, L, E], k: [B, H, S, E],
/// v: [B, H, S, F], whose last axes' elements are neighbours, o: [B, H, L, F], contiguous; float16
/// or bfloat16. All begin at multiples of kAttentionAlignment.
struct Attention {
  View q, k, v, o;
  View stats;  // [B, H, L, 1], float32, contiguous: log of the sum of a row's exponentials
  float scale = 1;
};

/// Of an Attention that was computed, from that of o, which is contiguous; all are.
struct AttentionGradients {
  View d_o, dq, dk, dv;
};

// No device but a GPU has it, and there the vendor's library: elsewhere attention is composed of
// products and a softmax.
namespace cuda {

/// Whether the library computes it, and its gradients. Needs shapes, strides and dtype alone.
bool has_attention(Device device, const Attention& attention);
/// Writes o and stats.
void attention_forward(const Attention& attention, Workspace& workspace);
/// Writes dq, dk and dv.
void attention_backward(const Attention& attention, const AttentionGradients& gradients,
                        Workspace& workspace);

}  // namespace cuda

}  // namespace wick
