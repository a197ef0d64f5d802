#pragma once

#include "wick/nn/attention.h"
#include "wick/nn/norm.h"

namespace wick::nn {

/// What stands between the two layers of a feed-forward part. ReLU, and GELU by its approximation
/// with tanh, are done in one pass with the first of them.
enum class FeedForwardActivation : uint8_t { kRelu, kGelu, kGeluTanh };

/// PyTorch's, by the same names.
struct TransformerLayerOptions {
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  FeedForwardActivation activation = FeedForwardActivation::kRelu;
  double layer_norm_eps = 1e-5;
  bool batch_first = false;        // [N, L, d_model] rather than [L, N, d_model]
  bool norm_first = false;         // normalise before each part rather than after
  bool bias = true;                // of attention, linear layers and norms
  Generator* generator = nullptr;  // of dropout, as Dropout's
};

/// Self-attention and a feed-forward part, each with a residual connection and layer norm. Masks
/// are MultiheadAttention's: `src_mask` is its attn_mask.
class TransformerEncoderLayer : public Module {
 public:
  TransformerEncoderLayer(int64_t d_model, int64_t nhead,
                          const TransformerLayerOptions& options = {});
  /// src: [L, N, d_model], [N, L, d_model] with `batch_first`, or [L, d_model]. Returns src's
  /// shape. `is_causal`: a position attends to itself and to those before it only.
  Tensor forward(const Tensor& src) override { return forward(src, Tensor()); }
  Tensor forward(const Tensor& src, const Tensor& src_mask, const Tensor& src_key_padding_mask = {},
                 bool is_causal = false);

 private:
  TransformerLayerOptions options_;
  Handle<MultiheadAttention> self_attn_;
  Handle<Linear> linear1_, linear2_;
  Handle<LayerNorm> norm1_, norm2_;
  Handle<Dropout> dropout_, dropout1_, dropout2_;
};

/// `num_layers` encoder layers one after the other and, with `final_norm`, layer norm, without
/// which `norm_first` leaves the result as it adds up.
class TransformerEncoder : public Module {
 public:
  TransformerEncoder(int64_t d_model, int64_t nhead, int64_t num_layers,
                     const TransformerLayerOptions& options = {}, bool final_norm = false);
  /// src: [L, N, d_model], [N, L, d_model] with `batch_first`, or [L, d_model]. Returns src's
  /// shape. All layers take the same masks: `mask` is their src_mask.
  Tensor forward(const Tensor& src) override { return forward(src, Tensor()); }
  Tensor forward(const Tensor& src, const Tensor& mask, const Tensor& src_key_padding_mask = {},
                 bool is_causal = false);

 private:
  Handle<ModuleList<TransformerEncoderLayer>> layers_;
  Handle<LayerNorm> norm_;
};

/// What of its two inputs a decoder may attend to: MultiheadAttention's masks, of `tgt` for itself
/// and of `memory`.
struct DecoderMasks {
  Tensor tgt_mask = {}, memory_mask = {};
  Tensor tgt_key_padding_mask = {}, memory_key_padding_mask = {};
  bool tgt_is_causal = false, memory_is_causal = false;
};

/// Self-attention, attention to an encoder's result `memory`, and a feed-forward part, each with a
/// residual connection and layer norm.
class TransformerDecoderLayer : public Module {
 public:
  TransformerDecoderLayer(int64_t d_model, int64_t nhead,
                          const TransformerLayerOptions& options = {});
  using Module::forward;
  /// tgt: [L, N, d_model], memory: [S, N, d_model]; N is first with `batch_first`, or missing in
  /// both. Returns tgt's shape.
  Tensor forward(const Tensor& tgt, const Tensor& memory, const DecoderMasks& masks = {});

 private:
  TransformerLayerOptions options_;
  Handle<MultiheadAttention> self_attn_, multihead_attn_;
  Handle<Linear> linear1_, linear2_;
  Handle<LayerNorm> norm1_, norm2_, norm3_;
  Handle<Dropout> dropout_, dropout1_, dropout2_, dropout3_;
};

/// `num_layers` decoder layers one after the other and, with `final_norm`, layer norm.
class TransformerDecoder : public Module {
 public:
  TransformerDecoder(int64_t d_model, int64_t nhead, int64_t num_layers,
                     const TransformerLayerOptions& options = {}, bool final_norm = false);
  using Module::forward;
  /// tgt: [L, N, d_model], memory: [S, N, d_model]; N is first with `batch_first`, or missing in
  /// both. Returns tgt's shape. All layers take the same `memory` and `masks`.
  Tensor forward(const Tensor& tgt, const Tensor& memory, const DecoderMasks& masks = {});

 private:
  Handle<ModuleList<TransformerDecoderLayer>> layers_;
  Handle<LayerNorm> norm_;
};

/// What a transformer may attend to: MultiheadAttention's masks, of `src` in the encoder, and of
/// `tgt` and the encoder's result in the decoder.
struct TransformerMasks {
  Tensor src_mask = {}, tgt_mask = {}, memory_mask = {};
  Tensor src_key_padding_mask = {}, tgt_key_padding_mask = {}, memory_key_padding_mask = {};
  bool src_is_causal = false, tgt_is_causal = false, memory_is_causal = false;
};

/// PyTorch's, by the same names; the rest is TransformerLayerOptions.
struct TransformerOptions {
  int64_t num_encoder_layers = 6, num_decoder_layers = 6;
  TransformerLayerOptions layer = {};
};

/// An encoder, and a decoder that attends to the encoder's result; layer norm is behind each
/// (Vaswani et al. 2017, arXiv 1706.03762). All matrices start as init::xavier_uniform_ has them.
class Transformer : public Module {
 public:
  explicit Transformer(int64_t d_model = 512, int64_t nhead = 8,
                       const TransformerOptions& options = {});
  using Module::forward;
  /// src: [S, N, d_model], tgt: [T, N, d_model]; N is first with `batch_first`, or missing in both.
  /// Returns tgt's shape.
  Tensor forward(const Tensor& src, const Tensor& tgt, const TransformerMasks& masks = {});

 private:
  Handle<TransformerEncoder> encoder_;
  Handle<TransformerDecoder> decoder_;
};

}  // namespace wick::nn
