#pragma once

#include "wick/core/base/workspace.h"
#include "wick/kernels/random.h"

namespace wick {

/// softmax(q · kᵀ · scale + mask) · v for each of B batches and H heads, on the CPU. q: [B, H, L,
/// E], k: [B, K, S, E], v: [B, K, S, F], o: [B, H, L, F], whose last axes' elements are neighbours;
/// float32, float64, or, for the forward pass on processors that multiply them, bfloat16
/// (cpu::bfloat16_unit()). K divides H: H / K heads of q, one after the other, share one of k and
/// v.
struct FusedAttention {
  View q, k, v, o;
  /// [B, H, L, 2], contiguous, of q's dtype, float32 for bfloat16: a row's largest score, or 0
  /// where its keys are all excluded, and 1 / the sum of its exponentials, or 0 there.
  View stats;
  View mask = {};  // [B, H, L, S], of the dtype of stats: added to scores; or bool: false excludes
  double scale = 1;
  /// Whether all elements of q, k and v are numbers of bfloat16 (in float32, or as such), which
  /// matrix units multiply exactly.
  bool is_bfloat16 = false;
  bool is_causal = false;  // keys after their query's place are excluded
  /// Each weight is 0 with this probability, else divided by 1 - dropout_p. Element
  /// ((b · H + h) · L + i) · S + j of the draw decides, as in the kernel dropout.
  double dropout_p = 0;
  RandomKey key = {};
};

/// Of a FusedAttention that was computed, from the gradient of o. Rows as those of the operands.
struct FusedAttentionGradients {
  View d_o, dq, dk, dv;
};

/// Memory beside the operands grows with L + S. Each result is summed in one order, which depends
/// on the sizes alone.
namespace cpu_avx2 {
void fused_attention(const FusedAttention& a, Workspace& workspace);
void fused_attention_backward(const FusedAttention& a, const FusedAttentionGradients& gradients,
                              Workspace& workspace);
}  // namespace cpu_avx2
namespace cpu_avx512 {
void fused_attention(const FusedAttention& a, Workspace& workspace);
void fused_attention_backward(const FusedAttention& a, const FusedAttentionGradients& gradients,
                              Workspace& workspace);
}  // namespace cpu_avx512

}  // namespace wick
