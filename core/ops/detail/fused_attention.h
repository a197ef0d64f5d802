#pragma once

#include <functional>
#include <optional>

#include "wick/core/tensor.h"

namespace wick {

class Generator;

/// What an attention is beside its operands.
struct AttentionSettings {
  double scale;
  bool is_causal = false;
  double dropout_p = 0;
  Generator* generator = nullptr;
  bool enable_gqa = false;
  bool is_bfloat16 = false;  // whether the operands are, perhaps cast to float32
};

/// The same attention made of ops that can be differentiated twice.
Tensor attention_of_ops(const Tensor& query, const Tensor& key, const Tensor& value,
                        const Tensor& mask, const AttentionSettings& settings);

/// scaled_dot_product_attention of float32 or float64 on the CPU, or of bfloat16 without gradients,
/// by the kernel of its own (kernels/fused_attention.h); undefined where the ops are to compute it.
Tensor fused_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                       const Tensor& mask, const AttentionSettings& settings);

}  // namespace wick
