// Stacks of layers, and the decoder's.
#include "wick/nn/transformer.h"

#include <gtest/gtest.h>

#include "wick/core/core.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/host_array.h"

namespace wick::testing {
namespace {

// A stack gives what its layers give one after the other, each with weights of its own.
TEST(Transformer, StacksLayers) {
  const nn::TransformerLayerOptions options{
      .dim_feedforward = 16, .dropout = 0, .norm_first = true};
  for (const bool final_norm : {false, true}) {
    nn::TransformerEncoder encoder(8, 2, 3, options, final_norm);
    nn::TransformerDecoder decoder(8, 2, 3, options, final_norm);
    const Tensor src = randn({5, 2, 8}), tgt = randn({4, 2, 8});
    const Tensor padding = tensor<int64_t>({0, 0, 0, 0, 0, 1, 0, 0, 0, 0}, Shape{2, 5}).to(kBool);
    Tensor memory = src, y = tgt;
    TensorMap of_encoder = encoder.state_dict(), of_decoder = decoder.state_dict();
    const auto part = [](const TensorMap& state, const std::string& prefix) {
      TensorMap found;
      for (const auto& [name, tensor] : state) {
        if (name.starts_with(prefix)) found[name.substr(prefix.size())] = tensor;
      }
      return found;
    };
    for (int i = 0; i < 3; ++i) {
      const std::string prefix = "layers." + std::to_string(i) + ".";
      nn::TransformerEncoderLayer layer(8, 2, options);
      layer.load_state_dict(part(of_encoder, prefix));
      memory = layer.forward(memory, {}, padding);
    }
    nn::LayerNorm norm({8});
    if (final_norm) memory = norm(memory);
    const nn::DecoderMasks masks{.memory_key_padding_mask = padding, .tgt_is_causal = true};
    for (int i = 0; i < 3; ++i) {
      nn::TransformerDecoderLayer layer(8, 2, options);
      layer.load_state_dict(part(of_decoder, "layers." + std::to_string(i) + "."));
      y = layer.forward(y, memory, masks);
    }
    if (final_norm) y = norm(y);
    EXPECT_TRUE(bit_equal(encoder.forward(src, {}, padding).detach(), memory.detach()));
    EXPECT_TRUE(bit_equal(decoder.forward(tgt, memory, masks).detach(), y.detach()));
  }
  EXPECT_EQ(error_of([&] { nn::TransformerEncoder(8, 2, 0); }),
            "TransformerEncoder: wrong num_layers: got 0, expected 1 or more");
}

// Against the modules it is made of, put together as PyTorch does.
TEST(TransformerDecoderLayer, AttendsToItselfAndToMemory) {
  for (const bool norm_first : {false, true}) {
    nn::TransformerDecoderLayer layer(8, 2,
                                      {.dim_feedforward = 12,
                                       .dropout = 0,
                                       .activation = nn::FeedForwardActivation::kGelu,
                                       .layer_norm_eps = 1e-3,
                                       .batch_first = true,
                                       .norm_first = norm_first});
    layer.to(kFloat64);
    for (const Tensor& parameter : layer.parameters()) parameter.detach().uniform_(-0.5, 0.5);
    nn::MultiheadAttention own(8, 2, {.batch_first = true}), other(8, 2, {.batch_first = true});
    nn::Linear linear1(8, 12), linear2(12, 8);
    nn::LayerNorm norm1({8}, {.eps = 1e-3}), norm2({8}, {.eps = 1e-3}), norm3({8}, {.eps = 1e-3});
    const std::pair<const char*, nn::Module*> parts[] = {
        {"self_attn.", &own},   {"multihead_attn.", &other}, {"linear1.", &linear1},
        {"linear2.", &linear2}, {"norm1.", &norm1},          {"norm2.", &norm2},
        {"norm3.", &norm3}};
    size_t names = 0;
    for (const auto& [prefix, module] : parts) {
      TensorMap state;
      for (const auto& [name, tensor] : layer.state_dict()) {
        if (name.starts_with(prefix)) state[name.substr(std::string(prefix).size())] = tensor;
      }
      module->to(kFloat64);
      module->load_state_dict(state);
      names += state.size();
    }
    EXPECT_EQ(names, layer.state_dict().size());
    const Tensor tgt = randn({2, 4, 8}, kFloat64), memory = randn({2, 5, 8}, kFloat64);
    const Tensor of_memory = randn({4, 5}, kFloat64);
    const Tensor padding = tensor<int64_t>({0, 0, 1, 0, 0, 0, 0, 1}, Shape{2, 4}).to(kBool);
    const auto itself = [&](const Tensor& y) { return own.forward(y, y, y, padding, {}, true); };
    const auto to_memory = [&](const Tensor& y) {
      return other.forward(y, memory, memory, {}, of_memory);
    };
    const auto feed_forward = [&](const Tensor& y) { return linear2(gelu(linear1(y))); };
    Tensor want;
    if (norm_first) {
      Tensor y = tgt + itself(norm1(tgt));
      y = y + to_memory(norm2(y));
      want = y + feed_forward(norm3(y));
    } else {
      Tensor y = norm1(tgt + itself(tgt));
      y = norm2(y + to_memory(y));
      want = norm3(y + feed_forward(y));
    }
    const Tensor got = layer.forward(
        tgt, memory,
        {.memory_mask = of_memory, .tgt_key_padding_mask = padding, .tgt_is_causal = true});
    EXPECT_EQ(difference(read(got.detach()), read(want.detach()), 1e-12, 1e-12), "");
  }
}

// Layers without biases have none; dropout draws from the generator given.
TEST(Transformer, TakesPyTorchsOptions) {
  Generator generator(2);
  nn::TransformerEncoderLayer layer(
      8, 2, {.dim_feedforward = 16, .bias = false, .generator = &generator});
  std::string names;
  for (const auto& [name, tensor] : layer.state_dict()) names += name + " ";
  EXPECT_EQ(names,
            "linear1.weight linear2.weight norm1.weight norm2.weight self_attn.in_proj_weight "
            "self_attn.out_proj.weight ");
  const Tensor x = randn({3, 2, 8});
  const uint64_t draws = default_generator(kCpu).get_state().offset;
  layer(x);
  EXPECT_EQ(default_generator(kCpu).get_state().offset, draws);
  EXPECT_EQ(generator.get_state().offset, 4u);
}

}  // namespace
}  // namespace wick::testing
