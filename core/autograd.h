#pragma once

#include <functional>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "wick/core/base/scoped_value.h"
#include "wick/core/tensor.h"

namespace wick {

/// One gradient per input of an op (undefined where none is needed), or per output of one.
using Gradients = std::vector<Tensor>;

/// Whether operations on this thread are recorded for backward.
bool grad_enabled();
bool inference_mode();  // whether results can never take part in backward

/// Turns recording off while it lives: results require no gradient and nothing is saved.
class NoGrad {
 public:
  NoGrad();

 private:
  ScopedValue<bool> enabled_;
};

/// Turns recording on (or, with false, off) while it lives.
class EnableGrad {
 public:
  explicit EnableGrad(bool enabled = true);

 private:
  ScopedValue<bool> enabled_;
};

/// NoGrad whose results can never take part in backward; using one there is an error.
class InferenceMode {
 public:
  InferenceMode();

 private:
  NoGrad no_grad_;
  ScopedValue<bool> inference_;
};

/// Shape, dtype and device: what the engine checks gradients against.
struct TensorMeta {
  Shape shape;
  Dtype dtype = Dtype::kFloat32;
  Device device;
  bool defined = false;

  TensorMeta() = default;
  explicit TensorMeta(const Tensor& tensor);
};

/// Where a gradient flows next: output `index` of `node`. Null where none is wanted.
struct Edge {
  Ref<Node> node;
  int index = 0;
};

/// One step of the graph that backward walks: takes gradients of its outputs, gives those of its
/// inputs.
class Node : public RefCounted {
 public:
  explicit Node(uint64_t sequence) : sequence_(sequence) {}
  ~Node() override;

  /// The op with its attributes, for error messages.
  virtual std::string name() const = 0;
  /// Whose backward it is: the op, and the module that it ran in where a profiler or a search for
  /// anomalies had asked for that.
  struct Origin {
    const char* op;
    std::string_view module;
  };
  virtual Origin origin() const = 0;
  /// `grads`: one per output, undefined where unused. Returns one per entry of next().
  virtual Gradients backward(Gradients grads) = 0;
  /// Forgets saved tensors, after which backward is an error.
  virtual void release_saved() {}

  /// Where the gradients of its inputs go: one edge per input, null where none is required.
  const std::vector<Edge>& next() const { return next_; }
  /// Later operations have larger numbers; leaves have the largest, so that they run at once.
  uint64_t sequence() const { return sequence_; }
  int num_outputs() const { return static_cast<int>(outputs_.size()); }  // of the op
  /// The GPU's stream that the outputs were made on, where backward runs too; that of the CPU if
  /// they are on the CPU, and for leaves, whose gradients are collected on the caller's stream.
  Stream stream() const { return stream_; }

  using Hook = std::function<Tensor(const Tensor&)>;
  /// `hook` gets the gradient of output `output` before backward() does. A defined result replaces
  /// it, and must have its shape, dtype and device. An undefined result changes nothing. Error
  /// unless the node has such an output.
  void add_hook(int output, Hook hook);
  /// Runs the hooks on the gradients of this node's outputs.
  void run_hooks(Gradients& grads) const;

 protected:
  friend class Graph;
  std::vector<Edge> next_;
  std::vector<TensorMeta> outputs_;
  uint64_t sequence_;
  Stream stream_;
  std::vector<std::pair<int, Hook>> hooks_;
};

/// Collects the gradient of one leaf. Backward passes of several threads may add to it at once.
class AccumulateGrad final : public Node {
 public:
  explicit AccumulateGrad(const Tensor& leaf);
  std::string name() const override { return "accumulate_grad"; }
  Origin origin() const override { return {"accumulate_grad", {}}; }
  Gradients backward(Gradients grads) override;

  Tensor grad;
  std::vector<std::function<void(const Tensor&)>> post_hooks;
  bool is_frozen = false;  // takes no gradients now, also of graphs that were recorded before

 private:
  void add(Tensor& incoming);

  Strides strides_;
  std::mutex mutex_;  // held while `grad` changes, not by hooks
};

/// A tensor's place in the graph.
class AutogradMeta {
 public:
  Ref<Node> node;  // what made it; an AccumulateGrad for a leaf
  int output_index = 0;
  Ref<AccumulateGrad> frozen;  // of a leaf that required a gradient before, with its hooks
};

/// Whether no other handle holds `tensor` or its memory, but for `others` of the memory, and every
/// element of the memory is its own: it may be changed unseen.
bool is_exclusive(const Tensor& tensor, int others = 0);

/// Where the gradient of `tensor` goes; a null edge if it requires none.
Edge gradient_edge(const Tensor& tensor);

/// Gradients of `outputs` (each one element, or weighted by the tensor in `grad_outputs`) with
/// respect to `inputs`, which may be any tensors of the graph; no grad() is changed. An input that
/// the outputs do not depend on is an error, or undefined with `allow_unused`.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& grad_outputs = {}, bool retain_graph = false,
                         bool create_graph = false, bool allow_unused = false);

/// Differentiates several outputs at once into the leaves' grad(); see Tensor::backward.
///
/// On a GPU each op's backward runs on the stream of its forward. The gradients that are given are
/// of the caller's current stream, and so are those that are made for leaves and returned by
/// grad(): events order what passes between streams, and no stream is waited for by the host.
void backward(const std::vector<Tensor>& outputs, const std::vector<Tensor>& grad_outputs = {},
              bool retain_graph = false, bool create_graph = false);

/// Calls `function`, which must not throw, when the outermost backward under way on this thread
/// ends, be it by an error; at once if there is none.
void at_end_of_backward(std::function<void()> function);

/// Adds `gradient` over the axes along which `shape` was broadcast to the gradient's shape.
Tensor sum_to(const Tensor& gradient, const Shape& shape);

}  // namespace wick
