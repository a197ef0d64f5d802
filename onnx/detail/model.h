#pragma once

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "wick/onnx/module.h"

// What a file says, checked, and free of Protocol Buffers.
namespace wick::onnx::detail {

using Attribute = std::variant<int64_t, float, std::string, std::vector<int64_t>,
                               std::vector<float>, std::vector<std::string>, Tensor>;

class Call;
/// Computes the results of a node.
using Function = std::vector<Tensor> (*)(Call& call);

/// Number of a value of the model; kNone where a node leaves an input or output out.
using ValueId = int32_t;
inline constexpr ValueId kNone = -1;

struct Node {
  std::string op;
  std::string name;
  std::map<std::string, Attribute, std::less<>> attributes;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  Function function = nullptr;
  std::vector<ValueId> last_used;  // values that no later node reads
};

enum class Role : uint8_t {
  kParameter,
  kBuffer,    // running statistics
  kConstant,  // integers, and numbers that steer an op: kept on the host
};

struct Initializer {
  std::string name;
  ValueId value = kNone;
  Tensor tensor;
  Role role = Role::kParameter;
};

struct Program {
  std::string path;
  int64_t opset = 0;
  std::vector<Input> inputs;
  std::vector<ValueId> input_values;
  std::vector<Initializer> initializers;
  std::vector<Node> nodes;
  std::vector<ValueId> outputs;
  std::vector<std::string> output_names;
  size_t num_values = 0;
};

/// Where a module has an initializer: the groups on the way, then the place among the tensors.
struct TensorPlace {
  std::vector<size_t> groups;
  size_t index = 0;
  bool is_buffer = false;
  ValueId value = kNone;
};

/// Reads and checks a file.
std::shared_ptr<Program> read_program(const std::string& path);

}  // namespace wick::onnx::detail
