#pragma once

#include <concepts>
#include <optional>

#include "wick/core/tensor.h"

namespace wick {

class Generator;

/// softmax(query · keyᵀ · scale + mask) · value, over the last two axes. query: [..., L, E], key:
/// [..., S, E], value: [..., S, F], leading axes broadcast; returns [..., L, F]. Vaswani et al.:
/// Attention is all you need (NeurIPS 2017).
/// - `attn_mask` broadcasts to [..., L, S]. Where bool, false excludes; where floating, it is
///   added. A query all whose keys are excluded gives 0.
/// - `dropout_p` of the weights are dropped, by numbers of `generator` (default: the device's).
/// - `is_causal` excludes keys after their query's position, and takes no mask.
/// - `scale` defaults to 1 / sqrt(E).
/// - With `enable_gqa` key and value have fewer heads (axis -3) than query. Each serves as many of
///   query's, one after the other (Ainslie et al. 2023, arXiv 2305.13245). Error unless the heads
///   divide.
///
/// Autocast on a GPU casts what is floating, but not float64, to its dtype.
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const Tensor& attn_mask = {}, double dropout_p = 0,
                                    bool is_causal = false, std::optional<double> scale = {},
                                    bool enable_gqa = false, Generator* generator = nullptr);
/// The fifth argument is dropout_p, as in PyTorch.
template <std::same_as<bool> NoDropout, class... Others>
Tensor scaled_dot_product_attention(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                    NoDropout, Others&&...) = delete;

/// Whether one kernel computes attention where it can. It keeps one or two numbers per query for
/// backward, not the scores (Dao et al. 2022, arXiv 2205.14135). On unless set.
/// - On the CPU the kernel is Wick's: from 8 queries on, 16-bit operands in float32.
/// - On a GPU it is the vendor's library: float16 or bfloat16 [B, H, L, E] tensors, no dropout. A
///   mask that broadcasts over queries and keys is expanded to each of them.
/// - Masks that require a gradient use the composed ops.
bool fused_attention_enabled();
void set_fused_attention(bool on);

}  // namespace wick
