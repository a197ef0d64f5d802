// Recurrent networks, attention and transformers.
#include "wick/tests/golden/module.h"

namespace wick::golden {
namespace {

using X = const Tensor&;
using Pair = const std::optional<Tensors>&;

nn::LSTMState lstm_state(Pair pair) {
  return pair ? nn::LSTMState{pair->at(0), pair->at(1)} : nn::LSTMState();
}

Tensors packed_results(const nn::PackedSequence& y, const Tensors& state) {
  Tensors all{y.data, tensor(y.batch_sizes)};
  all.insert(all.end(), state.begin(), state.end());
  return all;
}

bool is_packed(const Argument& input) {
  return input.value->is_object() && input.value->contains("packed");
}

template <class M>
Tensors run_recurrent(M& m, const Argument& input, X h) {
  if (!is_packed(input)) return results(m.forward_with_state(read<Tensor>(input), h));
  const nn::PackedRNNOutput y = m.forward_with_state(read<nn::PackedSequence>(input), h);
  return packed_results(y.output, {y.h_n});
}

Tensors run_lstm(nn::LSTM& m, const Argument& input, Pair state) {
  const nn::LSTMState start = lstm_state(state);
  if (!is_packed(input)) return results(m.forward_with_state(read<Tensor>(input), start));
  const nn::PackedLSTMOutput y = m.forward_with_state(read<nn::PackedSequence>(input), start);
  return packed_results(y.output, {y.state.h, y.state.c});
}

const ModuleTable module_recurrent_networks({
    {"RNN",
     {layer(
         +[](int64_t input, int64_t hidden, int64_t layers, nn::Nonlinearity kind, bool bias,
             bool first, double dropout, bool both) {
           return nn::RNN(input, hidden, {layers, kind, bias, first, dropout, both});
         },
         "input_size hidden_size num_layers=1 nonlinearity=\"tanh\" bias=true batch_first=false "
         "dropout=0.0 bidirectional=false",
         run_recurrent<nn::RNN>, "input hx=null")}},
    {"GRU",
     {layer(
         +[](int64_t input, int64_t hidden, int64_t layers, bool bias, bool first, double dropout,
             bool both) {
           return nn::GRU(input, hidden, {layers, bias, first, dropout, both});
         },
         "input_size hidden_size num_layers=1 bias=true batch_first=false dropout=0.0 "
         "bidirectional=false",
         run_recurrent<nn::GRU>, "input hx=null")}},
    {"LSTM",
     {layer(
         +[](int64_t input, int64_t hidden, int64_t layers, bool bias, bool first, double dropout,
             bool both, int64_t projected) {
           return nn::LSTM(input, hidden, {layers, bias, first, dropout, both, projected});
         },
         "input_size hidden_size num_layers=1 bias=true batch_first=false dropout=0.0 "
         "bidirectional=false proj_size=0",
         run_lstm, "input hx=null")}},
    {"RNNCell",
     {layer(
         +[](int64_t input, int64_t hidden, bool bias, nn::Nonlinearity kind) {
           return nn::RNNCell(input, hidden, {bias, kind});
         },
         "input_size hidden_size bias=true nonlinearity=\"tanh\"",
         +[](nn::RNNCell& m, X x, X h) { return m.forward(x, h); }, "input hx=null")}},
    {"GRUCell",
     {layer(
         +[](int64_t input, int64_t hidden, bool bias) {
           return nn::GRUCell(input, hidden, {bias});
         },
         "input_size hidden_size bias=true",
         +[](nn::GRUCell& m, X x, X h) { return m.forward(x, h); }, "input hx=null")}},
    {"LSTMCell",
     {layer(
         +[](int64_t input, int64_t hidden, bool bias) {
           return nn::LSTMCell(input, hidden, {bias});
         },
         "input_size hidden_size bias=true",
         +[](nn::LSTMCell& m, X x, Pair state) {
           return m.forward_with_state(x, lstm_state(state));
         },
         "input hx=null")}},
});

const auto make_attention = +[](int64_t width, int64_t heads, double dropout, bool bias,
                                bool bias_kv, bool zero, const std::optional<int64_t>& kdim,
                                const std::optional<int64_t>& vdim, bool first) {
  return nn::MultiheadAttention(width, heads, {dropout, bias, bias_kv, zero, kdim, vdim, first});
};
const char* const kAttention =
    "embed_dim num_heads dropout=0.0 bias=true add_bias_kv=false add_zero_attn=false kdim=null "
    "vdim=null batch_first=false";

struct LayerArguments {
  int64_t width, heads;
  nn::TransformerLayerOptions options;
};

LayerArguments layer_arguments(int64_t width, int64_t heads, int64_t hidden, double dropout,
                               nn::FeedForwardActivation activation, double eps, bool first,
                               bool norm_first, bool bias) {
  return {width, heads, {hidden, dropout, activation, eps, first, norm_first, bias}};
}
const char* const kLayer =
    "d_model nhead dim_feedforward=2048 dropout=0.1 activation=\"relu\" layer_norm_eps=1e-5 "
    "batch_first=false norm_first=false bias=true";

template <class Layer>
Layer transformer_layer(int64_t width, int64_t heads, int64_t hidden, double dropout,
                        nn::FeedForwardActivation activation, double eps, bool first,
                        bool norm_first, bool bias) {
  const LayerArguments a =
      layer_arguments(width, heads, hidden, dropout, activation, eps, first, norm_first, bias);
  return Layer(a.width, a.heads, a.options);
}

// What PyTorch makes of layers, Wick makes of their arguments.
template <class Stack>
Stack stack_of(const Argument& part, int64_t count, const Argument& norm) {
  LayerArguments a;
  const Recorded call{part.value->at("args"), part.value->at("kwargs"), *part.tensors};
  run_bound(kLayer, call, [&](const Arguments& given) {
    a = layer_arguments(read<int64_t>(given[0]), read<int64_t>(given[1]), read<int64_t>(given[2]),
                        given[3].number(), read<nn::FeedForwardActivation>(given[4]),
                        given[5].number(), read<bool>(given[6]), read<bool>(given[7]),
                        read<bool>(given[8]));
  });
  return Stack(a.width, a.heads, count, a.options, !norm.value->is_null());
}

template <class M>
Tensor run_decoder(M& m, X tgt, X memory, X tgt_mask, X memory_mask, X tgt_padding,
                   X memory_padding, bool tgt_causal, bool memory_causal) {
  return m.forward(tgt, memory,
                   {tgt_mask, memory_mask, tgt_padding, memory_padding, tgt_causal, memory_causal});
}
const char* const kDecoderCall =
    "tgt memory tgt_mask=null memory_mask=null tgt_key_padding_mask=null "
    "memory_key_padding_mask=null tgt_is_causal=false memory_is_causal=false";

template <class M>
Tensor run_encoder(M& m, X src, X mask, X padding, bool causal) {
  return m.forward(src, mask, padding, causal);
}

const ModuleTable module_transformers({
    {"Transformer",
     {layer(
         +[](int64_t width, int64_t heads, int64_t encoders, int64_t decoders, int64_t hidden,
             double dropout, nn::FeedForwardActivation activation, double eps, bool first,
             bool norm_first, bool bias) {
           return nn::Transformer(
               width, heads,
               {encoders, decoders, {hidden, dropout, activation, eps, first, norm_first, bias}});
         },
         "d_model=512 nhead=8 num_encoder_layers=6 num_decoder_layers=6 dim_feedforward=2048 "
         "dropout=0.1 activation=\"relu\" !custom_encoder=null !custom_decoder=null "
         "layer_norm_eps=1e-5 batch_first=false norm_first=false bias=true",
         +[](nn::Transformer& m, X src, X tgt, X src_mask, X tgt_mask, X memory_mask, X src_padding,
             X tgt_padding, X memory_padding, bool src_causal, bool tgt_causal,
             bool memory_causal) {
           return m.forward(src, tgt,
                            {src_mask, tgt_mask, memory_mask, src_padding, tgt_padding,
                             memory_padding, src_causal, tgt_causal, memory_causal});
         },
         "src tgt src_mask=null tgt_mask=null memory_mask=null src_key_padding_mask=null "
         "tgt_key_padding_mask=null memory_key_padding_mask=null src_is_causal=null "
         "tgt_is_causal=null memory_is_causal=false")}},
});

const ModuleTable module_attentions({
    {"MultiheadAttention",
     {layer(
          make_attention, kAttention,
          +[](nn::MultiheadAttention& m, X query, X key, X value, X padding, X mask, bool average,
              bool causal) {
            return m.forward_with_weights(query, key, value, padding, mask, causal, average);
          },
          "query key value key_padding_mask=null !need_weights=true attn_mask=null "
          "average_attn_weights=true is_causal=false"),
      layer(
          make_attention, kAttention,
          +[](nn::MultiheadAttention& m, X query, X key, X value, X padding, X mask, bool causal) {
            return m.forward(query, key, value, padding, mask, causal);
          },
          "query key value key_padding_mask=null !need_weights=false attn_mask=null "
          "!average_attn_weights=true is_causal=false")}},
    {"TransformerEncoderLayer",
     {layer(transformer_layer<nn::TransformerEncoderLayer>, kLayer,
            run_encoder<nn::TransformerEncoderLayer>,
            "src src_mask=null src_key_padding_mask=null is_causal=false")}},
    {"TransformerDecoderLayer",
     {layer(transformer_layer<nn::TransformerDecoderLayer>, kLayer,
            run_decoder<nn::TransformerDecoderLayer>, kDecoderCall)}},
    {"TransformerEncoder",
     {layer(stack_of<nn::TransformerEncoder>,
            "encoder_layer num_layers norm=null !enable_nested_tensor=true !mask_check=true",
            run_encoder<nn::TransformerEncoder>,
            "src mask=null src_key_padding_mask=null is_causal=null")}},
    {"TransformerDecoder",
     {layer(stack_of<nn::TransformerDecoder>, "decoder_layer num_layers norm=null",
            run_decoder<nn::TransformerDecoder>, kDecoderCall)}},
});

}  // namespace
}  // namespace wick::golden
