#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "wick/core/anomaly.h"
#include "wick/core/apply.h"

namespace wick {

inline uint64_t next_sequence() {
  static std::atomic<uint64_t> sequence{0};
  return sequence.fetch_add(1, std::memory_order_relaxed);
}

// The graph node of one applied op.
class OpNode final : public Node {
 public:
  OpNode(const OpType& type, const void* op)
      : Node(next_sequence()), type_(type), op_(type.copy(op)) {}
  ~OpNode() override { type_.destroy(op_); }

  std::string name() const override { return describe(type_, op_); }
  Origin origin() const override {
    return {type_.info.name, module_path_ ? std::string_view(*module_path_) : std::string_view()};
  }

  Gradients backward(Gradients grads) override {
    WICK_CHECK(!released_, "backward: the graph was freed by an earlier backward at ", name(),
               ": pass retain_graph = true there to go through it twice");
    Gradients result;
    try {
      const anomaly::Pause pause;
      result = type_.backward(op_, saved, grads);
      check(result);
    } catch (const Error& error) {
      if (anomaly::search() == nullptr || !module_path_) throw;
      anomaly::rethrow(error, name(), *module_path_);
    }
    if (anomaly::search() != nullptr) {
      anomaly::check_gradients(name(), module_path_ ? *module_path_ : std::string(), grads, result);
    }
    return result;
  }

  void release_saved() override {
    released_ = released_ || !saved.entries_.empty();
    saved.entries_.clear();
  }

  bool can_recompute() const {
    return recompute_enabled() && type_.can_recompute != nullptr && !saved.is_packed() &&
           type_.can_recompute(op_, saved);
  }
  // Whether `output` is still as forward left it, which is what `recompute` makes.
  // A copy has the history of what it is a copy of, but a life of its own.
  bool is_unchanged(const Tensor& output) const {
    return output.impl()->storage.get() == output_storage_ && output.version() == output_version_;
  }
  Tensor recompute() const {
    WICK_CHECK(!released_, "backward: the graph was freed by an earlier backward at ", name(),
               ", whose output is needed again: pass retain_graph = true there");
    const NoGrad no_grad;
    return type_.recompute(op_, saved);
  }

  void set_inputs(std::span<const Tensor> inputs) {
    for (const Tensor& input : inputs) {
      next_.push_back(gradient_edge(input));
      inputs_.emplace_back(input);
    }
  }
  void set_module_path(const std::string& path) {
    module_path_ = std::make_unique<const std::string>(path);
  }
  void add_output(const Tensor& output) {
    outputs_.emplace_back(output);
    if (output.defined()) output_version_ = output.version();
    if (output.defined()) output_storage_ = output.impl()->storage.get();
    if (output.defined() && stream_.device.is_cpu()) stream_ = current_stream(output.device());
  }
  const TensorMeta& input(int i) const { return inputs_.at(static_cast<size_t>(i)); }

  // An op changed output `i` in place and was recorded: it is the one to ask for the gradient now.
  void mark_changed(int i) { changed_.push_back(i); }
  // Output `i` is another handle to input `of`, or to the earlier output `of`.
  void mark_input_as_output(int i, int of) { repeated_.push_back({i, of, true}); }
  void mark_same_outputs(int i, int of) { repeated_.push_back({i, of, false}); }
  // Whether output `i` is a view of something so changed since: the view shows the change, but its
  // gradient would miss it.
  bool is_outdated(int i) const {
    Place base = viewed(i);
    while (base.node != nullptr) {
      const std::vector<int>& changed = base.node->changed_;
      if (std::count(changed.begin(), changed.end(), base.output) > 0) return true;
      base = base.node->viewed(base.output);
    }
    return false;
  }

  Saved saved;

 private:
  struct Place {
    const OpNode* node = nullptr;
    int output = 0;
  };
  struct Repeated {
    int output;
    int of;  // an input, or an earlier output
    bool is_input;
  };
  // What output `i` is a view of, if an op made that.
  Place viewed(int i) const {
    const auto found = std::find_if(repeated_.begin(), repeated_.end(),
                                    [i](const Repeated& entry) { return entry.output == i; });
    if (found != repeated_.end() && !found->is_input) return {this, found->of};
    if (found == repeated_.end() && !type_.info.view) return {};
    const Edge& base = next_[found == repeated_.end() ? 0 : static_cast<size_t>(found->of)];
    return {dynamic_cast<const OpNode*>(base.node.get()), base.index};
  }

  void check(Gradients& grads) const {
    WICK_CHECK(grads.size() == next_.size(), type_.info.name, ": backward returned ", grads.size(),
               " gradients, expected ", next_.size(), ", one per input");
    for (size_t i = 0; i < grads.size(); ++i) {
      Tensor& grad = grads[i];
      if (!next_[i].node) {
        grad = Tensor();
        continue;
      }
      if (!grad.defined()) continue;
      const TensorMeta& input = inputs_[i];
      if (type_.info.broadcasts && !(grad.shape() == input.shape)) {
        grad = sum_to(grad, input.shape);
      }
      // What was computed, and summed, in more digits is rounded here, once.
      const bool is_wider = is_floating(grad.dtype()) && grad.dtype() != input.dtype &&
                            promote(grad.dtype(), input.dtype) == grad.dtype();
      if (is_wider) grad = grad.to(input.dtype);
      WICK_CHECK(grad.shape() == input.shape, type_.info.name, ": backward returned shape ",
                 grad.shape(), " for input ", i, ", expected ", input.shape);
      WICK_CHECK(grad.dtype() == input.dtype, type_.info.name, ": backward returned ",
                 to_string(grad.dtype()), " for input ", i, ", expected ", to_string(input.dtype));
      WICK_CHECK(grad.device() == input.device, type_.info.name, ": backward returned a tensor on ",
                 grad.device(), " for input ", i, ", expected ", input.device);
    }
  }

  const OpType& type_;
  void* op_;
  std::vector<TensorMeta> inputs_;
  uint64_t output_version_ = 0;                     // of the last output, when it was recorded
  const Storage* output_storage_ = nullptr;         // its, to be compared only
  std::vector<int> changed_;                        // the outputs that were changed in place
  std::vector<Repeated> repeated_;                  // the outputs with handles of the door's making
  std::unique_ptr<const std::string> module_path_;  // known where somebody asks for it
  bool released_ = false;
};

}  // namespace wick
