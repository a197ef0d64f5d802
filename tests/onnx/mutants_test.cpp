#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <random>

#include "wick/core/core.h"
#include "wick/core/file.h"
#include "wick/onnx/onnx.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/temporary_folder.h"
#include "wick/tests/onnx/cases.h"

// Models that are well formed and wrong: ops, attributes, inputs and integers of real models are
// changed at random. Each loads and runs, or is an error of one sentence.
namespace wick::testing {
namespace {

using ::onnx::ModelProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;

class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  void change(ModelProto& model) {
    auto& graph = *model.mutable_graph();
    NodeProto& node = *graph.mutable_node(below(graph.node_size()));
    const NodeProto& other = graph.node(below(graph.node_size()));
    switch (below(6)) {
      case 0: node.set_op_type(other.op_type()); break;
      case 1: node.mutable_attribute()->CopyFrom(other.attribute()); break;
      case 2:
        if (node.input_size() > 0 && other.input_size() > 0) {
          node.set_input(below(node.input_size()), other.input(below(other.input_size())));
        }
        break;
      case 3:
        if (graph.initializer_size() > 0) {
          change(*graph.mutable_initializer(below(graph.initializer_size())));
        }
        break;
      default:
        if (node.attribute_size() > 0) {
          change(*node.mutable_attribute(below(node.attribute_size())));
        }
    }
  }

 private:
  int below(int count) { return static_cast<int>(random_() % static_cast<uint32_t>(count)); }
  int64_t integer() {
    constexpr int64_t kHostile[] = {-3,        -1,        0,         1,         2,         9,
                                    INT64_MAX, INT64_MIN, INT32_MIN, 1LL << 40, -1LL << 40};
    return kHostile[below(std::size(kHostile))];
  }

  void change(::onnx::AttributeProto& attribute) {
    if (attribute.has_i()) attribute.set_i(integer());
    if (attribute.has_f()) attribute.set_f(below(2) == 0 ? NAN : -1e30F);
    if (attribute.has_s()) attribute.set_s("other");
    if (attribute.has_t()) change(*attribute.mutable_t());
    if (attribute.ints_size() == 0) return;
    if (below(3) == 0) {
      attribute.add_ints(integer());
    } else {
      attribute.set_ints(below(attribute.ints_size()), integer());
    }
  }
  void change(TensorProto& tensor) {
    if (tensor.data_type() == TensorProto::INT64 && tensor.raw_data().size() >= 8) {
      const int64_t value = integer();
      std::memcpy(tensor.mutable_raw_data()->data(), &value, 8);
    } else if (tensor.dims_size() > 0 && below(2) == 0) {
      tensor.mutable_dims()->SwapElements(0, tensor.dims_size() - 1);
    } else if (tensor.dims_size() > 0) {
      tensor.mutable_dims()->RemoveLast();
      tensor.add_dims(1);
    }
  }

  std::mt19937 random_;
};

constexpr uint32_t kMutants = 12;  // of each model

TEST(Mutants, RunOrAreErrorsOfOneSentence) {
  const int threads = num_threads();
  set_num_threads(1);  // the models are small
  const TemporaryFolder folder;
  const std::string path = folder.path("mutant.onnx");
  int ran = 0, refused = 0;
  uint32_t seed = 0;
  for (const std::string& name : onnx_case_names()) {
    ModelProto good;
    ASSERT_TRUE(good.ParseFromString(read_file(onnx_case(name) + ".onnx", 1 << 30)));
    const Tensor x = load_safetensors(onnx_case(name) + ".safetensors").at("x");
    for (uint32_t i = 0; i < kMutants; ++i, ++seed) {
      SCOPED_TRACE(concat(name, ", seed ", seed));
      ModelProto bad = good;
      Mutator(seed).change(bad);
      write_file(path, bad.SerializeAsString());
      const std::string text = error_of([&] {
        nn::Handle<onnx::Module> net = onnx::load(path);
        const Tensor y = net(x);
        if (y.requires_grad()) y.sum().backward();
      });
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      ++(text == "no error" ? ran : refused);
    }
  }
  set_num_threads(threads);
  EXPECT_GT(ran, 60);
  EXPECT_GT(refused, 60);
}

}  // namespace
}  // namespace wick::testing
