#pragma once

#include <string>
#include <vector>

#include "wick/core/base/workspace.h"
#include "wick/kernels/declare.h"
#include "wick/kernels/engine.h"
#include "wick/kernels/plan_key.h"

namespace wick {

inline constexpr uintptr_t kAttentionAlignment = 16;  // bytes

/// softmax(q · kᵀ · scale + bias) · v for each of B batches and H heads. q: [B, H, L, E],
/// k: [B, H, S, E], v: [B, H, S, F], whose last axes' elements are neighbours, o: [B, H, L, F],
/// contiguous; float16 or bfloat16. All begin at multiples of kAttentionAlignment, as do the rows
/// of q, k and v.
struct Attention {
  View q, k, v, o;
  View stats;  // [B, H, L, 1], float32, contiguous: log of the sum of a row's exponentials
  float scale = 1;
  View bias = {};  // [B or 1, H or 1, L, S], contiguous, aligned, of q's dtype; or undefined
  bool is_causal = false;  // keys after their query's place are left out
};

/// Of an Attention that was computed, from that of o, which is contiguous; all are.
struct AttentionGradients {
  View d_o, dq, dk, dv;
};

enum class AttentionDirection : uint8_t { kForward, kBackward };

inline PlanKey plan_key(const Attention& a, AttentionDirection direction) {
  PlanKey key(PlanKind::kAttention, a.q.device, a.q.dtype);
  key.add({static_cast<int64_t>(direction), a.is_causal});
  for (const View* x : {&a.q, &a.k, &a.v}) {
    key.add(x->shape);
    key.add(x->strides);
  }
  key.add(a.bias.shape);
  return key;
}

// No device but a GPU has it, and there the vendor's library: elsewhere attention is composed of
// products and a softmax.
namespace cuda {

/// Whether the library computes it, and its gradients but for that of bias. Needs no data and no
/// stats.
bool has_attention(const Attention& attention);
/// The library's engines for one of the two, as engine.h says. Needs as little.
std::vector<std::string> attention_engines(const Attention& attention,
                                           AttentionDirection direction);
/// Writes o and stats. `engine`: as attention_engines counts, or kAnyEngine. Error if the engine
/// cannot compute it after all.
void attention_forward(const Attention& attention, int engine, Workspace& workspace);
/// Writes dq, dk and dv.
void attention_backward(const Attention& attention, const AttentionGradients& gradients, int engine,
                        Workspace& workspace);

}  // namespace cuda

}  // namespace wick
