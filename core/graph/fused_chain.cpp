#include "wick/core/graph/detail/fused_chain.h"

#include <algorithm>
#include <map>

#include "wick/core/base/scoped_value.h"
#include "wick/core/profile/span.h"

namespace wick::graph {

// Turns the parts of a node into steps, and gives their results places in the cache.
class FusedChain::Planner {
 public:
  Planner(const Graph& graph, const Node& node, FusedChain& fused)
      : graph_(graph), node_(node), chain_(fused.chain_), views_(fused.views_) {
    is_cpu_ = graph.value(node.outputs[0]).device.is_cpu();
    views_ = node.outputs;
    views_.insert(views_.end(), node.inputs.begin(), node.inputs.end());
    for (size_t s = 0; s < node.body.size(); ++s) {
      for (const ValueId id : node.body[s].inputs) last_read_[id] = s;
    }
  }

  bool plan(const std::vector<Tensor>& values) {
    if (views_.size() > ElementwiseChain::kMaxViews) return false;
    if (node_.body.size() > ElementwiseChain::kMaxSteps) return false;
    for (const ValueId id : node_.inputs) tensors_[id] = values[static_cast<size_t>(id)];
    for (size_t s = 0; s < node_.body.size(); ++s) {
      if (!plan_step(node_.body[s], s)) return false;
    }
    chain_.num_results = static_cast<int>(node_.outputs.size());
    chain_.num_views = static_cast<int>(views_.size());
    chain_.num_steps = static_cast<int>(node_.body.size());
    return true;
  }

 private:
  // The one call that the op makes of an elementwise kernel; count is another if it makes others.
  ElementwiseCapture call_of(const Node& part) {
    ElementwiseCapture capture;
    std::vector<Tensor> inputs;
    for (const ValueId id : part.inputs) inputs.push_back(id == kNone ? Tensor() : tensors_.at(id));
    const ScopedValue<ElementwiseCapture*> noted(elementwise_capture(), &capture);
    const Tensor y = replay_op(part.op.type(), part.op.get(), inputs, nullptr)[0];
    if (capture.last.y.data != y.raw_data()) capture.count = 0;
    tensors_[part.outputs[0]] = y;
    return capture;
  }

  // Which input of the op a view is; kNone if it is something that the op made of one.
  ValueId input_of(const Node& part, const View& x) const {
    for (const ValueId id : part.inputs) {
      if (id == kNone) continue;
      const Tensor& tensor = tensors_.at(id);
      const bool same = tensor.raw_data() == x.data && tensor.dtype() == x.dtype &&
                        tensor.shape() == x.shape && tensor.strides() == x.strides;
      if (same) return id;
    }
    return kNone;
  }

  bool plan_step(const Node& part, size_t s) {
    const ElementwiseCapture capture = call_of(part);
    const ElementwiseCall& call = capture.last;
    // The functor must be the op itself, which stays.
    if (capture.count != 1 || call.functor != part.op.get()) return false;
    ElementwiseChain::Step& step = chain_.steps[s];
    step.loop = call.loop;
    step.functor = call.functor;
    step.compute = call.compute == kFloat64    ? kFloat64
                   : is_floating(call.compute) ? kFloat32
                                               : kInt64;
    step.dtype = call.y.dtype;
    step.arity = call.arity;
    step.source = call.source;
    std::vector<int> passing;
    for (int k = 0; k < call.arity; ++k) {
      const ValueId id = input_of(part, call.x[k]);
      if (id == kNone || !plan_source(id, step, step.x[k], passing)) return false;
    }
    const ValueId made = part.outputs[0];
    step.slot = take_slot();
    if (step.dtype != step.compute) passing.push_back(step.computed = take_slot());
    slots_[made] = step.slot;
    makers_[made] = static_cast<int>(s);
    const auto output = std::find(node_.outputs.begin(), node_.outputs.end(), made);
    if (output != node_.outputs.end()) step.view = static_cast<int>(output - node_.outputs.begin());
    const bool fits = !is_cpu_ || next_slot_ <= ElementwiseChain::kMaxSlots;
    for (const int slot : passing) free_slots_.push_back(slot);
    release_read(part, s);
    return fits;
  }

  bool plan_source(ValueId id, const ElementwiseChain::Step& step, ElementwiseChain::Source& source,
                   std::vector<int>& passing) {
    const Value& value = graph_.value(id);
    source.dtype = value.dtype;
    bool converts = value.dtype != step.compute;
    const auto slot = slots_.find(id);
    if (slot != slots_.end()) {
      source.slot = slot->second;
      source.step = makers_.at(id);
    } else {
      const auto view = std::find(node_.inputs.begin(), node_.inputs.end(), id);
      if (view == node_.inputs.end()) return false;
      source.view = static_cast<int>(view - node_.inputs.begin() + std::ssize(node_.outputs));
      const Value& result = graph_.value(node_.outputs[0]);
      converts = converts || !(value.shape == result.shape && value.strides == result.strides);
    }
    if (converts) passing.push_back(source.converted = take_slot());
    return true;
  }

  void release_read(const Node& part, size_t s) {
    std::vector<ValueId> done = part.inputs;
    done.push_back(part.outputs[0]);
    for (const ValueId id : done) {
      const auto slot = slots_.find(id);
      if (slot == slots_.end()) continue;
      const auto last = last_read_.find(id);
      if (last != last_read_.end() && last->second > s) continue;
      free_slots_.push_back(slot->second);
      slots_.erase(slot);
    }
  }

  int take_slot() {
    if (free_slots_.empty()) return next_slot_++;
    const int slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
  }

  const Graph& graph_;
  const Node& node_;
  ElementwiseChain& chain_;
  std::vector<ValueId>& views_;
  std::map<ValueId, Tensor> tensors_;
  std::map<ValueId, size_t> last_read_;
  std::map<ValueId, int> slots_;
  std::map<ValueId, int> makers_;
  std::vector<int> free_slots_;
  int next_slot_ = 0;
  bool is_cpu_ = true;
};

namespace {

// One bit per input of a node on a GPU: whether it is aligned to 16 bytes.
uint32_t aligned_inputs(const Node& node, const std::vector<Tensor>& values) {
  uint32_t bits = 0;
  for (const ValueId id : node.inputs) {
    const Tensor& x = values[static_cast<size_t>(id)];
    const bool is_aligned = reinterpret_cast<uintptr_t>(x.raw_data()) % 16 == 0;
    bits = bits * 2 + (x.device().is_cuda() && is_aligned);
  }
  return bits;
}

}  // namespace

FusedChain::FusedChain(const Graph& graph, const Node& node, const std::vector<Tensor>& values)
    : aligned_(aligned_inputs(node, values)) {
  is_possible_ = Planner(graph, node, *this).plan(values);
  if (!is_possible_ || graph.value(node.outputs[0]).device.is_cpu()) return;
  View views[ElementwiseChain::kMaxViews];
  for (size_t v = 0; v < views_.size(); ++v) {
    const Value& value = graph.value(views_[v]);
    const Tensor& x = values[static_cast<size_t>(views_[v])];
    views[v] = v < node.outputs.size()
                   ? View{nullptr, value.dtype, value.device, value.shape, value.strides}
                   : x.view_for_kernel();
  }
  WICK_CALL_CUDA_INTO(kernel_, compile_chain(chain_, views, why_not_));
  is_possible_ = kernel_ != nullptr;
}

bool FusedChain::is_for(const Node& node, const std::vector<Tensor>& values) const {
  return aligned_ == aligned_inputs(node, values);
}

void FusedChain::run(const Graph& graph, const Node& node, std::vector<Tensor>& values) const {
  const profile::Span span(profile::EventKind::kOp, "fused_elementwise");
  View views[ElementwiseChain::kMaxViews];
  for (size_t v = 0; v < views_.size(); ++v) {
    Tensor& tensor = values[static_cast<size_t>(views_[v])];
    const Value& value = graph.value(views_[v]);
    if (v < node.outputs.size()) {
      tensor = empty_strided(value.shape, value.strides, value.dtype, value.device);
    }
    views[v] = tensor.view_for_kernel();
  }
  if (kernel_ != nullptr) {
    WICK_CALL_CUDA(elementwise_chain(chain_, *kernel_, views));
  } else {
    WICK_CALL_CPU(elementwise_chain(chain_, views));
  }
}

}  // namespace wick::graph
