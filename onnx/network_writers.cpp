#include <cmath>
#include <limits>

#include "wick/core/core.h"
#include "wick/onnx/detail/writer.h"

// How products, convolutions, poolings, normalisations and recurrent layers are written.
namespace wick::onnx::detail {

namespace {

std::vector<int64_t> twice(const std::vector<int64_t>& pads) {
  std::vector<int64_t> both = pads;
  both.insert(both.end(), pads.begin(), pads.end());
  return both;
}

// What follows an op's last node: null for nothing.
using Following = void (*)(Emit& emit, const std::string& x);
void finish_with_relu(Emit& emit, const std::string& x) { emit.finish("Relu", {x}); }

void finish_with(Emit& emit, Following follow, const char* op,
                 const std::vector<std::string>& inputs,
                 const std::vector<Written>& attributes = {}) {
  if (follow == nullptr) return emit.finish(op, inputs, attributes);
  follow(emit, emit.add(op, inputs, attributes));
}

void linear_node(Emit& emit, Following follow) {
  if (emit.value(0).shape.rank() == 2) {
    return finish_with(emit, follow, "Gemm", {emit.in(0), emit.in(1), emit.in(2)},
                       {{"transB", int64_t{1}}});
  }
  const std::string weight =
      emit.add("Transpose", {emit.in(1)}, {{"perm", std::vector<int64_t>{1, 0}}});
  if (!emit.has(2)) return finish_with(emit, follow, "MatMul", {emit.in(0), weight});
  finish_with(emit, follow, "Add", {emit.add("MatMul", {emit.in(0), weight}), emit.in(2)});
}
void linear_writer(Emit& emit) { linear_node(emit, nullptr); }
void linear_relu_writer(Emit& emit) { linear_node(emit, finish_with_relu); }
void linear_gelu_writer(Emit& emit) { linear_node(emit, finish_with_gelu_tanh); }

void linear_sum_writer(Emit& emit) {
  const std::string weight =
      emit.add("Transpose", {emit.in(1)}, {{"perm", std::vector<int64_t>{1, 0}}});
  std::string y = emit.add("MatMul", {emit.in(0), weight});
  if (emit.has(2)) y = emit.add("Add", {y, emit.in(2)});
  emit.finish("Add", {y, emit.in(3)});
}

void matmul_scaled_writer(Emit& emit) {
  const std::string y = emit.add("MatMul", {emit.in(0), emit.in(1)});
  emit.finish("Mul", {y, emit.number(emit.real("scale"))});
}
void matmul_writer(Emit& emit) { emit.finish("MatMul", {emit.in(0), emit.in(1)}); }
void addmm_writer(Emit& emit) {
  emit.finish("Gemm", {emit.in(1), emit.in(2), emit.in(0)},
              {{"alpha", emit.real("alpha")}, {"beta", emit.real("beta")}});
}

std::vector<Written> conv_attributes(Emit& emit) {
  return {{"strides", emit.list("stride")},
          {"pads", twice(emit.list("padding"))},
          {"dilations", emit.list("dilation")},
          {"group", emit.integer("groups")}};
}
void conv_writer(Emit& emit) {
  emit.finish("Conv", {emit.in(0), emit.in(1), emit.in(2)}, conv_attributes(emit));
}
void conv_fused_writer(Emit& emit) {
  const std::vector<std::string> inputs = {emit.in(0), emit.in(1), emit.in(2)};
  const Following follow = emit.truth("relu") ? finish_with_relu : nullptr;
  if (!emit.has(3)) return finish_with(emit, follow, "Conv", inputs, conv_attributes(emit));
  finish_with(emit, follow, "Add", {emit.add("Conv", inputs, conv_attributes(emit)), emit.in(3)});
}
// The gradient of a convolution's input is a transposed convolution.
void conv_transpose_writer(Emit& emit) {
  std::vector<Written> attributes = conv_attributes(emit);
  const std::vector<int64_t> stride = emit.list("stride"), padding = emit.list("padding"),
                             dilation = emit.list("dilation"), size = emit.list("size");
  std::vector<int64_t> extra;
  for (size_t i = 0; i < size.size(); ++i) {
    const int axis = static_cast<int>(i) + 2;
    const int64_t least = (emit.value(0).shape[axis] - 1) * stride[i] - 2 * padding[i] +
                          dilation[i] * (emit.value(1).shape[axis] - 1) + 1;
    extra.push_back(size[i] - least);
  }
  attributes.push_back({"output_padding", extra});
  emit.finish("ConvTranspose", {emit.in(0), emit.in(1)}, attributes);
}

// Windows that tile an image evenly, as an adaptive pooling has them.
std::vector<Written> tiles(Emit& emit) {
  std::vector<int64_t> kernel;
  for (int i = 2; i < 4; ++i) {
    const int64_t from = emit.value(0).shape[i], to = emit.result().shape[i];
    WICK_CHECK(to > 0 && from % to == 0, "adaptive windows of several sizes: got ", from, " to ",
               to, ", expected a multiple");
    kernel.push_back(from / to);
  }
  return {{"kernel_shape", kernel}, {"strides", kernel}};
}
std::vector<Written> windows(Emit& emit) {
  if (emit.truth("adaptive")) return tiles(emit);
  return {{"kernel_shape", emit.list("kernel_size")},
          {"strides", emit.list("stride")},
          {"pads", twice(emit.list("padding"))},
          {"ceil_mode", int64_t{emit.truth("ceil_mode")}}};
}
void max_pool_writer(Emit& emit) {
  std::vector<Written> attributes = windows(emit);
  if (!emit.truth("adaptive")) attributes.push_back({"dilations", emit.list("dilation")});
  emit.finish("MaxPool", {emit.in(0)}, attributes);
}
void avg_pool_writer(Emit& emit) {
  WICK_CHECK(emit.integer("divisor") == 0, "divisor_override: got ", emit.integer("divisor"),
             ", expected none");
  std::vector<Written> attributes = windows(emit);
  if (!emit.truth("adaptive")) {
    attributes.push_back({"count_include_pad", int64_t{emit.truth("count_include_pad")}});
  }
  emit.finish("AveragePool", {emit.in(0)}, attributes);
}

// Of [N, C, ...] by channel: a tensor of ones or zeros where the op has none.
std::string channels(Emit& emit, size_t i, double otherwise) {
  return emit.has(i)
             ? emit.in(i)
             : emit.constant(full({emit.value(0).shape[1]}, otherwise, emit.value(0).dtype));
}
void batch_norm_writer(Emit& emit) {
  const std::vector<std::string> inputs{emit.in(0), channels(emit, 2, 1), channels(emit, 3, 0),
                                        channels(emit, 4, 0), channels(emit, 5, 1)};
  const std::vector<Written> attributes{{"epsilon", emit.real("eps")}};
  const Following follow = emit.truth("relu") ? finish_with_relu : nullptr;
  if (!emit.has(1)) return finish_with(emit, follow, "BatchNormalization", inputs, attributes);
  const std::string y = emit.add("BatchNormalization", inputs, attributes);
  finish_with(emit, follow, "Add", {y, emit.in(1)});
}

void layer_norm_writer(Emit& emit) {
  const int64_t axes = emit.integer("axes");
  const Shape shape = emit.value(0).shape;
  Shape last;
  for (int64_t i = shape.rank() - axes; i < shape.rank(); ++i) {
    last.push_back(shape[static_cast<int>(i)]);
  }
  const std::string weight =
      emit.has(1) ? emit.in(1) : emit.constant(ones(last, emit.value(0).dtype));
  std::string x = emit.in(0);
  if (emit.has(3)) {  // the sum is the second result
    x = emit.add("Add", {x, emit.in(3)});
    emit.finish_one(1, "Identity", {x});
  }
  emit.finish_one(0, "LayerNormalization", {x, weight, emit.in(2)},
                  {{"axis", -axes}, {"epsilon", emit.real("eps")}});
}

// Groups as the channels of an instance norm, then weight and bias by channel.
void group_norm_writer(Emit& emit) {
  const int64_t groups = emit.integer("groups");
  const Shape shape = emit.value(0).shape;
  const Dtype dtype = emit.value(0).dtype;
  std::string y = emit.add("Reshape", {emit.in(0), emit.constant({0, groups, -1})});
  y = emit.add("InstanceNormalization",
               {y, emit.constant(ones({groups}, dtype)), emit.constant(zeros({groups}, dtype))},
               {{"epsilon", emit.real("eps")}});
  y = emit.add("Reshape", {y, emit.constant({shape.begin(), shape.end()})});
  std::vector<int64_t> by_channel{-1};
  by_channel.resize(static_cast<size_t>(shape.rank() - 1), 1);
  const auto per_channel = [&](size_t i) {
    return emit.add("Reshape", {emit.in(i), emit.constant(by_channel)});
  };
  if (emit.has(2)) y = emit.add("Mul", {y, per_channel(2)});
  if (emit.has(3)) y = emit.add("Add", {y, per_channel(3)});
  if (emit.has(1)) y = emit.add("Add", {y, emit.in(1)});
  emit.finish(emit.truth("relu") ? "Relu" : "Identity", {y});
}

void interpolate_writer(Emit& emit) {
  const Shape from = emit.value(0).shape, to = emit.result().shape;
  const bool align_corners = emit.truth("align_corners");
  const int64_t rule = emit.integer("rule");  // nearest, exactly nearest, linear, cubic
  constexpr const char* kModes[] = {"nearest", "nearest", "linear", "cubic"};
  std::vector<Written> attributes{{"mode", std::string(kModes[rule])}};
  const char* where = rule == 0 ? "asymmetric" : align_corners ? "align_corners" : "half_pixel";
  attributes.push_back({"coordinate_transformation_mode", std::string(where)});
  if (rule < 2) {
    attributes.push_back({"nearest_mode", std::string(rule == 0 ? "floor" : "round_prefer_ceil")});
  }
  if (rule == 3) attributes.push_back({"cubic_coeff_a", -0.75});
  const char* kScales[] = {"scale_h", "scale_w"};
  for (int i = 2; i < 4 && !align_corners; ++i) {
    const double own = emit.real(kScales[i - 2]);
    const double plain = static_cast<double>(from[i]) / static_cast<double>(to[i]);
    WICK_CHECK(std::abs(own - plain) < 1e-9 * plain, "a scale other than that of the sizes: got ",
               own, ", expected ", plain);
  }
  emit.finish("Resize", {emit.in(0), "", "", emit.constant({to.begin(), to.end()})}, attributes);
}

// Wick's gates in ONNX's order: i f g o as i o f g, and r z n as z r n.
std::string in_onnx_order(Emit& emit, size_t i, RnnKind kind) {
  std::vector<int64_t> order{0};
  if (kind == RnnKind::kLstm) order = {0, 3, 1, 2};
  if (kind == RnnKind::kGru) order = {1, 0, 2};
  const int64_t hidden = emit.value(i).shape[0] / gates_of(kind);
  std::vector<int64_t> rows;
  for (const int64_t gate : order) {
    for (int64_t row = 0; row < hidden; ++row) rows.push_back(gate * hidden + row);
  }
  return emit.add("Gather", {emit.in(i), emit.constant(rows)});
}

std::string with_axis(Emit& emit, const std::string& x, int64_t axis) {
  return x.empty() ? x : emit.add("Unsqueeze", {x, emit.constant(std::vector<int64_t>{axis})});
}

// A layer over sequences of one length, in one direction, or in both with the weights of either.
void write_rnn(Emit& emit, const std::string& direction) {
  const auto kind = static_cast<RnnKind>(emit.integer("kind"));
  const std::vector<int64_t> sizes = emit.list("batch_sizes");
  const auto steps = static_cast<int64_t>(sizes.size());
  WICK_CHECK(sizes.front() == sizes.back() && !emit.has(7),
             "sequences of several lengths, or projections, expected neither");
  const bool is_bidirectional = direction == "bidirectional";
  const int64_t hidden = emit.value(4).shape[1];
  const std::string x =
      emit.add("Reshape", {emit.in(0), emit.constant({steps, sizes[0], emit.value(0).shape[1]})});
  // Of each direction, one after the other.
  const auto stacked = [&](auto part) {
    const std::string first = with_axis(emit, part(0), 0);
    if (!is_bidirectional || first.empty()) return first;
    return emit.add("Concat", {first, with_axis(emit, part(5), 0)}, {{"axis", int64_t{0}}});
  };
  const auto bias = [&](size_t i) {
    if (!emit.has(i + 5)) return std::string();
    return emit.add("Concat", {in_onnx_order(emit, i + 5, kind), in_onnx_order(emit, i + 6, kind)},
                    {{"axis", int64_t{0}}});
  };
  const auto state = [&](size_t i) {
    return is_bidirectional ? emit.in(i) : with_axis(emit, emit.in(i), 0);
  };
  std::vector<std::string> inputs{
      x,
      stacked([&](size_t i) { return in_onnx_order(emit, i + 3, kind); }),
      stacked([&](size_t i) { return in_onnx_order(emit, i + 4, kind); }),
      stacked(bias),
      "",
      state(1)};
  std::vector<Written> attributes{{"hidden_size", hidden}};
  if (direction != "forward") attributes.push_back({"direction", direction});
  const char* op = kind == RnnKind::kLstm ? "LSTM" : kind == RnnKind::kGru ? "GRU" : "RNN";
  if (kind == RnnKind::kLstm) inputs.push_back(state(2));
  if (kind == RnnKind::kGru) attributes.push_back({"linear_before_reset", int64_t{1}});
  WICK_CHECK(kind != RnnKind::kRelu, "a recurrent layer of ReLU, expected tanh, LSTM or GRU");
  std::vector<std::string> results =
      emit.add_several(op, inputs, attributes, kind == RnnKind::kLstm ? 3 : 2);
  if (is_bidirectional) {  // [T, 2, B, H] to what has both directions of a row side by side
    results[0] = emit.add("Transpose", {results[0]}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  }
  for (size_t i = 0; i < results.size() && i < emit.num_outputs(); ++i) {
    emit.finish_one(
        i, "Reshape",
        {results[i], emit.constant({emit.result(i).shape.begin(), emit.result(i).shape.end()})});
  }
}
void rnn_writer(Emit& emit) { write_rnn(emit, emit.truth("reverse") ? "reverse" : "forward"); }
void library_rnn_writer(Emit& emit) { write_rnn(emit, emit.has(8) ? "bidirectional" : "forward"); }

// [B, K, S, E] with as many heads as the queries have: each serves a group of theirs.
std::string with_heads_of(Emit& emit, size_t i) {
  const Shape &shape = emit.value(i).shape, &queries = emit.value(0).shape;
  if (shape[1] == queries[1]) return emit.in(i);
  const int64_t group = queries[1] / shape[1];
  const std::string grouped = emit.add(
      "Expand", {emit.add("Unsqueeze", {emit.in(i), emit.constant(std::vector<int64_t>{2})}),
                 emit.constant({shape[0], shape[1], group, shape[2], shape[3]})});
  return emit.add("Reshape", {grouped, emit.constant({shape[0], queries[1], shape[2], shape[3]})});
}

// As core/ops/attention.cpp composes it: rows whose keys are all excluded are 0.
void attention_writer(Emit& emit) {
  constexpr double kExcluded = -std::numeric_limits<double>::infinity();
  const Tensor excluded = scalar_tensor(kExcluded, emit.result().dtype);
  const std::string keys =
      emit.add("Transpose", {with_heads_of(emit, 1)}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
  std::string scores =
      emit.add("MatMul", {emit.add("Mul", {emit.in(0), emit.number(emit.real("scale"))}), keys});
  std::string none;
  if (emit.truth("is_causal")) {
    const Shape size = {emit.value(0).shape[2], emit.value(1).shape[2]};
    const Tensor later = triu(full(size, 1, kInt64), 1);
    const Tensor added = masked_fill(zeros(size, emit.result().dtype), gt(later, 0), kExcluded);
    scores = emit.add("Add", {scores, emit.constant(added)});
  } else if (emit.has(3)) {
    scores = emit.value(3).dtype == kBool
                 ? emit.add("Where", {emit.in(3), scores, emit.constant(excluded)})
                 : emit.add("Add", {scores, emit.as_result(3)});
    const std::string most = emit.add("ReduceMax", {scores}, {{"axes", std::vector<int64_t>{-1}}});
    none = emit.add("Equal", {most, emit.constant(excluded)});
    scores = emit.add("Where", {none, emit.number(0), scores});
  }
  std::string weights = emit.add("Softmax", {scores}, {{"axis", int64_t{-1}}});
  if (!none.empty()) weights = emit.add("Where", {none, emit.number(0), weights});
  emit.finish("MatMul", {weights, with_heads_of(emit, 2)});
}

constexpr WriterEntry kNetworkWriters[] = {
    {"linear", linear_writer},
    {"linear_relu", linear_relu_writer},
    {"linear_gelu", linear_gelu_writer},
    {"linear_sum", linear_sum_writer},
    {"matmul", matmul_writer},
    {"matmul_scaled", matmul_scaled_writer},
    {"dot", matmul_writer},
    {"addmm", addmm_writer},
    {"conv2d", conv_writer},
    {"conv2d_fused", conv_fused_writer},
    {"conv3d", conv_writer},
    {"conv2d_backward_input", conv_transpose_writer},
    {"conv3d_backward_input", conv_transpose_writer},
    {"max_pool2d", max_pool_writer},
    {"avg_pool2d", avg_pool_writer},
    {"batch_norm_eval", batch_norm_writer},
    {"layer_norm", layer_norm_writer},
    {"add_layer_norm", layer_norm_writer},
    {"group_norm", group_norm_writer},
    {"interpolate", interpolate_writer},
    {"rnn_layer", rnn_writer},
    {"library_rnn_layer", library_rnn_writer},
    {"fused_attention", attention_writer},
};

}  // namespace

std::span<const WriterEntry> network_writers() { return kNetworkWriters; }

}  // namespace wick::onnx::detail
