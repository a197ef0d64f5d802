#include "wick/nn/attention.h"

#include "wick/core/ops/activation.h"
#include "wick/core/ops/attention.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/matmul.h"
#include "wick/nn/init.h"

namespace wick::nn {

MultiheadAttention::MultiheadAttention(int64_t embed_dim, int64_t num_heads, double dropout)
    : embed_dim_(embed_dim), num_heads_(num_heads), dropout_(dropout) {
  WICK_CHECK(num_heads >= 1 && embed_dim >= 1 && embed_dim % num_heads == 0,
             "MultiheadAttention: heads must divide the width: got ", num_heads, " for ",
             embed_dim);
  in_proj_weight = add_parameter("in_proj_weight", empty({3 * embed_dim, embed_dim}));
  in_proj_bias = add_parameter("in_proj_bias", zeros({3 * embed_dim}));
  out_proj = add("out_proj", Linear(embed_dim, embed_dim));
  init::xavier_uniform_(in_proj_weight);
  init::constant_(out_proj->bias, 0);
}

Tensor MultiheadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const Tensor& attn_mask, bool is_causal) {
  for (const Tensor* x : {&query, &key, &value}) {
    WICK_CHECK(x->rank() == 3 && x->size(2) == embed_dim_, "MultiheadAttention: wrong shape: got ",
               x->shape(), ", expected [N, L, ", embed_dim_, "]");
  }
  const int64_t head = embed_dim_ / num_heads_;
  const auto split_heads = [&](const Tensor& x) {
    return x.reshape({x.size(0), x.size(1), num_heads_, head}).transpose(1, 2);
  };
  Tensor q, k, v;
  if (query.is_same(key) && key.is_same(value)) {
    const std::vector<Tensor> parts = linear(query, in_proj_weight, in_proj_bias).chunk(3, -1);
    q = parts[0], k = parts[1], v = parts[2];
  } else {
    const std::vector<Tensor> weights = in_proj_weight.chunk(3);
    const std::vector<Tensor> biases = in_proj_bias.chunk(3);
    q = linear(query, weights[0], biases[0]);
    k = linear(key, weights[1], biases[1]);
    v = linear(value, weights[2], biases[2]);
  }
  const Tensor attended =
      scaled_dot_product_attention(split_heads(q), split_heads(k), split_heads(v), attn_mask,
                                   is_causal, {}, is_training() ? dropout_ : 0);
  return out_proj(attended.transpose(1, 2).reshape(query.shape()));
}

std::string MultiheadAttention::description() const {
  return concat("MultiheadAttention(", embed_dim_, ", heads=", num_heads_, ")");
}

TransformerEncoderLayer::TransformerEncoderLayer(int64_t d_model, int64_t num_heads,
                                                 const TransformerEncoderLayerOptions& options)
    : options_(options),
      self_attn_(add("self_attn", MultiheadAttention(d_model, num_heads, options.dropout))),
      linear1_(add("linear1", Linear(d_model, options.dim_feedforward))),
      linear2_(add("linear2", Linear(options.dim_feedforward, d_model))),
      norm1_(add("norm1", LayerNorm({d_model}))),
      norm2_(add("norm2", LayerNorm({d_model}))),
      dropout_(add("dropout", Dropout(options.dropout))),
      dropout1_(add("dropout1", Dropout(options.dropout))),
      dropout2_(add("dropout2", Dropout(options.dropout))) {}

Tensor TransformerEncoderLayer::feed_forward(const Tensor& x) {
  const auto hidden = [&] {
    switch (options_.activation) {
      case FeedForwardActivation::kGelu: return gelu(linear1_(x));
      case FeedForwardActivation::kGeluTanh: return linear1_->forward_gelu_tanh(x);
      case FeedForwardActivation::kRelu: break;
    }
    return linear1_->forward_relu(x);
  };
  return dropout2_(linear2_(dropout_(hidden())));
}

Tensor TransformerEncoderLayer::forward(const Tensor& x, const Tensor& attn_mask, bool is_causal) {
  const auto attend = [&](const Tensor& y) {
    return dropout1_(self_attn_(y, y, y, attn_mask, is_causal));
  };
  if (options_.norm_first) {
    const SumAndNorm attended = norm2_->forward_add(x, attend(norm1_(x)));
    return attended.sum + feed_forward(attended.y);
  }
  const Tensor y = norm1_->forward_add(x, attend(x)).y;
  return norm2_->forward_add(y, feed_forward(y)).y;
}

}  // namespace wick::nn
