// Graph files whose attributes no function gives an op: each is an error before the op computes.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "wick/core/core.h"
#include "wick/core/graph/executor.h"
#include "wick/core/graph/trace.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/temporary_folder.h"

namespace wick::testing {
namespace {

using Json = nlohmann::json;
using Tensors = std::vector<Tensor>;

constexpr int64_t kHuge = int64_t{1} << 62;

// An attribute of the first node of `op`, and what the error says of it.
struct Row {
  const char* op;
  const char* attribute;
  Json value;
  const char* error;
};

class WrongAttributes : public ::testing::Test {
 protected:
  void expect_refused(const TensorFunction& function, const Tensors& examples,
                      const std::vector<Row>& rows) const {
    const std::string path = folder_.path("graph.json");
    const graph::Graph made = graph::trace(function, examples);
    graph::save(made, path);
    EXPECT_NO_THROW(run(graph::load(path), examples));
    const Json good = Json::parse(std::ifstream(path));
    for (const Row& row : rows) {
      SCOPED_TRACE(concat(row.op, " ", row.attribute, " = ", row.value.dump()));
      Json bad = good;
      const auto node = std::find_if(bad["nodes"].begin(), bad["nodes"].end(),
                                     [&](const Json& each) { return each["op"] == row.op; });
      ASSERT_NE(node, bad["nodes"].end()) << made;
      ASSERT_TRUE((*node)["attributes"].contains(row.attribute)) << node->dump();
      (*node)["attributes"][row.attribute] = row.value;
      std::ofstream(path) << bad;
      expect_error([&] { run(graph::load(path), examples); }, {row.error});
    }
  }

  TemporaryFolder folder_;
};

// An input of the first node of `op` becomes another value of the graph; -1: none.
struct OtherInput {
  const char* op;
  size_t input;
  int other;
  const char* error;
};

void expect_inputs_refused(const TensorFunction& function, const Tensors& examples,
                           const std::vector<OtherInput>& rows) {
  const TemporaryFolder folder;
  const std::string path = folder.path("graph.json");
  const graph::Graph made = graph::trace(function, examples);
  graph::save(made, path);
  const Json good = Json::parse(std::ifstream(path));
  for (const OtherInput& row : rows) {
    SCOPED_TRACE(concat(row.op, " ", row.input, " ", row.other));
    Json bad = good;
    const auto node = std::find_if(bad["nodes"].begin(), bad["nodes"].end(),
                                   [&](const Json& each) { return each["op"] == row.op; });
    ASSERT_NE(node, bad["nodes"].end()) << made;
    (*node)["inputs"][row.input] = row.other;
    std::ofstream(path) << bad;
    expect_error([&] { run(graph::load(path), examples); }, {row.error});
  }
}

TEST(WrongInputs, OfNormsAreErrors) {
  expect_inputs_refused(
      [](const Tensors& in) -> Tensors {
        return {layer_norm(in[0], {6}, in[1], in[2]),
                rms_norm(in[0], {6}, in[1]),
                add_layer_norm(in[0], in[0], {6}, in[1], in[2]).sum,
                group_norm(in[0], 2, in[1], in[2]),
                batch_norm(in[0], in[1], in[2], in[3], in[3], {.training = false}),
                linear(in[0], in[0], in[1].narrow(0, 0, 4))};
      },
      {randn({4, 6}), randn({6}), randn({6}), ones({6}), ones({2, 3})},
      {
          {"layer_norm", 0, -1, "undefined"},
          {"layer_norm", 3, 4, "layer_norm: wrong number of inputs: got a residual"},
          {"rms_norm", 3, 4, "rms_norm: wrong number of inputs: got a residual"},
          {"add_layer_norm", 3, -1, "add_layer_norm: wrong number of inputs: got no residual"},
          {"add_layer_norm", 3, 4, "add_layer_norm: residual must match x"},
          {"group_norm", 1, 4, "group_norm: residual must match x"},
          {"batch_norm_eval", 4, -1, "batch_norm_eval: running_mean or running_var is missing"},
          {"batch_norm_eval", 5, -1, "batch_norm_eval: running_mean or running_var is missing"},
          {"batch_norm_eval", 1, 4, "batch_norm_eval: residual must match x"},
          {"batch_norm_eval", 2, 4, "batch_norm_eval: weight has the wrong shape"},
          {"linear", 2, 1, "linear: bias has the wrong shape"},
      });
}

TEST(WrongInputs, OfMatricesAreErrors) {
  expect_inputs_refused(
      [](const Tensors& in) -> Tensors {
        return {linalg::solve_triangular(in[0], in[1], true), linalg::cholesky(in[0]),
                linalg::eigh(in[0]).w};
      },
      {eye(3), randn({3, 2}), randn({4, 4}), randn({3}), randn({2, 3, 3})},
      {
          {"solve_triangular", 0, 1, "solve_triangular: b does not fit"},
          {"solve_triangular", 0, 2, "solve_triangular: b does not fit"},
          {"solve_triangular", 0, 4, "solve_triangular: b does not fit"},
          {"solve_triangular", 1, 3, "solve_triangular: needs matrices"},
          {"cholesky", 0, 1, "cholesky: needs square matrices"},
          {"eigh", 0, 1, "eigh: needs square matrices"},
      });
}

TEST(WrongInputs, OfElementwiseGradientsAreErrors) {
  expect_inputs_refused(
      [](const Tensors& in) -> Tensors {
        const Tensor leaf = in[0].detach().set_requires_grad();
        return grad({square(leaf)}, {leaf}, {ones_like(in[0])});
      },
      {randn({5, 7}), randn({5})},
      {{"square_backward", 1, 1, "square_backward: the gradient does not fit"}});
}

TEST(WrongInputs, OfTargetsAreErrors) {
  expect_inputs_refused(
      [](const Tensors& in) -> Tensors {
        const Tensor leaf = in[0].detach().set_requires_grad();
        return grad({cross_entropy(leaf, in[1])}, {leaf});
      },
      {randn({3, 5}), tensor<int64_t>({0, 4, 1}, Shape{3}), tensor<int64_t>({0, 5, 1}, Shape{3})},
      {{"cross_entropy_backward", 2, 2,
        "cross_entropy_backward: target out of range: got class 5 at position 1"}});
}

TEST(WrongInputs, OfAttentionAreErrors) {
  const TemporaryFolder folder;
  const std::string path = folder.path("graph.json");
  const Tensor x = randn({1, 2, 9, 4});
  const Tensors examples = {x, x.to(kFloat16), x.to(kBFloat16), randn({1, 2, 9, 4}, kFloat64)};
  graph::save(graph::trace(
                  [](const Tensors& in) -> Tensors {
                    const Tensor leaf = in[0].detach().set_requires_grad();
                    const Tensor y = scaled_dot_product_attention(leaf, leaf, leaf);
                    return {y, grad({y}, {leaf}, {ones_like(in[0])})[0]};
                  },
                  examples),
              path);
  const Json good = Json::parse(std::ifstream(path));
  // Memory of another dtype, or numbers of more bits, than the kernel would read.
  struct Case {
    int other;
    bool is_bfloat16;
  };
  for (const Case& row : std::vector<Case>{{1, false}, {2, false}, {3, true}}) {
    for (const char* op : {"fused_attention", "fused_attention_backward"}) {
      SCOPED_TRACE(concat(op, " ", row.other));
      Json bad = good;
      const auto node = std::find_if(bad["nodes"].begin(), bad["nodes"].end(),
                                     [&](const Json& each) { return each["op"] == op; });
      ASSERT_NE(node, bad["nodes"].end());
      const size_t first = op == std::string("fused_attention") ? 0 : 1;
      for (size_t i = first; i < first + 3; ++i) (*node)["inputs"][i] = row.other;
      (*node)["attributes"]["is_bfloat16"] = row.is_bfloat16;
      std::ofstream(path) << bad;
      expect_error([&] { run(graph::load(path), examples); }, {"not for this dtype"});
    }
  }
}

// A graph says that attention is of bfloat16, and gives gradients of more bits: these count.
TEST(WrongInputs, OfMoreBitsThanAttentionExpectsAreComputed) {
  const TemporaryFolder folder;
  const std::string path = folder.path("graph.json");
  const Tensors examples = {randn({1, 2, 40, 24}).to(kBFloat16).to(kFloat32),
                            randn({1, 2, 40, 24})};
  const auto attend = [](const Tensors& in) -> Tensors {
    const Tensor leaf = in[0].detach().set_requires_grad();
    return grad({scaled_dot_product_attention(leaf, leaf, leaf)}, {leaf}, {in[1]});
  };
  graph::save(graph::trace(attend, examples), path);
  Json changed = Json::parse(std::ifstream(path));
  for (Json& node : changed["nodes"]) {
    if (node["op"] == "fused_attention_backward") node["attributes"]["is_bfloat16"] = true;
  }
  std::ofstream(path) << changed;
  EXPECT_TRUE(bit_equal(run(graph::load(path), examples)[0], attend(examples)[0]));
}

// The results of `function`, and its gradients.
TensorFunction with_gradients(const TensorFunction& function) {
  return [function](const Tensors& given) {
    Tensors in;
    for (const Tensor& x : given) in.push_back(x.detach().set_requires_grad());
    Tensors results = function(in);
    const Tensors gradients = grad({results[0]}, in, {ones_like(results[0].detach())});
    results.insert(results.end(), gradients.begin(), gradients.end());
    return results;
  };
}

TEST_F(WrongAttributes, OfConvolutions) {
  const TensorFunction images = with_gradients([](const Tensors& in) -> Tensors {
    return {conv2d(in[0], in[1], {}, {1, 1}, {1, 1}, {1, 1}, 2)};
  });
  const TensorFunction volumes = with_gradients(
      [](const Tensors& in) -> Tensors { return {conv3d(in[0], in[1], {}, 1, 1, 1, 2)}; });
  std::vector<Row> rows;
  for (const char* op : {"conv2d", "conv2d_backward_input", "conv2d_backward_weight"}) {
    for (const int64_t groups : {int64_t{0}, int64_t{-3}, int64_t{4}, kHuge}) {
      rows.push_back({op, "groups", groups, op});
    }
    rows.push_back({op, "stride", {0, 0}, "stride must be at least 1"});
    rows.push_back({op, "stride", {1}, "weight needs 4 axes"});
    rows.push_back({op, "padding", {-1, 0}, "padding must be at least 0"});
    rows.push_back({op, "padding", {kHuge, 0}, "padding must be at most"});
    rows.push_back({op, "dilation", {kHuge, 1}, "dilation must be at most"});
    rows.push_back({op, "dilation", {1, 9}, "kernel is larger than the padded image"});
  }
  rows.push_back({"conv2d_backward_input", "size", {kHuge, 6}, "conv2d_backward_input: "});
  rows.push_back({"conv2d_backward_input", "size", {6, 7}, "the gradient has the wrong shape"});
  rows.push_back({"conv2d_backward_weight", "kernel", {3, 0}, "kernel is larger"});
  rows.push_back({"conv2d_backward_weight", "kernel", Json::array(), "expected two numbers"});
  expect_refused(images, {randn({2, 4, 6, 6}), randn({6, 2, 3, 3})}, rows);
  std::vector<Row> of_volumes;
  for (const char* op : {"conv3d", "conv3d_backward_input", "conv3d_backward_weight"}) {
    of_volumes.push_back({op, "groups", 0, op});
    of_volumes.push_back({op, "groups", kHuge, op});
    of_volumes.push_back({op, "stride", {1, 0, 1}, "stride must be at least 1"});
    of_volumes.push_back({op, "dilation", {1, 1, kHuge}, "dilation must be at most"});
  }
  of_volumes.push_back({"conv3d_backward_input", "size", {4, 4}, "expected 3 numbers"});
  of_volumes.push_back({"conv3d_backward_weight", "kernel", {-1, 3, 3}, "negative size"});
  expect_refused(volumes, {randn({1, 4, 4, 4, 4}), randn({2, 2, 3, 3, 3})}, of_volumes);
}

TEST_F(WrongAttributes, OfWindows) {
  for (const bool is_maximum : {true, false}) {
    const TensorFunction pool = with_gradients([=](const Tensors& in) -> Tensors {
      return {is_maximum ? max_pool2d(in[0], 2) : avg_pool2d(in[0], 2)};
    });
    std::vector<Row> rows;
    const std::string name = is_maximum ? "max_pool2d" : "avg_pool2d", back = name + "_backward";
    for (const char* op : {name.c_str(), back.c_str()}) {
      for (const int64_t wrong : {int64_t{0}, int64_t{-1}, kHuge}) {
        rows.push_back({op, "kernel_size", {wrong, 2}, "windows do not fit"});
        rows.push_back({op, "stride", {2, wrong}, "windows do not fit"});
        rows.push_back({op, "dilation", {wrong, 1}, "windows do not fit"});
      }
      rows.push_back({op, "padding", {-1, 0}, "windows do not fit"});
      rows.push_back({op, "padding", {2, 0}, "windows do not fit"});
      rows.push_back({op, "stride", Json::array(), "windows do not fit"});
      rows.push_back({op, "adaptive", true, "windows do not fit"});
    }
    rows.push_back({back.c_str(), "image", {kHuge, 6}, "windows do not fit"});
    rows.push_back({back.c_str(), "image", {9, 6}, "the gradient has the wrong shape"});
    expect_refused(pool, {randn({2, 3, 6, 6})}, rows);
  }
  const TensorFunction resize = with_gradients([](const Tensors& in) -> Tensors {
    return {interpolate(in[0], Shape{9, 8}, Interpolation::kBilinear)};
  });
  std::vector<Row> rows;
  for (const char* op : {"interpolate", "interpolate_backward"}) {
    rows.push_back({op, "rule", 9, "a rule or scale does not fit"});
    rows.push_back({op, "scale_h", 1e300, "a rule or scale does not fit"});
    rows.push_back({op, "scale_w", {{"real", "nan"}}, "a rule or scale does not fit"});
    rows.push_back({op, "size", {kHuge, 8}, "too large"});
    rows.push_back({op, "size", {9}, "wrong number of axes"});
  }
  expect_refused(resize, {randn({2, 3, 6, 6})}, rows);
}

TEST_F(WrongAttributes, OfViews) {
  const TensorFunction views = [](const Tensors& in) -> Tensors {
    const Tensor& x = in[0];
    return {x.reshape({6, 4}),  x.permute({2, 0, 1}), x.expand({5, 2, 3, 4}), x.slice(1, 0, 3, 2),
            unfold(x, 2, 2, 1), diagonal(x, 0, 0, 1), split(x, {1, 2}, 1)[0]};
  };
  expect_refused(views, {randn({2, 3, 4})},
                 {{"reshape", "shape", {0, 0}, "reshape: sizes do not fit"},
                  {"reshape", "shape", {-6, -4}, "negative size"},
                  {"reshape", "shape", {kHuge, 4}, "too large"},
                  {"permute", "axes", {9, 0, 1}, "permute"},
                  {"permute", "axes", {0, 0, 1}, "permute: wrong axes"},
                  {"permute", "axes", {0, 1}, "permute: wrong axes"},
                  {"expand", "shape", {2}, "expand: sizes do not fit"},
                  {"expand", "shape", {kHuge, 2, 3, 4}, "too large"},
                  {"slice", "axis", 5, "slice"},
                  {"slice", "start", -1, "slice: out of range"},
                  {"slice", "length", kHuge, "slice: out of range"},
                  {"slice", "step", 0, "slice: out of range"},
                  {"slice", "step", kHuge, "slice: out of range"},
                  {"unfold_axis", "step", 0, "unfold: step"},
                  {"unfold_axis", "size", -3, "unfold: size out of range"},
                  {"unfold_axis", "axis", kHuge, "unfold"},
                  {"diagonal", "axis0", 7, "diagonal"},
                  {"diagonal", "axis1", 0, "diagonal: axes are the same"},
                  {"diagonal", "offset", -kHuge, "a result is not as it was traced"},
                  {"split", "sizes", {4, -1}, "slice: out of range"}});
}

TEST_F(WrongAttributes, OfAxesAndGroups) {
  const TensorFunction reduces = [](const Tensors& in) -> Tensors {
    const Tensor& x = in[0];
    const Tensor weight = ones({4});
    return {sum(x, {1}),
            var(x, {1}),
            argmax(x, 1),
            softmax(x, 1),
            cumsum(x, 1),
            topk(x, 2, -1).values,
            group_norm(x, 3, {}, {}),
            layer_norm(x, {4}, weight, {}),
            cat({x, x}, 1),
            index_select(x, 1, in[1]),
            gather(x, 1, in[2])};
  };
  std::vector<Row> rows;
  for (const int64_t wrong : {int64_t{-5}, int64_t{3}, kHuge}) {
    rows.push_back({"sum", "axes", {wrong}, "sum: wrong axes"});
    rows.push_back({"var", "axes", {1, wrong}, "var: wrong axes"});
    for (const char* op : {"cumsum", "cat", "index_select", "gather"}) {
      rows.push_back({op, "axis", wrong, op});
    }
    if (wrong == kHuge) continue;
    for (const char* op : {"softmax", "arg_reduce"}) rows.push_back({op, "axis", wrong, op});
  }
  for (const int64_t wrong : {int64_t{0}, int64_t{-3}, int64_t{2}, kHuge}) {
    rows.push_back({"group_norm", "groups", wrong, "group_norm: groups"});
  }
  for (const int64_t wrong : {int64_t{-3}, int64_t{5}, kHuge}) {
    rows.push_back({"topk", "k", wrong, "topk: k out of range"});
  }
  rows.push_back({"layer_norm", "axes", -1, "layer_norm: wrong number of axes"});
  rows.push_back({"layer_norm", "axes", 2, "layer_norm: weight has the wrong shape"});
  // Whatever the check of the indices says, the op does not read beyond its tensor.
  rows.push_back({"check_index", "high", 1, "index out of range: got 2"});
  rows.push_back({"index_select", "skip", 1000, "index_select: wrong indices"});
  expect_refused(reduces, {randn({2, 3, 4}), tensor<int64_t>({2, 0}), zeros({2, 1, 4}, kInt64)},
                 rows);
}

TEST_F(WrongAttributes, HideNoIndices) {
  const std::string path = folder_.path("graph.json");
  save(graph::trace([](const Tensors& in) -> Tensors { return {index_select(in[0], 0, in[1])}; },
                    {randn({3, 2}), tensor<int64_t>({2, 0})}),
       path);
  Json json = Json::parse(std::ifstream(path));
  for (Json& node : json["nodes"]) {
    if (node["op"] == "check_index") node["attributes"]["high"] = kHuge;
  }
  std::ofstream(path) << json;
  const graph::Graph read = graph::load(path);
  EXPECT_NO_THROW(run(read, {randn({3, 2}), tensor<int64_t>({2, 0})}));
  expect_error(
      [&] {
        run(read, {randn({3, 2}), tensor<int64_t>({2, 3000})});
      },
      {"index_select: index out of range: got 3000, expected one in [0, 2]"});
}

// Nodes that no function makes: views of memory, and memory.
TEST_F(WrongAttributes, OfMemory) {
  const std::string path = folder_.path("graph.json");
  save(graph::trace([](const Tensors& in) -> Tensors { return {in[0] + 1}; }, {randn({2, 3})}),
       path);
  const Json good = Json::parse(std::ifstream(path));
  const auto run_with = [&](const char* op, const Json& inputs, const Json& attributes) {
    Json json = good;
    json["nodes"][0]["op"] = op;
    json["nodes"][0]["inputs"] = inputs;
    json["nodes"][0]["attributes"] = attributes;
    std::ofstream(path) << json;
    run(graph::load(path), {randn({2, 3})});
  };
  const auto alias = [&](int64_t offset, const Json& shape, const Json& strides) {
    run_with("alias", {0}, {{"offset", offset}, {"shape", shape}, {"strides", strides}});
  };
  const auto memory = [&](const Json& shape, const Json& strides) {
    run_with("empty", Json::array(),
             {{"shape", shape}, {"strides", strides}, {"dtype", "float32"}, {"device", "cpu"}});
  };
  EXPECT_NO_THROW(alias(0, {2, 3}, {3, 1}));
  EXPECT_NO_THROW(memory({2, 3}, {3, 1}));
  const char* const beyond = "alias: a view reaches beyond its memory";
  for (const int64_t offset : {int64_t{1}, int64_t{-1}, kHuge}) {
    expect_error([&] { alias(offset, {2, 3}, {3, 1}); }, {beyond});
  }
  expect_error([&] { alias(kHuge, {0, 3}, {3, 1}); }, {beyond});
  expect_error([&] { alias(0, {2, 3}, {kHuge, 1}); }, {beyond});
  expect_error([&] { alias(0, {2, 3}, {-3, 1}); }, {beyond});
  expect_error([&] { alias(0, {2, -3}, {3, 1}); }, {beyond});
  expect_error([&] { alias(0, {kHuge, 4}, {0, 0}); }, {beyond});
  expect_error([&] { alias(0, {2, 3}, {1}); }, {beyond});
  expect_error([&] { memory({kHuge, 3}, {3, 1}); }, {"too large"});
  expect_error([&] { memory({2, -3}, {3, 1}); }, {"negative size"});
  expect_error([&] { memory({2, 3}, {kHuge, 1}); }, {"empty"});
  expect_error([&] { memory({2, 3}, {1}); }, {"empty"});
}

}  // namespace
}  // namespace wick::testing
