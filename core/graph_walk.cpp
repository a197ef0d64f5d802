// Backward: the walk over the graph from outputs to leaves, without recursion.
#include <algorithm>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "wick/core/autograd.h"
#include "wick/core/base/detail/per_thread.h"
#include "wick/core/detail/autocast.h"
#include "wick/core/detail/graph_checks.h"
#include "wick/core/profile/detail/record_op.h"
#include "wick/core/sparse_rows.h"
#include "wick/core/stream.h"

namespace wick {

class Graph {
 public:
  Graph(bool retain_graph, bool create_graph)
      : retain_graph_(retain_graph), create_graph_(create_graph) {}

  void add_root(const Tensor& output, const Tensor& gradient) {
    const Edge edge = gradient_edge(output);
    WICK_CHECK(edge.node,
               "backward: this tensor requires no gradient: nothing it was made from does");
    Tensor seed = gradient;
    if (!seed.defined()) {
      WICK_CHECK(output.numel() == 1,
                 "backward: a tensor of more than one element needs a gradient to weight it: got "
                 "shape ",
                 output.shape());
      seed = ones_like(output.detach());
    }
    check_history("backward", output);
    check_gradient("backward", seed, TensorMeta(output));
    roots_.push_back(edge.node);
    accumulate(edge, seed, current_stream(seed.device()));
  }

  // The gradient that arrives at `input` is to be kept as result `i` instead of being accumulated.
  void capture(const Tensor& input, size_t i) {
    const Edge edge = gradient_edge(input);
    WICK_CHECK(edge.node, "grad: input ", i,
               " requires no gradient: got a tensor outside the graph, expected one in it");
    captures_[edge.node.get()].push_back({edge.index, i});
    kept_nodes_.push_back(edge.node);
  }

  void run(std::vector<Tensor>* results) {
    count_dependencies();
    if (results != nullptr) mark_needed();
    const EnableGrad mode(create_graph_);
    const amp::Pause pause;
    for (const Ref<Node>& root : roots_) enqueue_if_ready(root);
    while (!ready_.empty()) {
      const Ref<Node> node = ready_.top();
      ready_.pop();
      visit(node, results);
    }
  }

 private:
  struct State {
    Gradients grads;
    int64_t waiting = 0;  // edges from nodes that have not run yet
    bool needed = true;
    bool queued = false;
  };
  struct ByAge {
    bool operator()(const Ref<Node>& a, const Ref<Node>& b) const {
      return a->sequence() < b->sequence();
    }
  };

  State& state(const Node* node) {
    State& s = states_[node];
    if (s.grads.empty()) s.grads.resize(static_cast<size_t>(node->num_outputs()));
    return s;
  }

  // Where `node`'s work for `device` runs: outside its own backward, where the caller's streams are
  // the current ones.
  static Stream stream_of(const Node& node, Device device) {
    return node.stream().device == device ? node.stream() : current_stream(device);
  }

  // Orders the use of `tensor` on stream `to` behind its making on `from`.
  static void hand_over(const Tensor& tensor, Stream from, Stream to) {
    if (from == to) return;
    Event made(from.device);
    made.record(from);
    made.block(to);
    gradient_elements(tensor).record_stream(to);
    if (tensor.is_sparse()) sparse_rows(tensor).rows.record_stream(to);
  }

  // `grad` was made on stream `from`.
  void accumulate(const Edge& edge, Tensor grad, Stream from) {
    const Stream to = stream_of(*edge.node, grad.device());
    hand_over(grad, from, to);
    const StreamGuard guard(to);
    Tensor& sum = state(edge.node.get()).grads[static_cast<size_t>(edge.index)];
    if (!sum.defined()) {
      sum = std::move(grad);
    } else if (!create_graph_ && is_exclusive(sum) && !sum.is_sparse() && !grad.is_sparse()) {
      sum.add_(grad);
    } else {
      sum = sum_of_gradients(sum, grad);
    }
  }

  void count_dependencies() {
    std::vector<Node*> stack;
    std::unordered_set<const Node*> seen;
    for (const Ref<Node>& root : roots_) {
      if (seen.insert(root.get()).second) stack.push_back(root.get());
    }
    while (!stack.empty()) {
      Node* node = stack.back();
      stack.pop_back();
      order_.push_back(node);
      for (const Edge& edge : node->next()) {
        if (!edge.node) continue;
        ++state(edge.node.get()).waiting;
        if (seen.insert(edge.node.get()).second) stack.push_back(edge.node.get());
      }
    }
  }

  // Only nodes on a way to a captured input need to run. A node's inputs are older than itself, but
  // for leaves, which come first here.
  void mark_needed() {
    std::sort(order_.begin(), order_.end(), [](const Node* a, const Node* b) {
      const bool leaf_a = a->next().empty(), leaf_b = b->next().empty();
      return leaf_a != leaf_b ? leaf_a : a->sequence() < b->sequence();
    });
    for (Node* node : order_) {
      bool needed = captures_.contains(node);
      for (const Edge& edge : node->next()) {
        needed = needed || (edge.node && states_.at(edge.node.get()).needed);
      }
      state(node).needed = needed;
    }
  }

  void enqueue_if_ready(const Ref<Node>& node) {
    State& s = states_.at(node.get());
    if (s.waiting != 0 || s.queued) return;
    s.queued = true;
    ready_.push(node);
  }

  void visit(const Ref<Node>& node, std::vector<Tensor>* results) {
    profile::Span span(profile::EventKind::kBackward, "");
    if (span) [[unlikely]]
      profile::note_backward(span, *node);
    State& s = states_.at(node.get());
    Gradients grads = std::move(s.grads);
    const bool run = s.needed;
    bool any = false;
    for (const Tensor& g : grads) any = any || g.defined();
    Gradients out(node->next().size());
    if (run && any) {
      run_node(*node, std::move(grads), out, results);
      if (!retain_graph_) node->release_saved();
    }
    for (size_t i = 0; i < node->next().size(); ++i) {
      const Edge& edge = node->next()[i];
      if (!edge.node) continue;
      State& to = states_.at(edge.node.get());
      if (out[i].defined()) {
        const Stream from = stream_of(*node, out[i].device());
        accumulate(edge, std::move(out[i]), from);
      }
      --to.waiting;
      enqueue_if_ready(edge.node);
    }
    states_.erase(node.get());
  }

  // On its own stream.
  void run_node(Node& node, Gradients grads, Gradients& out, std::vector<Tensor>* results) {
    const Stream caller = current_stream(node.stream().device);
    const StreamGuard guard(node.stream());
    node.run_hooks(grads);
    const auto found = captures_.find(&node);
    if (found != captures_.end()) {
      for (const Capture& c : found->second) {
        const Tensor& grad = grads[static_cast<size_t>(c.output)];
        if (grad.defined()) hand_over(grad, node.stream(), caller);
        (*results)[c.result] = grad;
      }
    }
    // grad() leaves the leaves alone, and goes no further where nothing is asked for.
    const bool leaf = node.next().empty();
    if (results != nullptr && (leaf || !leads_on(node))) return;
    out = node.backward(std::move(grads));
  }

  bool leads_on(const Node& node) const {
    for (const Edge& edge : node.next()) {
      if (!edge.node) continue;
      const auto found = states_.find(edge.node.get());
      if (found != states_.end() && found->second.needed) return true;
    }
    return false;
  }

  struct Capture {
    int output;
    size_t result;
  };

  const bool retain_graph_;
  const bool create_graph_;
  std::vector<Ref<Node>> roots_;
  std::vector<Ref<Node>> kept_nodes_;
  std::vector<Node*> order_;
  std::unordered_map<const Node*, State> states_;
  std::unordered_map<const Node*, std::vector<Capture>> captures_;
  std::priority_queue<Ref<Node>, std::vector<Ref<Node>>, ByAge> ready_;
};

namespace {
thread_local int backwards_under_way = 0;
struct EndCalls {
  std::vector<std::function<void()>> list;
};

// One of the backwards under way on this thread.
struct BackwardScope {
  BackwardScope() { ++backwards_under_way; }
  ~BackwardScope() {
    if (--backwards_under_way > 0) return;
    for (const auto& call : std::exchange(per_thread<EndCalls>().list, {})) call();
  }
  BackwardScope(const BackwardScope&) = delete;
  BackwardScope& operator=(const BackwardScope&) = delete;
};

void add_roots(Graph& graph, const char* op, const std::vector<Tensor>& outputs,
               const std::vector<Tensor>& grad_outputs) {
  WICK_CHECK(grad_outputs.empty() || grad_outputs.size() == outputs.size(), op,
             ": wrong number of gradients: got ", grad_outputs.size(), ", expected ",
             outputs.size(), ", one per output");
  for (size_t i = 0; i < outputs.size(); ++i) {
    graph.add_root(outputs[i], grad_outputs.empty() ? Tensor() : grad_outputs[i]);
  }
}
}  // namespace

void at_end_of_backward(std::function<void()> function) {
  if (backwards_under_way == 0) {
    function();
  } else {
    per_thread<EndCalls>().list.push_back(std::move(function));
  }
}

void backward(const std::vector<Tensor>& outputs, const std::vector<Tensor>& grad_outputs,
              bool retain_graph, bool create_graph) {
  Graph graph(retain_graph || create_graph, create_graph);
  add_roots(graph, "backward", outputs, grad_outputs);
  const BackwardScope scope;
  graph.run(nullptr);
}

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& grad_outputs, bool retain_graph,
                         bool create_graph, bool allow_unused) {
  Graph graph(retain_graph || create_graph, create_graph);
  for (size_t i = 0; i < inputs.size(); ++i) graph.capture(inputs[i], i);
  add_roots(graph, "grad", outputs, grad_outputs);
  std::vector<Tensor> results(inputs.size());
  const BackwardScope scope;
  graph.run(&results);
  for (size_t i = 0; i < results.size(); ++i) {
    WICK_CHECK(allow_unused || results[i].defined(), "grad: the outputs do not depend on input ", i,
               ": pass allow_unused = true to get an undefined gradient");
  }
  return results;
}

}  // namespace wick
