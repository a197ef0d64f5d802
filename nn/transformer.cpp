#include "wick/nn/transformer.h"

#include "wick/core/ops/activation.h"
#include "wick/core/ops/elementwise.h"
#include "wick/nn/init.h"

namespace wick::nn {

namespace {

MultiheadAttention make_attention(int64_t d_model, int64_t nhead,
                                  const TransformerLayerOptions& o) {
  return {d_model, nhead,
          MultiheadAttentionOptions{.dropout = o.dropout,
                                    .bias = o.bias,
                                    .batch_first = o.batch_first,
                                    .generator = o.generator}};
}

// The first layer of a feed-forward part, and its activation.
Tensor hidden(const Handle<Linear>& linear1, FeedForwardActivation activation, const Tensor& x) {
  switch (activation) {
    case FeedForwardActivation::kGelu: return gelu(linear1(x));
    case FeedForwardActivation::kGeluTanh: return linear1->forward_gelu_tanh(x);
    case FeedForwardActivation::kRelu: break;
  }
  return linear1->forward_relu(x);
}

void check_layers(const char* name, int64_t num_layers) {
  WICK_CHECK(num_layers >= 1, name, ": wrong num_layers: got ", num_layers, ", expected 1 or more");
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(int64_t d_model, int64_t nhead,
                                                 const TransformerLayerOptions& options)
    : options_(options),
      self_attn_(add("self_attn", make_attention(d_model, nhead, options))),
      linear1_(add("linear1", Linear(d_model, options.dim_feedforward, {.bias = options.bias}))),
      linear2_(add("linear2", Linear(options.dim_feedforward, d_model, {.bias = options.bias}))),
      norm1_(add("norm1",
                 LayerNorm({d_model}, {.eps = options.layer_norm_eps, .bias = options.bias}))),
      norm2_(add("norm2",
                 LayerNorm({d_model}, {.eps = options.layer_norm_eps, .bias = options.bias}))),
      dropout_(add("dropout", Dropout(options.dropout, options.generator))),
      dropout1_(add("dropout1", Dropout(options.dropout, options.generator))),
      dropout2_(add("dropout2", Dropout(options.dropout, options.generator))) {}

Tensor TransformerEncoderLayer::forward(const Tensor& src, const Tensor& src_mask,
                                        const Tensor& src_key_padding_mask, bool is_causal) {
  const auto attend = [&](const Tensor& y) {
    return dropout1_(self_attn_(y, y, y, src_key_padding_mask, src_mask, is_causal));
  };
  const auto feed_forward = [&](const Tensor& y) {
    return dropout2_(linear2_(dropout_(hidden(linear1_, options_.activation, y))));
  };
  if (options_.norm_first) {
    const SumAndNorm attended = norm2_->forward_add(src, attend(norm1_(src)));
    return attended.sum + feed_forward(attended.y);
  }
  const Tensor y = norm1_->forward_add(src, attend(src)).y;
  return norm2_->forward_add(y, feed_forward(y)).y;
}

TransformerEncoder::TransformerEncoder(int64_t d_model, int64_t nhead, int64_t num_layers,
                                       const TransformerLayerOptions& options, bool final_norm)
    : layers_(add("layers", ModuleList<TransformerEncoderLayer>())) {
  check_layers("TransformerEncoder", num_layers);
  for (int64_t i = 0; i < num_layers; ++i) {
    layers_->push_back(TransformerEncoderLayer(d_model, nhead, options));
  }
  if (final_norm)
    norm_ =
        add("norm", LayerNorm({d_model}, {.eps = options.layer_norm_eps, .bias = options.bias}));
}

Tensor TransformerEncoder::forward(const Tensor& src, const Tensor& mask,
                                   const Tensor& src_key_padding_mask, bool is_causal) {
  Tensor y = src;
  for (const auto& layer : *layers_) y = layer(y, mask, src_key_padding_mask, is_causal);
  return norm_ ? norm_(y) : y;
}

TransformerDecoderLayer::TransformerDecoderLayer(int64_t d_model, int64_t nhead,
                                                 const TransformerLayerOptions& options)
    : options_(options),
      self_attn_(add("self_attn", make_attention(d_model, nhead, options))),
      multihead_attn_(add("multihead_attn", make_attention(d_model, nhead, options))),
      linear1_(add("linear1", Linear(d_model, options.dim_feedforward, {.bias = options.bias}))),
      linear2_(add("linear2", Linear(options.dim_feedforward, d_model, {.bias = options.bias}))),
      norm1_(add("norm1",
                 LayerNorm({d_model}, {.eps = options.layer_norm_eps, .bias = options.bias}))),
      norm2_(add("norm2",
                 LayerNorm({d_model}, {.eps = options.layer_norm_eps, .bias = options.bias}))),
      norm3_(add("norm3",
                 LayerNorm({d_model}, {.eps = options.layer_norm_eps, .bias = options.bias}))),
      dropout_(add("dropout", Dropout(options.dropout, options.generator))),
      dropout1_(add("dropout1", Dropout(options.dropout, options.generator))),
      dropout2_(add("dropout2", Dropout(options.dropout, options.generator))),
      dropout3_(add("dropout3", Dropout(options.dropout, options.generator))) {}

Tensor TransformerDecoderLayer::forward(const Tensor& tgt, const Tensor& memory,
                                        const DecoderMasks& masks) {
  const auto attend_to_itself = [&](const Tensor& y) {
    return dropout1_(
        self_attn_(y, y, y, masks.tgt_key_padding_mask, masks.tgt_mask, masks.tgt_is_causal));
  };
  const auto attend_to_memory = [&](const Tensor& y) {
    return dropout2_(multihead_attn_(y, memory, memory, masks.memory_key_padding_mask,
                                     masks.memory_mask, masks.memory_is_causal));
  };
  const auto feed_forward = [&](const Tensor& y) {
    return dropout3_(linear2_(dropout_(hidden(linear1_, options_.activation, y))));
  };
  if (options_.norm_first) {
    const SumAndNorm own = norm2_->forward_add(tgt, attend_to_itself(norm1_(tgt)));
    const SumAndNorm both = norm3_->forward_add(own.sum, attend_to_memory(own.y));
    return both.sum + feed_forward(both.y);
  }
  const Tensor own = norm1_->forward_add(tgt, attend_to_itself(tgt)).y;
  const Tensor both = norm2_->forward_add(own, attend_to_memory(own)).y;
  return norm3_->forward_add(both, feed_forward(both)).y;
}

TransformerDecoder::TransformerDecoder(int64_t d_model, int64_t nhead, int64_t num_layers,
                                       const TransformerLayerOptions& options, bool final_norm)
    : layers_(add("layers", ModuleList<TransformerDecoderLayer>())) {
  check_layers("TransformerDecoder", num_layers);
  for (int64_t i = 0; i < num_layers; ++i) {
    layers_->push_back(TransformerDecoderLayer(d_model, nhead, options));
  }
  if (final_norm)
    norm_ =
        add("norm", LayerNorm({d_model}, {.eps = options.layer_norm_eps, .bias = options.bias}));
}

Tensor TransformerDecoder::forward(const Tensor& tgt, const Tensor& memory,
                                   const DecoderMasks& masks) {
  Tensor y = tgt;
  for (const auto& layer : *layers_) y = layer(y, memory, masks);
  return norm_ ? norm_(y) : y;
}

Transformer::Transformer(int64_t d_model, int64_t nhead, const TransformerOptions& options)
    : encoder_(add("encoder", TransformerEncoder(d_model, nhead, options.num_encoder_layers,
                                                 options.layer, /*final_norm=*/true))),
      decoder_(add("decoder", TransformerDecoder(d_model, nhead, options.num_decoder_layers,
                                                 options.layer, /*final_norm=*/true))) {
  for (const Tensor& parameter : parameters()) {
    if (parameter.rank() > 1) init::xavier_uniform_(parameter);
  }
}

Tensor Transformer::forward(const Tensor& src, const Tensor& tgt, const TransformerMasks& masks) {
  const Tensor memory =
      encoder_(src, masks.src_mask, masks.src_key_padding_mask, masks.src_is_causal);
  const DecoderMasks decoder_masks = {.tgt_mask = masks.tgt_mask,
                                      .memory_mask = masks.memory_mask,
                                      .tgt_key_padding_mask = masks.tgt_key_padding_mask,
                                      .memory_key_padding_mask = masks.memory_key_padding_mask,
                                      .tgt_is_causal = masks.tgt_is_causal,
                                      .memory_is_causal = masks.memory_is_causal};
  return decoder_(tgt, memory, decoder_masks);
}

}  // namespace wick::nn
