#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "wick/core/apply.h"

// The ops that passed the door during a call (docs/graphs.md). trace() makes a graph, passes change
// it, an Executor runs it.
namespace wick::graph {

/// Number of a value of a graph; kNone stands for an undefined tensor.
using ValueId = int32_t;
inline constexpr ValueId kNone = -1;

/// What a graph knows of one tensor.
struct Value {
  Shape shape;
  Strides strides;
  Dtype dtype = Dtype::kFloat32;
  Device device;
  ValueId root = kNone;  // the first value that shares its memory; itself for one of its own
};

/// A tensor that no node makes: a parameter, a buffer, a table.
struct Constant {
  ValueId value = kNone;
  Tensor tensor;            // the same handle as the program's, so that a run sees it change
  std::string name = {};    // "layer1.weight", where one is known
  bool copied = false;      // each run starts from a copy, since the run changes it
  bool is_private = false;  // the graph alone has the handle
  /// The leaf, for a gradient. A run reads the gradient that the leaf has then, not `tensor`, which
  /// may be undefined.
  Tensor gradient_of = {};
};

/// An op with its attributes.
class OpInstance {
 public:
  OpInstance(const OpType& type, const void* op) : type_(&type), op_(type.copy(op)) {}
  OpInstance(const OpInstance& other) : OpInstance(*other.type_, other.op_) {}
  OpInstance(OpInstance&& other) noexcept
      : type_(other.type_), op_(std::exchange(other.op_, nullptr)) {}
  OpInstance& operator=(OpInstance other) noexcept {
    std::swap(type_, other.type_);
    std::swap(op_, other.op_);
    return *this;
  }
  ~OpInstance() {
    if (op_ != nullptr) type_->destroy(op_);
  }

  const OpType& type() const { return *type_; }       // its functions
  const OpInfo& info() const { return type_->info; }  // its name and what the door needs
  const void* get() const { return op_; }  // the op itself, as functions of type() take it
  /// The values of its fields, in their order.
  std::vector<NamedAttribute> attributes() const { return type_->attributes(op_); }
  /// Gives one of the attributes another value. Error if there is none of that name and kind.
  void set(const char* name, const Attribute& value);

 private:
  const OpType* type_;
  void* op_;
};

/// One op of a graph, or with a body several that run as one.
struct Node {
  OpInstance op;
  std::vector<ValueId> inputs = {};
  std::vector<ValueId> outputs = {};
  /// What the op keeps for its backward, as far as another node reads it; kNone for the rest. Empty
  /// if nothing is read.
  std::vector<ValueId> kept = {};
  uint64_t needs = 0;        // which inputs wanted a gradient, where `kept` is not empty
  int64_t draw = -1;         // of a random op: which draw of a run it is
  int64_t workspace = 0;     // bytes it asked for beside its results when traced; not saved
  std::string place = {};    // the module it ran in, where one is known
  std::vector<Node> body{};  // of fused elementwise ops; `op` is then the last of them
};

/// Ops in their order. Value ids are given once: by an input, a constant or a node. A node that
/// changes memory in place gives it a new id, of the same root.
struct Graph {
  std::vector<Value> values;
  std::vector<ValueId> inputs;
  std::vector<Constant> constants;
  std::vector<Node> nodes;
  std::vector<ValueId> outputs;
  int64_t draws = 0;  // from the default generator of `device`, in one run
  Device device;

  /// The value of that number. Throws std::out_of_range if there is none, as for kNone.
  Value& value(ValueId id) { return values.at(static_cast<size_t>(id)); }
  const Value& value(ValueId id) const { return values.at(static_cast<size_t>(id)); }
};

/// Error, which names the node, unless all ids are in range, and each value is made once and before
/// its use. Shapes and strides must fit each other, and constants their values.
void check(const Graph& graph);

/// Calls `visit(id)` for each value that a node reads, or makes.
void for_each_input(const Node& node, const std::function<void(ValueId)>& visit);
void for_each_output(const Node& node, const std::function<void(ValueId)>& visit);

/// Whether a node changes its input `i` in place.
bool changes(const Node& node, size_t i);
/// Which memory some node changes in place: by root.
std::vector<bool> changed_roots(const Graph& graph);

/// Which memory nodes make from inputs, constants that are no copies, or draws: by root. Not what
/// the host may hold: inputs, constants, and what a host_call or an exchange with other ranks gets
/// or gives.
std::vector<bool> made_roots(const Graph& graph);

/// A line per value and node: "%3: float32[2, 4] = matmul(%0, %1)".
std::string to_string(const Graph& graph);
std::ostream& operator<<(std::ostream& out, const Graph& graph);
/// For Graphviz: `dot -Tsvg`.
std::string to_dot(const Graph& graph);

/// Writes the structure as JSON to `path` and the constants to `path`.safetensors. Error, and
/// nothing written, for an op with an attribute that has no written form.
void save(const Graph& graph, const std::string& path);
/// Reads the files of save(), with constants on their devices. The files are not trusted: each
/// deviation from the format is an error that names the file.
Graph load(const std::string& path);

}  // namespace wick::graph
