// Attention, by the function and by the module of several heads.
#include "wick/core/autograd.h"
#include "wick/core/ops/attention.h"
#include "wick/nn/attention.h"
#include "wick/tests/golden/opinfo.h"

namespace wick::golden {
namespace {

using X = const Tensor&;

// The projections of the function multi_head_attention_forward: one weight, or one of each input.
struct Projections {
  Tensor in_weight, in_bias, bias_k, bias_v, out_weight, out_bias, q, k, v;
};

void give(nn::MultiheadAttention& layer, const Projections& from) {
  const NoGrad no_grad;
  const auto copy = [](const Tensor& to, X source) {
    if (to.defined()) to.copy_(source);
  };
  if (layer.in_proj_weight.defined()) {
    copy(layer.in_proj_weight,
         from.in_weight.defined() ? from.in_weight : cat({from.q, from.k, from.v}));
  }
  copy(layer.q_proj_weight, from.q);
  copy(layer.k_proj_weight, from.k);
  copy(layer.v_proj_weight, from.v);
  copy(layer.in_proj_bias, from.in_bias);
  copy(layer.bias_k, from.bias_k);
  copy(layer.bias_v, from.bias_v);
  copy(layer.out_proj->weight, from.out_weight);
  copy(layer.out_proj->bias, from.out_bias);
}

Tensors attended(X query, X key, X value, int64_t features, int64_t heads, X in_weight, X in_bias,
                 X bias_k, X bias_v, bool add_zero_attn, double dropout, X out_weight, X out_bias,
                 bool training, X key_padding_mask, bool need_weights, X attn_mask, X q, X k, X v,
                 bool average, bool is_causal) {
  nn::MultiheadAttentionOptions options;
  options.dropout = dropout;
  options.bias = in_bias.defined();
  options.add_bias_kv = bias_k.defined();
  options.add_zero_attn = add_zero_attn;
  options.kdim = key.size(-1);
  options.vdim = value.size(-1);
  nn::MultiheadAttention layer(features, heads, options);
  layer.to(query.device());
  layer.to(query.dtype());
  give(layer, {in_weight, in_bias, bias_k, bias_v, out_weight, out_bias, q, k, v});
  layer.train(training);
  if (!need_weights) {
    return {layer.forward(query, key, value, key_padding_mask, attn_mask, is_causal)};
  }
  const nn::AttentionWithWeights made = layer.forward_with_weights(
      query, key, value, key_padding_mask, attn_mask, is_causal, average);
  return {made.output, made.weights};
}

const Opinfo attentions({
    {"nn.functional.multi_head_attention_forward",
     {call(attended,
           "query key value embed_dim_to_check num_heads in_proj_weight in_proj_bias bias_k bias_v "
           "add_zero_attn dropout_p out_proj_weight out_proj_bias training=true "
           "key_padding_mask=null need_weights=true attn_mask=null !use_separate_proj_weight=false "
           "q_proj_weight=null k_proj_weight=null v_proj_weight=null !static_k=null !static_v=null "
           "average_attn_weights=true is_causal=false"),
      call(attended,
           "query key value embed_dim_to_check num_heads in_proj_weight in_proj_bias bias_k bias_v "
           "add_zero_attn dropout_p out_proj_weight out_proj_bias training=true "
           "key_padding_mask=null need_weights=true attn_mask=null !use_separate_proj_weight=true "
           "q_proj_weight=null k_proj_weight=null v_proj_weight=null !static_k=null !static_v=null "
           "average_attn_weights=true is_causal=false")}},
    {"nn.functional.scaled_dot_product_attention",
     {call(
         +[](X query, X key, X value, X mask, double dropout_p, bool is_causal,
             std::optional<double> scale, bool enable_gqa) {
           return scaled_dot_product_attention(query, key, value, mask, dropout_p, is_causal, scale,
                                               enable_gqa);
         },
         "query key value attn_mask=null dropout_p=0.0 is_causal=false scale=null "
         "enable_gqa=false")}},
});

}  // namespace
}  // namespace wick::golden
