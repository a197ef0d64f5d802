#pragma once

#include <optional>

#include "wick/nn/linear.h"

namespace wick::nn {

/// Options of MultiheadAttention, named as those of torch.nn.MultiheadAttention. `bias` is that of
/// all projections, of the inputs and of the output.
struct MultiheadAttentionOptions {
  double dropout = 0;  // chance that a weight is dropped in training
  bool bias = true;
  bool add_bias_kv = false;                     // a trained key and value behind the others
  bool add_zero_attn = false;                   // a key and a value of zeros behind these
  std::optional<int64_t> kdim = {}, vdim = {};  // features of key and value; default: embed_dim
  bool batch_first = false;                     // [N, L, ...] rather than [L, N, ...]
  Generator* generator = nullptr;               // of dropout, as Dropout's
};

/// What attention gives, and the weights that it gave by.
struct AttentionWithWeights {
  Tensor output, weights;
};

/// Attention with several heads (Vaswani et al. 2017, arXiv 1706.03762): PyTorch's class of this
/// name, with its parameters, its layout and its meaning of masks. query: [L, N, embed_dim], key:
/// [S, N, kdim], value: [S, N, vdim]. N is first with `batch_first`, or missing in all three.
///
/// Masks, where they are bool, are true where attention is NOT allowed, unlike those of
/// scaled_dot_product_attention; where floating, they are added to the scores. `key_padding_mask`:
/// [N, S] ([S] without N). `attn_mask`: [L, S], or [N * num_heads, L, S]. `is_causal` lets query i
/// attend to keys up to i only, beside what masks say, and needs none. A query that may attend to
/// nothing gets 0 of every head.
class MultiheadAttention : public Module {
 public:
  MultiheadAttention(int64_t embed_dim, int64_t num_heads,
                     const MultiheadAttentionOptions& options = {});
  /// Self-attention.
  Tensor forward(const Tensor& x) override { return forward(x, x, x); }
  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value,
                 const Tensor& key_padding_mask = {}, const Tensor& attn_mask = {},
                 bool is_causal = false);
  /// The same and the weights (PyTorch's `need_weights`), after dropout: their mean over the heads
  /// [N, L, S], or without `average_attn_weights` those of each head [N, num_heads, L, S]; without
  /// N if the inputs are. Slower: the weights have to be in memory.
  AttentionWithWeights forward_with_weights(const Tensor& query, const Tensor& key,
                                            const Tensor& value,
                                            const Tensor& key_padding_mask = {},
                                            const Tensor& attn_mask = {}, bool is_causal = false,
                                            bool average_attn_weights = true);
  std::string description() const override;

  Parameter in_proj_weight;  // [3 * embed_dim, embed_dim]; with other kdim or vdim undefined, and
  Parameter q_proj_weight, k_proj_weight, v_proj_weight;  // [embed_dim, embed_dim, kdim or vdim]
  Parameter in_proj_bias;                                 // [3 * embed_dim], or undefined
  Parameter bias_k, bias_v;                               // [1, 1, embed_dim], or undefined
  Handle<Linear> out_proj;

 private:
  struct Operands;
  Operands project(const Tensor& query, const Tensor& key, const Tensor& value) const;
  void put_batch_first(Operands& made, bool batched) const;
  int64_t append_own(Operands& made) const;
  Operands operands(const Tensor& query, const Tensor& key, const Tensor& value,
                    const Tensor& key_padding_mask, const Tensor& attn_mask, bool is_causal) const;
  Tensor output(const Tensor& attended, const Tensor& query);

  int64_t embed_dim_, num_heads_;
  MultiheadAttentionOptions options_;
};

}  // namespace wick::nn
