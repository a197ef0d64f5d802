#pragma once

#include "wick/nn/linear.h"
#include "wick/nn/norm.h"

namespace wick::nn {

/// Attention with several heads (Vaswani et al. 2017, arXiv 1706.03762), with PyTorch's parameter
/// names. All tensors are [N, L, embed_dim] (batch first).
class MultiheadAttention : public Module {
 public:
  MultiheadAttention(int64_t embed_dim, int64_t num_heads, double dropout = 0);
  /// Self-attention.
  Tensor forward(const Tensor& x) override { return forward(x, x, x); }
  /// `attn_mask` (optional): added to the scores, or bool with true where attention is allowed;
  /// broadcast to [N, heads, L, S]. `is_causal` lets position i see positions up to i.
  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value,
                 const Tensor& attn_mask = {}, bool is_causal = false);
  std::string description() const override;

  Parameter in_proj_weight;  // [3 * embed_dim, embed_dim]
  Parameter in_proj_bias;    // [3 * embed_dim]
  Handle<Linear> out_proj;

 private:
  int64_t embed_dim_, num_heads_;
  double dropout_;
};

/// What stands between the two layers of a feed-forward part. ReLU, and GELU by its approximation
/// with tanh, are done in one pass with the first of them.
enum class FeedForwardActivation : uint8_t { kRelu, kGelu, kGeluTanh };

struct TransformerEncoderLayerOptions {
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  FeedForwardActivation activation = FeedForwardActivation::kRelu;
  bool norm_first = false;  // normalise before each part rather than after
};

/// Self-attention and a feed-forward part, each with a residual connection and layer norm.
class TransformerEncoderLayer : public Module {
 public:
  TransformerEncoderLayer(int64_t d_model, int64_t num_heads,
                          const TransformerEncoderLayerOptions& options = {});
  Tensor forward(const Tensor& x) override { return forward(x, Tensor()); }
  Tensor forward(const Tensor& x, const Tensor& attn_mask, bool is_causal = false);

 private:
  Tensor feed_forward(const Tensor& x);

  TransformerEncoderLayerOptions options_;
  Handle<MultiheadAttention> self_attn_;
  Handle<Linear> linear1_, linear2_;
  Handle<LayerNorm> norm1_, norm2_;
  Handle<Dropout> dropout_, dropout1_, dropout2_;
};

}  // namespace wick::nn
