#include "wick/core/apply.h"
#include "wick/core/base/scoped_value.h"

#include <algorithm>
#include <atomic>

#include "wick/core/anomaly.h"
#include "wick/core/detail/autocast.h"
#include "wick/core/detail/graph_checks.h"
#include "wick/core/detail/op_node.h"
#include "wick/core/detail/op_recorder.h"
#include "wick/core/ops/view.h"
#include "wick/core/profile/detail/record_op.h"

namespace wick {

namespace {

// Never destroyed, as ops may run until the program's end.
std::vector<const OpType*>& op_list() {
  static auto& list = *new std::vector<const OpType*>;
  return list;
}

thread_local FlopCounter* flop_counter = nullptr;
thread_local SavedTensorHooks* hooks_in_force = nullptr;
thread_local OpRecorder* recorder_in_force = nullptr;  // null within ops
thread_local OpRecorder* recorder_of_thread = nullptr;
thread_local bool op_is_replayed = false;
std::atomic<bool> recompute_on{true};

}  // namespace

bool detail::register_op(const OpType* type) {
  op_list().push_back(type);
  return true;
}

OpRecorder*& op_recorder() { return recorder_in_force; }
OpRecorder*& thread_recorder() { return recorder_of_thread; }
bool& replays_op() { return op_is_replayed; }

void detail::wrong_number_of_inputs(const OpInfo& info, size_t got, size_t expected) {
  fail(info.name, ": wrong number of inputs: got ", got, ", expected ", expected);
}

void detail::no_second_derivative(const OpInfo& info) {
  fail(info.name,
       ": it has no derivative: got create_graph = true (or gradients recorded) where a "
       "second derivative of it is needed, expected first derivatives only");
}

namespace {
// As users call it: "add_" for "add_scalar_".
std::string user_name(const OpInfo& info) {
  const std::string_view name = info.name;
  if (name.find("_scalar") == name.npos) return info.name;
  return std::string(name.substr(0, name.find('_'))) + (info.mutates != 0 ? "_" : "");
}
}  // namespace

std::span<const OpType* const> registered_ops() { return op_list(); }

std::string describe(const OpType& type, const void* op) {
  std::string text;
  for (const NamedAttribute& field : type.attributes(op)) {
    text += concat(text.empty() ? "(" : ", ", field.name, "=", wick::to_string(field.value));
  }
  return text.empty() ? type.info.name : type.info.name + text + ")";
}

SavedTensorHooks* saved_tensor_hooks() { return hooks_in_force; }
SavedTensorScope::SavedTensorScope(SavedTensorHooks* hooks) : in_force_(hooks_in_force, hooks) {}

bool recompute_enabled() { return recompute_on.load(std::memory_order_relaxed); }
void set_recompute(bool on) { recompute_on.store(on, std::memory_order_relaxed); }

FlopCounter::FlopCounter() : in_force_(flop_counter, this) {}
FlopCounter::~FlopCounter() {
  if (in_force_.before() != nullptr) in_force_.before()->add(flops_);
}

void check_history(std::string_view op, const Tensor& tensor) {
  const TensorImpl& impl = *tensor.impl();
  if (!impl.is_view) return;
  const bool is_recorded = tensor.requires_grad();
  const auto* maker = is_recorded ? dynamic_cast<OpNode*>(impl.autograd->node.get()) : nullptr;
  // One made before its base entered the graph has no maker.
  const bool outdated =
      is_recorded ? maker != nullptr && maker->is_outdated(impl.autograd->output_index)
                  : is_floating(impl.dtype) &&
                        impl.view_version < impl.storage->recorded_change(impl.is_detached);
  WICK_CHECK(
      !outdated, op,
      ": a view was made before its base was changed in place, which its gradient would miss: "
      "got ",
      maker != nullptr ? maker->name() : concat("one of shape ", impl.shape),
      ", expected it to be made again after the change");
}

void Saved::push(const Tensor& tensor) {
  Entry entry;
  entry.tensor = tensor;
  if (tensor.defined()) {
    entry.version = tensor.version();
    const Edge maker = gradient_edge(tensor);
    if (hooks_in_force != nullptr) {
      entry.packed = hooks_in_force->pack(tensor);
      if (entry.packed) entry.maker = maker;
    } else {
      const auto* op = dynamic_cast<const OpNode*>(maker.node.get());
      if (op != nullptr && op->can_recompute() && op->is_unchanged(tensor)) {
        entry.tensor = Tensor();
        entry.maker = maker;
      }
    }
  }
  entries_.push_back(std::move(entry));
}

void Saved::save_changed(int i, const Tensor& input) {
  if (!recording_) return;
  input.impl()->storage->bump_version();
  counted_ |= uint32_t{1} << i;
  push(input);
}

namespace {
// `tensor` as output `index` of `node`.
Tensor with_history(Tensor tensor, Ref<Node> node, int index) {
  tensor.impl()->autograd = std::make_unique<AutogradMeta>();
  tensor.impl()->autograd->node = std::move(node);
  tensor.impl()->autograd->output_index = index;
  return tensor;
}
}  // namespace

Tensor Saved::operator[](int i) const {
  const Entry& entry = entries_.at(static_cast<size_t>(i));
  if (entry.packed) {
    const Tensor tensor = entry.packed->unpack().detach();
    if (entry.output >= 0) return with_history(tensor, own_node(), entry.output);
    return entry.maker.node ? with_history(tensor, entry.maker.node, entry.maker.index) : tensor;
  }
  if (entry.maker.node && !entry.cast) {
    const auto* op = static_cast<const OpNode*>(entry.maker.node.get());
    return with_history(op->recompute(), entry.maker.node, entry.maker.index);
  }
  if (!entry.tensor.defined()) return {};
  WICK_CHECK(entry.tensor.version() == entry.version, node_ ? node_->name() : std::string("op"),
             ": a tensor needed by backward was changed in place: got version ",
             entry.tensor.version(), " of shape ", entry.tensor.shape(), ", expected version ",
             entry.version);
  if (entry.cast) {
    return with_history(entry.tensor.detach().to(*entry.cast), entry.maker.node, entry.maker.index);
  }
  if (entry.output < 0) return entry.tensor;
  return with_history(entry.tensor.detach(), own_node(), entry.output);
}

Ref<Node> Saved::own_node() const { return Ref<Node>(const_cast<Node*>(node_)); }
bool Saved::is_packed() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const Entry& entry) { return static_cast<bool>(entry.packed); });
}
const TensorMeta& Saved::input(int i) const { return static_cast<const OpNode*>(node_)->input(i); }
int Saved::num_inputs() const { return static_cast<int>(node_->next().size()); }

// The steps of run_op, with access to what only the door may touch.
struct Door {
  static bool mutated(const OpInfo& info, size_t i) {
    return i < 32 && (info.mutates >> i & 1) != 0;
  }

  static void count_changes(const OpInfo& info, const Saved& saved,
                            std::span<const Tensor> inputs) {
    for (size_t i = 0; info.mutates != 0 && i < inputs.size(); ++i) {
      if (!mutated(info, i) || !inputs[i].defined()) continue;
      if ((saved.counted_ >> i & 1) == 0) inputs[i].impl()->storage->bump_version();
    }
  }

  static void start_keeping(Saved& saved, uint64_t needs) {
    saved.recording_ = true;
    saved.needs_ = needs;
  }
  static KeptForBackward kept(const Saved& saved) {
    KeptForBackward kept{saved.needs_, {}};
    for (const Saved::Entry& entry : saved.entries_) kept.tensors.push_back(entry.tensor);
    return kept;
  }

  static void check_devices(const OpInfo& info, std::span<const Tensor> inputs) {
    const Tensor* first = nullptr;
    for (const Tensor& input : inputs) {
      if (!input.defined()) continue;
      if (first == nullptr) first = &input;
      WICK_CHECK(input.device() == first->device(), info.name,
                 ": inputs are on different devices: got ", first->device(), " and ",
                 input.device());
    }
  }

  static bool wants_graph(const OpType& type, std::span<const Tensor> inputs) {
    if (!grad_enabled() || type.backward == nullptr) return false;
    for (const Tensor& input : inputs) {
      if (!input.defined()) continue;
      if (input.requires_grad()) return true;
      if (input.impl()->is_view) check_history(type.info.name, input);
    }
    return false;
  }

  static void check_mutation(const OpInfo& info, std::span<const Tensor> inputs, bool recording) {
    if (info.mutates == 0 || !grad_enabled()) return;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& x = inputs[i];
      if (!mutated(info, i) || !x.defined()) continue;
      WICK_CHECK(!(x.requires_grad() && x.is_leaf()), user_name(info),
                 ": a leaf that requires a gradient cannot be changed in place: use NoGrad, or "
                 "detach it");
      WICK_CHECK(
          !(recording && x.impl()->is_view), user_name(info),
          ": a view cannot be changed in place while gradients are recorded: change a clone, "
          "or build the whole with cat, stack or where");
      if (!x.impl()->is_view || x.requires_grad()) continue;
      WICK_CHECK(!x.impl()->views_history, user_name(info),
                 ": a view made under NoGrad cannot be changed in place while gradients are "
                 "recorded, as the gradient of its base would miss the change: got a view of "
                 "shape ",
                 x.shape(), ", expected a clone of it, or the change under NoGrad");
      check_history(user_name(info), x);
    }
  }

  static Ref<OpNode> make_node(const OpType& type, const void* op, std::span<const Tensor> inputs) {
    auto node = make_ref<OpNode>(type, op);
    node->set_inputs(inputs);
    Saved& saved = node->saved;
    saved.recording_ = true;
    saved.node_ = node.get();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& input = inputs[i];
      if (!input.defined()) continue;
      WICK_CHECK(!input.impl()->is_inference, user_name(type.info),
                 ": a tensor made in InferenceMode cannot be used where gradients are recorded: "
                 "clone it outside");
      check_history(type.info.name, input);
      if (i < 64 && input.requires_grad()) saved.needs_ |= uint64_t{1} << i;
    }
    return node;
  }

  static void mark_changed(const OpInfo& info, const Node& node) {
    for (size_t i = 0; info.mutates != 0 && i < node.next().size(); ++i) {
      const Edge& before = node.next()[i];
      auto* maker = mutated(info, i) ? dynamic_cast<OpNode*>(before.node.get()) : nullptr;
      if (maker != nullptr) maker->mark_changed(before.index);
    }
  }

  // Of what autocast made of a weight nothing needs to stay: the weight does anyway. Work that is
  // recorded must pass the door, which the cast in backward does not.
  static void keep_weights(const Ref<OpNode>& node, std::span<const Tensor> given,
                           std::span<const Tensor> inputs) {
    if (given.data() == inputs.data() || !recompute_enabled()) return;
    if (thread_recorder() != nullptr) return;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& weight = given[i];
      if (weight.is_same(inputs[i]) || !amp::is_weight(weight)) continue;
      for (Saved::Entry& entry : node->saved.entries_) {
        if (entry.packed || !entry.tensor.is_same(inputs[i])) continue;
        entry.maker = gradient_edge(inputs[i]);
        entry.cast = inputs[i].dtype();
        entry.tensor = weight;
        entry.version = weight.version();
      }
    }
  }

  static bool gives_back(const OpInfo& info, std::span<const Tensor> inputs, const Tensor& output) {
    for (size_t i = 0; info.mutates != 0 && i < inputs.size(); ++i) {
      if (mutated(info, i) && inputs[i].is_same(output)) return true;
    }
    return false;
  }

  // Recording would rewire a handle that the caller has. So what is not the op's own becomes a view
  // of it: an input that comes back unchanged, a tensor with a history, an earlier output.
  static void make_own(const OpInfo& info, OpNode* node, std::span<const Tensor> inputs,
                       std::vector<Tensor>& outputs) {
    for (auto output = outputs.begin(); output != outputs.end(); ++output) {
      if (!output->defined() || output->impl()->use_count() == 1) continue;
      const auto is_it = [&](const Tensor& other) { return other.is_same(*output); };
      const auto earlier = std::find_if(outputs.begin(), output, is_it);
      const auto input = std::find_if(inputs.begin(), inputs.end(), is_it);
      if (earlier == output) {
        if (gives_back(info, inputs, *output)) continue;
        if (input == inputs.end() && !output->requires_grad()) continue;
      }
      if (node != nullptr) {
        const auto number = static_cast<int>(output - outputs.begin());
        if (earlier != output) {
          node->mark_same_outputs(number, static_cast<int>(earlier - outputs.begin()));
        } else if (input != inputs.end()) {
          node->mark_input_as_output(number, static_cast<int>(input - inputs.begin()));
        }
      }
      *output = detail::make_view(*output, 0, output->shape(), output->strides());
    }
  }

  static void record(const OpInfo& info, const Ref<OpNode>& node, std::span<const Tensor> inputs,
                     std::span<const Tensor> outputs) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Tensor& output = outputs[i];
      node->add_output(output);
      if (!output.defined()) continue;
      if (!is_floating(output.dtype())) continue;
      TensorImpl& impl = *output.impl();
      // An input that was changed in place and given back has a history from now on.
      if (gives_back(info, inputs, output)) impl.storage->mark_recorded_change(impl.is_detached);
      for (Saved::Entry& entry : node->saved.entries_) {
        if (!entry.tensor.is_same(output)) continue;
        entry.tensor = output.detach();
        entry.version = output.version();
        entry.output = static_cast<int>(i);
      }
      impl.autograd = std::make_unique<AutogradMeta>();
      impl.autograd->node = node;
      impl.autograd->output_index = static_cast<int>(i);
    }
    for (Saved::Entry& entry : node->saved.entries_) {
      if (entry.packed) entry.tensor = Tensor();
    }
  }
};

std::vector<Tensor> run_op(const OpType& type, const void* op, std::span<const Tensor> given) {
  profile::Span span(profile::EventKind::kOp, type.info.name);
  if (!type.info.any_device) Door::check_devices(type.info, given);
  const ScopedValue<const char*> current(detail::current_op(), type.info.name);
  if (hooks_in_force != nullptr && *current.before() == 0) {
    hooks_in_force->before_op(given, type.info.mutates);
  }
  std::vector<Tensor> cast;
  const std::span<const Tensor> inputs = amp::cast_inputs(type.info, given, cast);
  const amp::Pause pause;
  const bool recording = Door::wants_graph(type, inputs);
  Door::check_mutation(type.info, inputs, recording);
  Ref<OpNode> node;
  if (recording) node = Door::make_node(type, op, inputs);

  OpRecorder* const recorder = recorder_in_force;
  if (recorder != nullptr) [[unlikely]]
    recorder->begin(type, inputs);
  std::vector<Tensor> outputs;
  Saved nothing;
  Saved& saved = node ? node->saved : nothing;
  {
    const NoGrad no_grad;
    const anomaly::Pause unseen;
    const ScopedValue<OpRecorder*> within(recorder_in_force, nullptr);
    outputs = type.forward(op, saved, inputs);
  }
  Door::make_own(type.info, node.get(), inputs, outputs);
  Door::count_changes(type.info, saved, inputs);
  if (flop_counter != nullptr && type.flops != nullptr) {
    flop_counter->add(type.flops(op, inputs, outputs[0]));
  }
  if (span) [[unlikely]] {
    profile::note_op(span, type, op, given, outputs, node.get());
    if (node && (profile::wanted() & (profile::kWantsModules | profile::kEmitsNvtx)) != 0) {
      node->set_module_path(anomaly::module_path());
    }
  }
  if (anomaly::search() != nullptr) {
    if (node) node->set_module_path(anomaly::module_path());
    if (!type.info.view) {  // a view makes nothing, and may be of memory that is yet to be written
      anomaly::check_results(describe(type, op), inputs, type.info.mutates, outputs);
    }
  }
  if (recorder != nullptr) [[unlikely]] {
    const KeptForBackward kept = Door::kept(saved);
    recorder->record(type, op, inputs, outputs, node ? &kept : nullptr);
  }
  if (node) {
    Door::mark_changed(type.info, *node);
    Door::keep_weights(node, given, inputs);
    Door::record(type.info, node, inputs, outputs);
  }
  return outputs;
}

std::vector<Tensor> replay_op(const OpType& type, const void* op, std::span<const Tensor> inputs,
                              KeptForBackward* kept) {
  profile::Span span(profile::EventKind::kOp, type.info.name);
  const ScopedValue<const char*> current(detail::current_op(), type.info.name);
  const ScopedValue<bool> replayed(op_is_replayed, true);
  const SavedTensorScope no_hooks(nullptr);
  const amp::Pause pause;
  const NoGrad no_grad;
  const anomaly::Pause unseen;
  Saved saved;
  if (kept != nullptr) Door::start_keeping(saved, kept->needs);
  std::vector<Tensor> outputs = type.forward(op, saved, inputs);
  Door::make_own(type.info, nullptr, inputs, outputs);
  Door::count_changes(type.info, saved, inputs);
  if (flop_counter != nullptr && type.flops != nullptr) {
    flop_counter->add(type.flops(op, inputs, outputs[0]));
  }
  if (span) [[unlikely]]
    profile::note_op(span, type, op, inputs, outputs, nullptr);
  if (kept != nullptr) *kept = Door::kept(saved);
  return outputs;
}

}  // namespace wick
