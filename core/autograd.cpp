#include "wick/core/autograd.h"

#include "wick/core/apply.h"
#include "wick/core/detail/graph_checks.h"
#include "wick/core/detail/op_recorder.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/sparse_rows.h"

namespace wick {

namespace {
thread_local bool grad_on = true;
thread_local bool inference_on = false;
}  // namespace

bool grad_enabled() { return grad_on; }
bool inference_mode() { return inference_on; }

NoGrad::NoGrad() : enabled_(grad_on, false) {}
EnableGrad::EnableGrad(bool enabled) : enabled_(grad_on, enabled) {}
InferenceMode::InferenceMode() : inference_(inference_on, true) {}

TensorMeta::TensorMeta(const Tensor& tensor) : defined(tensor.defined()) {
  if (!defined) return;
  shape = tensor.shape();
  dtype = tensor.dtype();
  device = tensor.device();
}

void check_gradient(std::string_view source, const Tensor& gradient, const TensorMeta& tensor) {
  WICK_CHECK(gradient.shape() == tensor.shape && gradient.dtype() == tensor.dtype &&
                 gradient.device() == tensor.device,
             source, ": the gradient does not match the tensor: got ", gradient.dtype(), " ",
             gradient.shape(), " on ", gradient.device(), ", expected ", tensor.dtype, " ",
             tensor.shape, " on ", tensor.device);
}

// --- Nodes --------------------------------------------------------------------------------------

Node::~Node() {
  // A graph may be a chain of millions of nodes: let go of them one by one, not recursively.
  thread_local std::vector<Ref<Node>>* waiting = nullptr;
  const auto defer = [](std::vector<Edge>& edges, std::vector<Ref<Node>>& list) {
    for (Edge& edge : edges) {
      if (edge.node) list.push_back(std::move(edge.node));
    }
  };
  if (waiting != nullptr) {
    defer(next_, *waiting);
    return;
  }
  std::vector<Ref<Node>> list;
  waiting = &list;
  defer(next_, list);
  while (!list.empty()) {
    const Ref<Node> node = std::move(list.back());
    list.pop_back();
  }
  waiting = nullptr;
}

void Node::add_hook(int output, Hook hook) {
  WICK_CHECK(output >= 0 && output < num_outputs(), "add_hook: ", name(),
             " has no such output: got ", output, ", expected 0 to ", num_outputs() - 1);
  hooks_.emplace_back(output, std::move(hook));
}

void Node::run_hooks(Gradients& grads) const {
  const auto hooks = hooks_;  // a hook may add hooks
  for (const auto& [output, hook] : hooks) {
    Tensor& grad = grads[static_cast<size_t>(output)];
    if (!grad.defined()) continue;
    const Tensor replaced = hook(grad);
    if (!replaced.defined()) continue;
    check_gradient("hook", replaced, outputs_[static_cast<size_t>(output)]);
    grad = replaced;
  }
}

AccumulateGrad::AccumulateGrad(const Tensor& leaf)
    : Node(UINT64_MAX),
      strides_(is_dense(leaf.shape(), leaf.strides()) ? leaf.strides()
                                                      : contiguous_strides(leaf.shape())) {
  outputs_.emplace_back(leaf);
}

Gradients AccumulateGrad::backward(Gradients grads) {
  if (!grads[0].defined() || is_frozen) return {};
  add(grads[0]);
  const auto hooks = post_hooks;  // a hook may add hooks
  for (const auto& hook : hooks) hook(grad);
  return {};
}

void AccumulateGrad::add(Tensor& incoming) {
  const std::lock_guard lock(mutex_);
  if (op_recorder() != nullptr) op_recorder()->gradient_use(*this, {}, grad, false);
  if (incoming.is_sparse() || (grad.defined() && grad.is_sparse())) {
    if (grad.defined()) {
      grad = sum_of_gradients(grad, incoming);
    } else if (is_exclusive(incoming)) {
      grad = std::move(incoming);
    } else {
      const SparseRows& sparse = sparse_rows(incoming);
      grad = sparse_tensor(sparse.rows, sparse.values, incoming.shape());
    }
  } else if (grad.defined()) {
    if (grad_enabled()) {
      grad = wick::add(grad, incoming);
    } else {
      grad.add_(incoming);
    }
  } else {
    // The gradient is taken over if nobody else holds it, in the leaf's own layout, so that
    // optimizers can walk both as flat arrays. (With create_graph the copy is recorded.)
    const bool is_traced = op_recorder() != nullptr && op_recorder()->holds(incoming);
    if (is_exclusive(incoming, is_traced ? 1 : 0) && incoming.strides() == strides_) {
      grad = std::move(incoming);
    } else {
      const TensorMeta& leaf = outputs_[0];
      grad = empty_strided(leaf.shape, strides_, leaf.dtype, leaf.device);
      grad.copy_(incoming);
    }
  }
}

// --- Tensor's part ------------------------------------------------------------------------------

namespace {
AccumulateGrad* accumulator(const Tensor& tensor) {
  const auto& meta = tensor.impl()->autograd;
  return meta ? dynamic_cast<AccumulateGrad*>(meta->node.get()) : nullptr;
}

// What a tensor is to backward, for errors.
std::string kind_of(const Tensor& tensor) {
  if (!tensor.requires_grad()) return "one that requires no gradient";
  return tensor.is_leaf() ? "a leaf" : concat("the result of ", tensor.grad_fn()->name());
}
}  // namespace

bool Tensor::requires_grad() const { return get().autograd && get().autograd->node; }

const Tensor& Tensor::set_requires_grad(bool requires_grad) const {
  WICK_CHECK(is_leaf(), "set_requires_grad: only leaves can change: this tensor is the result of ",
             grad_fn()->name(), ": detach it first");
  if (op_recorder() != nullptr) op_recorder()->requires_grad_use(*this);
  if (!requires_grad) {
    AccumulateGrad* leaf = accumulator(*this);
    if (leaf == nullptr) return *this;
    if (op_recorder() != nullptr) op_recorder()->gradient_use(*leaf, *this, leaf->grad, true);
    leaf->is_frozen = true;
    leaf->grad = {};
    get().autograd->frozen = Ref<AccumulateGrad>(leaf);
    get().autograd->node = {};
  } else if (!this->requires_grad()) {
    WICK_CHECK(is_floating(dtype()), "set_requires_grad: wrong dtype: got ", dtype(),
               ", expected a floating one");
    // Graphs that were recorded before it was frozen have the gradient go where it went then.
    Ref<AccumulateGrad> before = get().autograd ? std::move(get().autograd->frozen) : nullptr;
    if (!before) before = make_ref<AccumulateGrad>(*this);
    before->is_frozen = false;
    get().autograd = std::make_unique<AutogradMeta>();
    get().autograd->node = std::move(before);
  }
  return *this;
}

bool Tensor::is_leaf() const { return !requires_grad() || accumulator(*this) != nullptr; }

Node* Tensor::grad_fn() const { return is_leaf() ? nullptr : get().autograd->node.get(); }

Tensor Tensor::grad() const {
  const AccumulateGrad* leaf = accumulator(*this);
  if (leaf == nullptr) return {};
  if (op_recorder() != nullptr) op_recorder()->gradient_use(*leaf, *this, leaf->grad, false);
  return leaf->grad;
}

void Tensor::set_grad(const Tensor& grad) const {
  AccumulateGrad* leaf = accumulator(*this);
  WICK_CHECK(leaf != nullptr, "set_grad: this tensor has no gradient: got ", kind_of(*this),
             ", expected a leaf that requires a gradient");
  if (grad.defined()) check_gradient("set_grad", grad, TensorMeta(*this));
  if (op_recorder() != nullptr) op_recorder()->gradient_use(*leaf, *this, leaf->grad, true);
  leaf->grad = grad;
}

void Tensor::backward(const Tensor& gradient, bool retain_graph, bool create_graph) const {
  wick::backward({*this}, {gradient}, retain_graph, create_graph);
}

void Tensor::register_hook(std::function<Tensor(const Tensor&)> hook) const {
  WICK_CHECK(requires_grad(), "register_hook: this tensor has no gradient: got ", kind_of(*this),
             ", expected one that requires a gradient");
  get().autograd->node->add_hook(get().autograd->output_index, std::move(hook));
}

void Tensor::register_post_accumulate_grad_hook(std::function<void(const Tensor&)> hook) const {
  AccumulateGrad* leaf = accumulator(*this);
  WICK_CHECK(leaf != nullptr,
             "register_post_accumulate_grad_hook: this tensor accumulates no gradient: got ",
             kind_of(*this), ", expected a leaf that requires a gradient");
  leaf->post_hooks.push_back(std::move(hook));
}

bool is_exclusive(const Tensor& tensor, int others) {
  const TensorImpl& impl = *tensor.impl();
  return impl.use_count() == 1 && impl.storage->use_count() == 1 + others &&
         is_dense(impl.shape, impl.strides);
}

Edge gradient_edge(const Tensor& tensor) {
  if (!tensor.defined() || !tensor.requires_grad()) return {};
  return {tensor.impl()->autograd->node, tensor.impl()->autograd->output_index};
}

}  // namespace wick
