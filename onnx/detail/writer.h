#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "wick/core/graph/graph.h"

namespace onnx {
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace wick::onnx::detail {

/// Attributes of a node that is written.
struct Written {
  std::string name;
  std::variant<int64_t, double, std::string, std::vector<int64_t>> value;
};

/// One op of a traced graph, and the ONNX nodes that are written for it.
class Emit {
 public:
  Emit(const graph::Graph& graph, const graph::Node& node, std::vector<std::string>& names,
       const char* onnx, ::onnx::GraphProto& out)
      : graph_(graph), node_(node), names_(names), onnx_(onnx), out_(out) {}

  /// The table's name of the op of ONNX.
  const char* onnx() const { return onnx_; }

  size_t num_inputs() const { return node_.inputs.size(); }
  size_t num_outputs() const { return node_.outputs.size(); }
  bool has(size_t i) const { return i < num_inputs() && node_.inputs[i] != graph::kNone; }
  /// The name of input `i`; "" for an undefined one.
  std::string in(size_t i) const;
  const graph::Value& value(size_t i) const;
  const graph::Value& result(size_t i = 0) const;
  /// Whether input `i` is the first value of its memory, which has no offset.
  bool is_whole(size_t i) const { return value(i).root == node_.inputs[i]; }

  /// Attributes of the op. Error if there is none of that name and kind.
  int64_t integer(const char* name) const;
  double real(const char* name) const;
  bool truth(const char* name) const;
  std::vector<int64_t> list(const char* name) const;
  const char* op() const { return node_.op.info().name; }
  /// Writes a node. Returns the name of its result.
  std::string add(const char* op, const std::vector<std::string>& inputs,
                  const std::vector<Written>& attributes = {});
  /// The same for the op's own results: as many as it has.
  void finish(const char* op, const std::vector<std::string>& inputs,
              const std::vector<Written>& attributes = {});
  /// The same for result `i` alone.
  void finish_one(size_t i, const char* op, const std::vector<std::string>& inputs,
                  const std::vector<Written>& attributes = {});
  /// Writes a node of `count` results, and returns their names.
  std::vector<std::string> add_several(const char* op, const std::vector<std::string>& inputs,
                                       const std::vector<Written>& attributes, size_t count);
  /// A constant for other nodes.
  std::string constant(const Tensor& x);
  std::string constant(const std::vector<int64_t>& list) { return constant(tensor(list)); }
  /// A number of the dtype of the result.
  std::string number(double x) { return constant(scalar_tensor(x, result().dtype)); }
  /// Input `i` in another dtype: ONNX promotes none.
  std::string as(size_t i, Dtype dtype);
  std::string as_result(size_t i) { return as(i, result().dtype); }

 private:
  template <class T>
  T attribute(const char* name) const;
  ::onnx::NodeProto& add_node(const char* op, const std::vector<std::string>& inputs,
                              const std::vector<Written>& attributes);

  const graph::Graph& graph_;
  const graph::Node& node_;
  std::vector<std::string>& names_;
  const char* onnx_;
  ::onnx::GraphProto& out_;
};

/// How an op of Wick is written: one line of a family's table.
struct WriterEntry {
  std::string_view name;
  void (*write)(Emit& emit);
  const char* onnx = "";  // the op of ONNX, where it is one of the same meaning
};

/// The last nodes of an op: GELU by tanh of the value `x`.
void finish_with_gelu_tanh(Emit& emit, const std::string& x);

std::span<const WriterEntry> elementwise_writers();
std::span<const WriterEntry> arranging_writers();
std::span<const WriterEntry> network_writers();

}  // namespace wick::onnx::detail
