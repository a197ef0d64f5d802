#include "wick/core/graph/host_call.h"

#include <memory>

#include "wick/core/graph/trace.h"

namespace wick::graph {

namespace {

struct HostWork {
  std::function<Tensor(const std::vector<Tensor>&)> work;
  std::vector<Tensor> leaves;
};

// Inputs: the leaves' gradients, the leaves, the other tensors.
struct HostCall {
  static constexpr OpInfo info{.name = "host_call", .differentiable = false, .any_device = true};
  std::string name;
  std::shared_ptr<const HostWork> work;  // has no written form
  static constexpr auto fields =
      std::tuple{field("name", &HostCall::name), field("work", &HostCall::work)};

  std::vector<Tensor> forward(Saved&, std::span<const Tensor> inputs) const {
    WICK_CHECK(work, "host_call: ", name, ": it cannot be read from a file");
    const size_t n = work->leaves.size();
    for (size_t i = 0; i < n; ++i) {
      const Tensor& leaf = work->leaves[i];
      if (inputs[i].defined() && !leaf.grad().is_same(inputs[i])) leaf.set_grad(inputs[i]);
    }
    const std::vector<Tensor> tensors(inputs.begin() + static_cast<std::ptrdiff_t>(2 * n),
                                      inputs.end());
    return {work->work(tensors)};
  }
};

// Not among the registered ops, as no file can name it.
const OpType& host_call_type() {
  static constexpr OpType type = wick::detail::make_op_type<HostCall>();
  return type;
}

}  // namespace

Tensor host_call(const std::string& name, std::function<Tensor(const std::vector<Tensor>&)> work,
                 const std::vector<Tensor>& leaves, const std::vector<Tensor>& tensors) {
  if (!is_tracing()) return work(tensors);
  std::vector<Tensor> inputs;
  for (const Tensor& leaf : leaves) inputs.push_back(leaf.grad());
  inputs.insert(inputs.end(), leaves.begin(), leaves.end());
  inputs.insert(inputs.end(), tensors.begin(), tensors.end());
  const NoGrad no_grad;
  const HostCall call{name, std::make_shared<HostWork>(HostWork{std::move(work), leaves})};
  return run_op(host_call_type(), &call, inputs)[0];
}

bool is_host_call(const Node& node) { return &node.op.type() == &host_call_type(); }

size_t num_leaves(const Node& node) {
  return static_cast<const HostCall*>(node.op.get())->work->leaves.size();
}

bool is_lasting(const Node& node) { return is_host_call(node) || node.op.info().exchanges; }

bool changes(const Node& node, size_t i) {
  if (!node.body.empty()) return false;
  return is_host_call(node) || (i < 32 && (node.op.info().mutates >> i & 1) != 0);
}

}  // namespace wick::graph
