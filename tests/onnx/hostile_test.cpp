#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <filesystem>
#include <functional>

#include "wick/core/core.h"
#include "wick/core/file.h"
#include "wick/onnx/onnx.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/temporary_folder.h"
#include "wick/tests/onnx/cases.h"

// Files that are not as they should be: one sentence each.
namespace wick::testing {
namespace {

using ::onnx::ModelProto;
using ::onnx::TensorProto;

void add_node(ModelProto& model, const char* op, const std::vector<std::string>& inputs,
              const std::string& output) {
  auto& node = *model.mutable_graph()->add_node();
  node.set_op_type(op);
  node.set_name("the_" + output);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(output);
}

void add_integers(ModelProto& model, const char* name, const std::vector<int64_t>& shape,
                  const std::vector<int64_t>& values) {
  auto& tensor = *model.mutable_graph()->add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(TensorProto::INT64);
  for (const int64_t size : shape) tensor.add_dims(size);
  for (const int64_t value : values) tensor.add_int64_data(value);
}

// y = x + w of [2, 3] and [3].
ModelProto sum_model() {
  ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  auto& input = *model.mutable_graph()->add_input();
  input.set_name("x");
  auto& type = *input.mutable_type()->mutable_tensor_type();
  type.set_elem_type(TensorProto::FLOAT);
  for (const int64_t size : {2, 3}) type.mutable_shape()->add_dim()->set_dim_value(size);
  auto& weight = *model.mutable_graph()->add_initializer();
  weight.set_name("layer.w");
  weight.set_data_type(TensorProto::FLOAT);
  weight.add_dims(3);
  for (const float x : {1.0F, 2.0F, 3.0F}) weight.add_float_data(x);
  add_node(model, "Add", {"x", "layer.w"}, "y");
  model.mutable_graph()->add_output()->set_name("y");
  return model;
}

class Hostile : public ::testing::Test {
 protected:
  nn::Handle<onnx::Module> load(const ModelProto& model) {
    const std::string path = folder_.path("model.onnx");
    write_file(path, model.SerializeAsString());
    return onnx::load(path);
  }
  void refused(const std::function<void(ModelProto&)>& spoil,
               const std::vector<std::string>& parts) {
    ModelProto model = sum_model();
    spoil(model);
    expect_error([&] { load(model); }, parts);
  }
  static TensorProto& weight(ModelProto& model) {
    return *model.mutable_graph()->mutable_initializer(0);
  }

  TemporaryFolder folder_;
};

TEST_F(Hostile, TheModelItselfIsRead) {
  nn::Handle<onnx::Module> net = load(sum_model());
  EXPECT_TRUE(net(zeros({2, 3})).equal(tensor({1.0F, 2.0F, 3.0F}).expand({2, 3})));
  ASSERT_EQ(net->named_parameters().size(), 1U);
  EXPECT_EQ(net->named_parameters()[0].first, "layer.w");
}

TEST_F(Hostile, EveryTruncationIsAnErrorOrAModel) {
  const std::string whole = read_file(onnx_case("resnet") + ".onnx", 1 << 20);
  const std::string path = folder_.path("cut.onnx");
  int errors = 0;
  for (size_t length = 0; length < whole.size(); length += 61) {
    write_file(path, whole.substr(0, length));
    const std::string text = error_of([&] { onnx::load(path); });
    errors += text != "no error";
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }
  EXPECT_GT(errors, 100);
  expect_error([&] { onnx::load(folder_.path("none.onnx")); }, {"none.onnx"});
}

TEST_F(Hostile, OtherVersionsAreNamed) {
  refused([](ModelProto& m) { m.set_ir_version(99); }, {"another version", "got 99"});
  refused([](ModelProto& m) { m.mutable_opset_import(0)->set_version(9); },
          {"another opset", "got 9, expected 13 to 21"});
  refused([](ModelProto& m) { m.clear_opset_import(); }, {"another opset"});
}

TEST_F(Hostile, GraphsThatAreNotInOrderAreNamed) {
  refused([](ModelProto& m) { m.mutable_graph()->mutable_node(0)->set_input(1, "y"); },
          {"node the_y (Add): the node reads y", "cycle"});
  refused([](ModelProto& m) { m.mutable_graph()->mutable_node(0)->set_input(1, "q"); },
          {"the_y (Add): the node reads q, which nothing makes"});
  refused([](ModelProto& m) { add_node(m, "Relu", {"x"}, "y"); }, {"name that is taken: got y"});
  refused([](ModelProto& m) { m.mutable_graph()->mutable_output(0)->set_name("z"); },
          {"result reads z"});
  refused([](ModelProto& m) { m.mutable_graph()->clear_output(); }, {"no outputs"});
}

TEST_F(Hostile, UnknownOpsAreNamed) {
  refused([](ModelProto& m) { m.mutable_graph()->mutable_node(0)->set_op_type("Loop"); },
          {"the_y", "unknown op: got Loop"});
  refused([](ModelProto& m) { m.mutable_graph()->mutable_node(0)->set_domain("com.example"); },
          {"unknown op: got Add of domain com.example"});
  refused([](ModelProto& m) { m.mutable_graph()->mutable_node(0)->add_input("x"); },
          {"the_y (Add)", "wrong number of inputs: got 3, expected 2 to 2"});
  refused(
      [](ModelProto& m) {
        auto& attribute = *m.mutable_graph()->mutable_node(0)->add_attribute();
        attribute.set_name("body");
        attribute.set_type(::onnx::AttributeProto::GRAPH);
      },
      {"attribute body is of type 5"});
}

TEST_F(Hostile, SizesAreCheckedBeforeMemoryIsTaken) {
  refused([](ModelProto& m) { weight(m).set_dims(0, 4); },
          {"layer.w", "got 3 elements, expected 4"});
  refused([](ModelProto& m) { weight(m).set_dims(0, int64_t{1} << 31); },
          {"layer.w", "got 3 elements, expected 2147483648"});
  refused(
      [](ModelProto& m) {
        weight(m).set_dims(0, int64_t{1} << 29);
        weight(m).set_raw_data("1234");
      },
      {"layer.w", "got 4 bytes, expected 2147483648"});
  refused([](ModelProto& m) { weight(m).set_dims(0, -3); }, {"layer.w"});
  refused([](ModelProto& m) { weight(m).set_dims(0, INT64_MAX), weight(m).add_dims(INT64_MAX); },
          {"layer.w"});
  refused(
      [](ModelProto& m) {
        for (int i = 0; i < 9; ++i) weight(m).add_dims(1);
      },
      {"layer.w", "too many axes"});
  refused([](ModelProto& m) { weight(m).set_data_type(8); }, {"layer.w", "dtype 8"});
}

// A claim of 2 GB within a file of a few bytes: field 7 (the graph) of that length.
TEST_F(Hostile, ALengthBeyondTheFileIsATruncation) {
  const std::string path = folder_.path("claim.onnx");
  write_file(path, std::string("\x08\x08\x3a\xff\xff\xff\xff\x07", 8));
  expect_error([&] { onnx::load(path); }, {"claim.onnx", "truncated"});
}

TEST_F(Hostile, ExternalDataStaysInTheFolderOfTheModel) {
  const auto external = [](ModelProto& m, const std::string& location, const char* length) {
    weight(m).clear_float_data();
    weight(m).set_data_location(TensorProto::EXTERNAL);
    auto& entry = *weight(m).add_external_data();
    entry.set_key("location"), entry.set_value(location);
    auto& size = *weight(m).add_external_data();
    size.set_key("length"), size.set_value(length);
  };
  write_file(folder_.path("weights.bin"), std::string("\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40", 12));
  ModelProto good = sum_model();
  external(good, "weights.bin", "12");
  EXPECT_TRUE(load(good)(zeros({1, 3})).equal(tensor({1.0F, 2.0F, 3.0F}, Shape{1, 3})));
  for (const char* location : {"../weights.bin", "/etc/passwd", "", "a/../../weights.bin"}) {
    refused([&](ModelProto& m) { external(m, location, "12"); }, {"layer.w", "outside the folder"});
  }
  std::filesystem::create_symlink("/etc/passwd", folder_.path("link"));
  refused([&](ModelProto& m) { external(m, "link", "12"); }, {"outside the folder"});
  refused([&](ModelProto& m) { external(m, "weights.bin", "8"); }, {"got 8 bytes, expected 12"});
  refused([&](ModelProto& m) { external(m, "weights.bin", "-1"); }, {"no whole number: got -1"});
  refused(
      [&](ModelProto& m) {
        external(m, "weights.bin", "16");
        weight(m).set_dims(0, 4);
      },
      {"reaches beyond its file: got 12 bytes, expected 16"});
}

TEST_F(Hostile, CallsOfTheModuleNameWhatIsWrong) {
  nn::Handle<onnx::Module> net = load(sum_model());
  expect_error([&] { net(zeros({2, 4})); }, {"input x has a wrong shape: got [2, 4]"});
  expect_error([&] { net(zeros({3})); }, {"input x has a wrong shape"});
  expect_error([&] { net(zeros({2, 3}, kInt64)); }, {"input x has a wrong dtype: got int64"});
  expect_error([&] { net->forward(std::vector<Tensor>{}); }, {"number of inputs: got 0"});
  ModelProto model = sum_model();
  model.mutable_graph()->mutable_node(0)->set_op_type("Reshape");
  model.mutable_graph()->mutable_node(0)->set_input(1, "x");
  expect_error(
      [&] {
        load(model)(zeros({2, 3}));
      },
      {"node the_y (Reshape): input 1 is not known on the host"});
}

// y = op(x, at), or op(x, at, w).
TEST_F(Hostile, CoordinatesAreChecked) {
  const Tensor x = tensor({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}, Shape{2, 3});
  const auto run = [&](const char* op, const std::vector<int64_t>& shape,
                       const std::vector<int64_t>& at, const char* reduction = "none") {
    ModelProto model = sum_model();
    add_integers(model, "at", shape, at);
    auto& node = *model.mutable_graph()->mutable_node(0);
    node.set_op_type(op);
    node.set_input(1, "at");
    if (std::string(op) == "ScatterND") {
      node.add_input("layer.w");
      auto& attribute = *node.add_attribute();
      attribute.set_name("reduction");
      attribute.set_type(::onnx::AttributeProto::STRING);
      attribute.set_s(reduction);
    }
    return load(model)(x).to_vector<float>();
  };
  using Row = std::vector<float>;
  EXPECT_EQ(run("GatherND", {2, 2}, {0, 1, -1, -1}), (Row{2, 6}));
  EXPECT_EQ(run("GatherND", {1, 1}, {-1}), (Row{4, 5, 6}));
  EXPECT_EQ(run("ScatterND", {3, 2}, {0, 0, -1, 1, 0, -1}), (Row{1, 2, 3, 4, 2, 6}));
  EXPECT_EQ(run("ScatterND", {1}, {1}, "none"), (Row{1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(run("ScatterND", {3, 2}, {0, 0, 1, 1, 0, 0}, "add"), (Row{5, 2, 3, 4, 7, 6}));
  for (const char* op : {"GatherND", "ScatterND"}) {
    expect_error(
        [&] {
          run(op, {3, 2}, {0, 0, 0, 3, 0, 0});
        },
        {op, "a coordinate along axis 1 is out of range: expected -3 to 2"});
    expect_error([&] { run(op, {1, 3}, {0, 0, 0}); }, {op, "has no coordinates of input 0"});
    expect_error([&] { run(op, {}, {0}); }, {op, "has no coordinates of input 0"});
  }
  expect_error(
      [&] {
        run("ScatterND", {2, 2}, {0, 0, 0, 0});
      },
      {"input 2 has a wrong shape: got [3], expected [2]"});
  expect_error([&] { run("ScatterND", {1}, {0}, "mul"); }, {"attribute reduction: got mul"});
}

// y = part `place` of x, split along axis 1 as `split` says.
TEST_F(Hostile, SequencesAreReadPartByPart) {
  const Tensor x = tensor({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}, Shape{2, 3});
  const auto part = [&](const std::vector<int64_t>& shape, const std::vector<int64_t>& split,
                        int64_t place) {
    ModelProto model = sum_model();
    model.mutable_graph()->clear_node();
    add_integers(model, "split", shape, split);
    add_integers(model, "place", {}, {place});
    add_node(model, "SplitToSequence", {"x", "split"}, "parts");
    auto& axis = *model.mutable_graph()->mutable_node(0)->add_attribute();
    axis.set_name("axis"), axis.set_type(::onnx::AttributeProto::INT), axis.set_i(1);
    add_node(model, "SequenceAt", {"parts", "place"}, "y");
    return load(model)(x).to_vector<float>();
  };
  using Row = std::vector<float>;
  EXPECT_EQ(part({}, {2}, 0), (Row{1, 2, 4, 5}));
  EXPECT_EQ(part({}, {2}, -1), (Row{3, 6}));
  EXPECT_EQ(part({2}, {1, 2}, 1), (Row{2, 3, 5, 6}));
  expect_error([&] { part({}, {2}, 2); }, {"the_y (SequenceAt)", "got 2 of 2 parts"});
  expect_error([&] { part({}, {0}, 0); }, {"the size of a part: got 0"});
  expect_error([&] { part({2}, {1, 1}, 0); }, {"the_y (SequenceAt)"});
  refused([](ModelProto& m) { m.mutable_graph()->mutable_node(0)->set_op_type("SequenceAt"); },
          {"the_y (SequenceAt): input 0 is no result of SplitToSequence"});
  ModelProto whole = sum_model();
  whole.mutable_graph()->mutable_node(0)->set_op_type("SplitToSequence");
  add_integers(whole, "split", {}, {1});
  whole.mutable_graph()->mutable_node(0)->set_input(1, "split");
  expect_error([&] { load(whole)(x); }, {"output y is a result of an op"});
}

// One node that computes y of x, which is of `shape`, and of `others`.
ModelProto node_model(const char* op, const std::vector<int64_t>& shape,
                      const std::vector<std::string>& others = {}) {
  ModelProto model = sum_model();
  auto& dims = *model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type();
  dims.clear_shape();
  for (const int64_t size : shape) dims.mutable_shape()->add_dim()->set_dim_value(size);
  auto& node = *model.mutable_graph()->mutable_node(0);
  node.set_op_type(op);
  node.clear_input();
  node.add_input("x");
  for (const std::string& other : others) node.add_input(other);
  return model;
}

::onnx::AttributeProto& add_attribute(ModelProto& model, const char* name,
                                      ::onnx::AttributeProto::AttributeType type) {
  auto& attribute = *model.mutable_graph()->mutable_node(0)->add_attribute();
  attribute.set_name(name);
  attribute.set_type(type);
  return attribute;
}

TEST_F(Hostile, NearestElementsAreTheFormerOrTheLatterOfTwo) {
  const Tensor x = arange(6).to(kFloat32).view({1, 1, 1, 6});
  for (const bool by_sizes : {true, false}) {
    for (const bool ceil : {false, true}) {
      ModelProto model = node_model("Resize", {1, 1, 1, 6}, {"", by_sizes ? "" : "to"});
      if (by_sizes) {
        model.mutable_graph()->mutable_node(0)->add_input("to");
        add_integers(model, "to", {4}, {1, 1, 1, 3});
      } else {
        TensorProto& scales = *model.mutable_graph()->add_initializer();
        scales.set_name("to");
        scales.set_data_type(TensorProto::FLOAT);
        scales.add_dims(4);
        for (const float scale : {1.0F, 1.0F, 1.0F, 0.5F}) scales.add_float_data(scale);
      }
      if (ceil) {
        add_attribute(model, "nearest_mode", ::onnx::AttributeProto::STRING)
            .set_s("round_prefer_ceil");
      }
      EXPECT_EQ(load(model)(x).to_vector<float>(),
                ceil ? (std::vector<float>{1, 3, 5}) : (std::vector<float>{0, 2, 4}));
    }
  }
}

TEST_F(Hostile, FiltersOfResizingThatWickHasNotAreNamed) {
  const auto refuse = [&](const std::function<void(ModelProto&)>& spoil,
                          const std::vector<std::string>& parts) {
    ModelProto model = node_model("Resize", {1, 1, 4, 6}, {"", "", "to"});
    add_integers(model, "to", {4}, {1, 1, 2, 3});
    add_attribute(model, "mode", ::onnx::AttributeProto::STRING).set_s("cubic");
    const Tensor x = ones({1, 1, 4, 6});
    EXPECT_EQ(load(model)(x).shape(), (Shape{1, 1, 2, 3}));
    spoil(model);
    expect_error([&] { load(model)(x); }, parts);
  };
  for (const char* name : {"antialias", "exclude_outside"}) {
    refuse([&](ModelProto& m) { add_attribute(m, name, ::onnx::AttributeProto::INT).set_i(1); },
           {name, "got 1, expected 0"});
  }
  refuse(
      [](ModelProto& m) {
        add_attribute(m, "cubic_coeff_a", ::onnx::AttributeProto::FLOAT).set_f(-0.5F);
      },
      {"cubic_coeff_a", "got -0.5, expected -0.75"});
  refuse(
      [](ModelProto& m) {
        add_attribute(m, "keep_aspect_ratio_policy", ::onnx::AttributeProto::STRING)
            .set_s("not_larger");
      },
      {"keep_aspect_ratio_policy", "got not_larger, expected stretch"});
  refuse(
      [](ModelProto& m) {
        auto& axes = add_attribute(m, "axes", ::onnx::AttributeProto::INTS);
        for (const int64_t axis : {1, 0, 2, 3}) axes.add_ints(axis);
      },
      {"attribute axes: got [1, 0, 2, 3]"});
}

TEST_F(Hostile, ResponsesOfAnEvenNumberOfChannelsAreThoseFromEachOn) {
  ModelProto model = node_model("LRN", {1, 4, 1, 1});
  add_attribute(model, "size", ::onnx::AttributeProto::INT).set_i(2);
  add_attribute(model, "alpha", ::onnx::AttributeProto::FLOAT).set_f(2);
  add_attribute(model, "beta", ::onnx::AttributeProto::FLOAT).set_f(1);
  const Tensor y = load(model)(tensor<float>({1, 2, 3, 4}, Shape{1, 4, 1, 1}));
  EXPECT_TRUE(y.flatten().allclose(tensor<float>({1.0F / 6, 2.0F / 14, 3.0F / 26, 4.0F / 17})));
}

TEST_F(Hostile, NamesThatAreNoPathsAreRegisteredAllTheSame) {
  ModelProto model = sum_model();
  std::string deep = "a";
  for (int i = 0; i < 1000; ++i) deep += ".a";
  for (const std::string& name : {std::string("layer"), std::string("layer.w.x"), std::string(".."),
                                  std::string("w."), deep}) {
    TensorProto& more = *model.mutable_graph()->add_initializer();
    more.CopyFrom(weight(model));
    more.set_name(name);
  }
  EXPECT_EQ(load(model)->named_parameters().size(), 6U);
}

}  // namespace
}  // namespace wick::testing
