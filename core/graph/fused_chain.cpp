#include "wick/core/graph/detail/fused_chain.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "wick/core/base/scoped_value.h"
#include "wick/core/graph/detail/rewrite.h"
#include "wick/core/profile/span.h"
#include "wick/kernels/reduce_groups.h"

namespace wick::graph {

std::optional<ChainEnd> chain_end(const Graph& graph, const Node& node) {
  constexpr int64_t kShortestRow = 1024;  // where rows are shorter, a tile of each costs more
  static const std::map<std::string_view, Reduction> kinds = {{"sum", Reduction::kSum},
                                                              {"mean", Reduction::kSum},
                                                              {"amax", Reduction::kMax},
                                                              {"amin", Reduction::kMin}};
  const auto kind = kinds.find(op_name(node));
  if (kind == kinds.end() || !node.kept.empty() || !node.body.empty()) return std::nullopt;
  const Value &x = graph.value(node.inputs[0]), &y = graph.value(node.outputs[0]);
  if (!x.device.is_cpu() || !is_floating(x.dtype) || x.shape.numel() == 0) return std::nullopt;
  ChainEnd end{kind->second, 1, x.shape};
  const auto axes = std::get<std::vector<int64_t>>(attribute(node, "axes"));
  for (const int64_t axis : axes) {
    end.kept[static_cast<int>(axis)] = 1;
  }
  if (kind->first == "mean") {
    end.factor = 1 / static_cast<double>(x.shape.numel() / end.kept.numel());
  }
  const View from{nullptr, x.dtype, x.device, x.shape, x.strides};
  const View to{nullptr, y.dtype, y.device, end.kept, contiguous_strides(end.kept)};
  if (group_axes(from, to).inner_size < kShortestRow) return std::nullopt;
  return end;
}

// Turns the parts of a node into steps, and gives their results places in the cache.
class FusedChain::Planner {
 public:
  Planner(const Graph& graph, const Node& node, FusedChain& fused)
      : graph_(graph),
        node_(node),
        chain_(fused.chain_),
        views_(fused.views_),
        steps_(node.body.size()) {
    is_cpu_ = graph.value(node.outputs[0]).device.is_cpu();
    results_ = node.outputs;
    fused.end_ = chain_end(graph, node.body.back());
    if (fused.end_) {
      --steps_;
      results_ = node.body.back().inputs;
      fused.reduced_ = node.outputs[0];
    }
    views_ = results_;
    views_.insert(views_.end(), node.inputs.begin(), node.inputs.end());
    for (size_t s = 0; s < node.body.size(); ++s) {
      for (const ValueId id : node.body[s].inputs) last_read_[id] = s;
    }
  }

  bool plan(const std::vector<Tensor>& values) {
    if (views_.size() > ElementwiseChain::kMaxViews) return false;
    if (steps_ > ElementwiseChain::kMaxSteps) return false;
    for (const ValueId id : node_.inputs) tensors_[id] = values[static_cast<size_t>(id)];
    for (size_t s = 0; s < steps_; ++s) {
      if (!plan_step(node_.body[s], s)) return false;
    }
    chain_.num_results = static_cast<int>(results_.size());
    chain_.num_views = static_cast<int>(views_.size());
    chain_.num_steps = static_cast<int>(steps_);
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
    step.links = call.links;
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
    const auto result = std::find(results_.begin(), results_.end(), made);
    if (result != results_.end()) step.view = static_cast<int>(result - results_.begin());
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
      source.view = static_cast<int>(view - node_.inputs.begin() + std::ssize(results_));
      const Value& result = graph_.value(results_[0]);
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
  size_t steps_;                  // elementwise ops
  std::vector<ValueId> results_;  // of these
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

void FusedChain::run(const Graph& graph, std::vector<Tensor>& values) const {
  const profile::Span span(profile::EventKind::kOp, "fused_elementwise");
  View views[ElementwiseChain::kMaxViews];
  for (size_t v = 0; v < views_.size(); ++v) {
    Tensor& tensor = values[static_cast<size_t>(views_[v])];
    const Value& value = graph.value(views_[v]);
    const bool is_result = v < static_cast<size_t>(chain_.num_results);
    if (is_result && end_) {
      views[v] = {nullptr, value.dtype, value.device, value.shape, value.strides};
      continue;
    }
    if (is_result) {
      tensor = empty_strided(value.shape, value.strides, value.dtype, value.device);
    }
    views[v] = tensor.view_for_kernel();
  }
  if (end_) {
    reduce(graph, views, values);
  } else if (kernel_ != nullptr) {
    WICK_CALL_CUDA(elementwise_chain(chain_, *kernel_, views));
  } else {
    WICK_CALL_CPU(elementwise_chain(chain_, views));
  }
}

void FusedChain::reduce(const Graph& graph, const View* views, std::vector<Tensor>& values) const {
  const Value& value = graph.value(reduced_);
  Tensor& y = values[static_cast<size_t>(reduced_)];
  y = empty_strided(value.shape, value.strides, value.dtype, value.device);
  View to = y.view_for_kernel();
  to.shape = end_->kept;
  to.strides = contiguous_strides(end_->kept);
  WICK_CALL_CPU(reduce_chain(chain_, views, end_->kind, to, end_->factor));
}

}  // namespace wick::graph
