#include "wick/core/graph/trace.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "wick/core/anomaly.h"
#include "wick/core/autograd.h"
#include "wick/core/detail/autocast.h"
#include "wick/core/detail/op_recorder.h"
#include "wick/core/detail/storage_observer.h"
#include "wick/core/graph/detail/graph_ops.h"
#include "wick/core/graph/detail/guards.h"
#include "wick/core/graph/host_call.h"
#include "wick/core/random.h"

namespace wick::graph {

namespace {

// Where a tensor lies in its storage.
struct Geometry {
  int64_t offset = 0;
  Shape shape;
  Strides strides;
  Dtype dtype = Dtype::kFloat32;

  explicit Geometry(const Tensor& x)
      : offset(x.impl()->offset), shape(x.shape()), strides(x.strides()), dtype(x.dtype()) {}
  friend bool operator==(const Geometry& a, const Geometry& b) {
    return a.offset == b.offset && a.shape == b.shape && a.strides == b.strides &&
           a.dtype == b.dtype;
  }
};

std::optional<int64_t> whole_attribute(const OpInstance& op, std::string_view name) {
  for (const NamedAttribute& attribute : op.attributes()) {
    const auto* number = std::get_if<int64_t>(&attribute.value);
    if (name == attribute.name && number != nullptr) return *number;
  }
  return std::nullopt;
}

// What is known of one piece of memory.
struct Memory {
  Ref<Storage> storage;  // held, so that no other takes its address
  ValueId root = kNone;
  bool is_computed = false;  // an input, or what a node wrote
  std::vector<std::pair<Geometry, ValueId>> values;
};

class Tracer final : public OpRecorder, public StorageObserver {
 public:
  Tracer(const std::vector<Tensor>& inputs, const TensorMap& names) {
    for (const Tensor& input : inputs) {
      WICK_CHECK(input.defined(), "trace: an example is undefined");
      const ValueId id = add_value(input, nullptr);
      graph_.inputs.push_back(id);
      memory_of(input).is_computed = true;
      graph_.device = input.device();
    }
    for (const auto& [name, tensor] : names) {
      if (tensor.defined()) names_.emplace(tensor.impl()->storage.get(), name);
    }
    start_ = default_generator(graph_.device).get_state();
  }

  // Before it runs: an op may change what is kept as a constant here.
  void begin(const OpType& type, std::span<const Tensor> inputs) override {
    free_unreachable();
    asked_bytes_ = 0;
    next_inputs_.clear();
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (type.info.shape_from_data) host_read(type.info.name, inputs[i]);
      next_inputs_.push_back(id_of(inputs[i], i == 0 && type.info.overwrites));
      if (grad_enabled() && inputs[i].defined()) requires_grad_use(inputs[i]);
    }
  }

  void record(const OpType& type, const void* op, std::span<const Tensor> inputs,
              std::span<const Tensor> outputs, const KeptForBackward* kept) override {
    last_op_ = type.info.name;
    Node node{OpInstance(type, op)};
    node.workspace = asked_bytes_;
    node.place = anomaly::module_path();
    node.inputs = std::move(next_inputs_);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (changes(node, i) && inputs[i].defined()) memory_of(inputs[i]).is_computed = true;
    }
    if (is_host_call(node)) {
      const size_t leaves = num_leaves(node);
      for (size_t i = 0; i < leaves; ++i)
        given_.insert({inputs[leaves + i].impl(), inputs[i].impl()});
    }
    note_draw(node);
    // A piece of an input's memory stays that, wherever it comes out.
    for (const Tensor& output : outputs) node.outputs.push_back(make(output));
    if (kept != nullptr) {
      node.needs = kept->needs;
      for (const Tensor& tensor : kept->tensors) {
        const bool is_new = tensor.defined() && !tensor.is_sparse() && find(tensor) == nullptr;
        node.kept.push_back(is_new ? make(tensor) : kNone);
      }
    }
    for_each_output(node, [&](ValueId id) {
      const Value& made = graph_.value(id);
      if (made.root == id) node.workspace -= made.shape.numel() * size_of(made.dtype);
    });
    node.workspace = std::max(node.workspace, int64_t{0});
    graph_.nodes.push_back(std::move(node));
  }

  void host_read(const char* what, const Tensor& x) override {
    const Memory* memory = x.defined() && !x.is_sparse() ? find(x) : nullptr;
    if (memory == nullptr || !memory->is_computed) return;
    detail::fail("trace: the host reads a traced tensor: got ", what, " of ", x.dtype(), x.shape(),
                 place(),
                 ", expected only ops, whose results a graph can compute for other inputs");
  }

  bool holds(const Tensor& x) const override { return memories_.contains(x.impl()->storage.get()); }

  void gradient_use(const AccumulateGrad& accumulator, const Tensor& leaf, const Tensor& gradient,
                    bool is_replaced) override {
    if (!is_watching_host_) return;
    for (GradientUse& use : gradients_) {
      if (use.accumulator.get() != &accumulator) continue;
      if (leaf.defined()) use.leaf = leaf;
      use.is_replaced = use.is_replaced || is_replaced;
      return;
    }
    gradients_.push_back({Ref<AccumulateGrad>(const_cast<AccumulateGrad*>(&accumulator)), leaf,
                          gradient, !is_replaced, is_replaced});
  }

  void requires_grad_use(const Tensor& x) override {
    if (!is_floating(x.dtype()) || !x.is_leaf() || flags_.contains(x.impl()) || is_own(x)) return;
    flags_.emplace(x.impl(), Guards::Flag{x, x.requires_grad()});
  }

  // The gradients that leaves have now, and no host call gave them, each run gives them.
  void leave_gradients() {
    const ScopedValue<bool> unseen(is_watching_host_, false);
    std::vector<Tensor> leaves;
    for (const Constant& constant : graph_.constants) {
      const Tensor& leaf = constant.tensor;
      if (!leaf.requires_grad() || !leaf.is_leaf() || !leaf.grad().defined()) continue;
      const Tensor gradient = leaf.grad();
      refuse_sparse(gradient);
      const Memory* memory = find(gradient);
      const bool is_new = memory != nullptr && memory->is_computed &&
                          !given_.contains({leaf.impl(), gradient.impl()}) &&
                          constant_of(memory->root) == nullptr;
      if (is_new) leaves.push_back(leaf);
    }
    if (leaves.empty()) return;
    host_call(
        "leave_gradients", [](const std::vector<Tensor>&) { return Tensor(); }, leaves);
  }

  void* place(size_t bytes, Device, std::function<void()>&) override {
    asked_bytes_ += static_cast<int64_t>(bytes);
    return nullptr;
  }
  void made(const Storage& storage) override { born_.insert(&storage); }

  Graph finish(const std::vector<Tensor>& outputs, Guards& guards) {
    for (const Tensor& output : outputs) graph_.outputs.push_back(id_of(output, false));
    const RandomKey end = default_generator(graph_.device).get_state();
    WICK_CHECK(end.seed == start_.seed && end.offset >= start_.offset,
               "trace: the default generator was set within the function: expected only draws");
    graph_.draws = static_cast<int64_t>(end.offset - start_.offset);
    note_made(guards);
    const std::vector<bool> changed = changed_roots(graph_);
    for (Constant& constant : graph_.constants) {
      const auto root = static_cast<size_t>(graph_.value(constant.value).root);
      constant.copied = constant.copied && changed[root];
    }
    note_flags(guards);
    note_gradients(guards);
    forget_unread();
    check(graph_);
    return std::move(graph_);
  }

 private:
  // What the function did with the gradient of a leaf.
  struct GradientUse {
    Ref<AccumulateGrad> accumulator;
    Tensor leaf;      // undefined while only the accumulator is known
    Tensor gradient;  // at first
    bool is_read;     // before anything else
    bool is_replaced;
  };

  void note_flags(Guards& guards) const {
    for (const auto& entry : flags_) {
      const Guards::Flag& flag = entry.second;
      WICK_CHECK(flag.tensor.requires_grad() == flag.requires_grad,
                 "trace: the function changes whether a tensor of shape ", flag.tensor.shape(),
                 " requires a gradient: expected it as before at the end");
      guards.flags.push_back(flag);
    }
  }

  // Before `copied` is left to those that change.
  void note_made(Guards& guards) const {
    const std::vector<bool> made = made_roots(graph_);
    for (const auto& [storage, memory] : memories_) {
      if (made[static_cast<size_t>(memory.root)]) guards.made.push_back(memory.storage);
    }
  }

  void note_gradients(Guards& guards) {
    std::set<const TensorImpl*> seen;
    for (const GradientUse& use : gradients_) {
      const Tensor leaf = use.leaf.defined() ? use.leaf : leaf_of(*use.accumulator);
      if (!leaf.defined() || is_own(leaf)) continue;
      const bool is_first = seen.insert(leaf.impl()).second;
      if (is_first && !use.is_read) guards.replaced.push_back(leaf);
      if (is_first && use.is_read) guards.gradients.push_back(read_of(leaf, use.gradient));
      if (use.is_replaced && !leaf.grad().defined()) guards.dropped.push_back(leaf);
    }
  }

  // A constant that is the gradient becomes what the leaf has as a run begins.
  Guards::Gradient read_of(const Tensor& leaf, const Tensor& gradient) {
    Guards::Gradient read{leaf, gradient.defined(), {}};
    const Memory* memory = read.is_defined ? find(gradient) : nullptr;
    Constant* constant = memory == nullptr ? nullptr : constant_of(memory->root);
    if (constant == nullptr) return read;
    if (Geometry(constant->tensor) == Geometry(gradient) && !constant->gradient_of.defined()) {
      constant->gradient_of = leaf;
    } else {
      read.same = gradient;
    }
    return read;
  }

  Tensor leaf_of(const AccumulateGrad& accumulator) const {
    for (const Constant& constant : graph_.constants) {
      const auto& meta = constant.tensor.impl()->autograd;
      if (meta && meta->node.get() == &accumulator) return constant.tensor;
    }
    return {};
  }

  // Whether it is made in the function, or an input.
  bool is_own(const Tensor& x) {
    const Memory* memory = find(x);
    return born_.contains(x.impl()->storage.get()) ||
           (memory != nullptr && constant_of(memory->root) == nullptr);
  }

  std::string place() const {
    const std::string& module = anomaly::module_path();
    return concat(module.empty() ? "" : " in module ", module,
                  graph_.nodes.empty() ? " before the first op" : " after the op ",
                  graph_.nodes.empty() ? "" : last_op_);
  }

  Memory* find(const Tensor& x) {
    const auto found = memories_.find(x.impl()->storage.get());
    return found == memories_.end() ? nullptr : &found->second;
  }
  Memory& memory_of(const Tensor& x) {
    Memory& memory = memories_[x.impl()->storage.get()];
    if (!memory.storage) {
      memory.storage = x.impl()->storage;
      held_.push_back(memory.storage.get());
    }
    return memory;
  }
  // Memory that only the trace holds. The storage stays, for its address.
  void free_unreachable() {
    std::erase_if(held_, [](Storage* storage) {
      if (storage->use_count() > 1) return false;
      storage->free_memory();
      return true;
    });
  }

  // A new value for `x`.
  ValueId add_value(const Tensor& x, Memory* known) {
    Memory& memory = known != nullptr ? *known : memory_of(x);
    const auto id = static_cast<ValueId>(graph_.values.size());
    if (memory.root == kNone) memory.root = id;
    graph_.values.push_back({x.shape(), x.strides(), x.dtype(), x.device(), memory.root});
    memory.values.emplace_back(Geometry(x), id);
    return id;
  }

  // What a node has made.
  ValueId make(const Tensor& x) {
    if (!x.defined()) return kNone;
    refuse_sparse(x);
    Memory& memory = memory_of(x);
    memory.is_computed = true;
    return add_value(x, &memory);
  }

  void refuse_sparse(const Tensor& x) const {
    WICK_CHECK(!x.is_sparse(), "trace: a tensor is sparse: got one of shape ", x.shape(), place(),
               ", expected dense gradients (an embedding with sparse = false)");
  }

  ValueId id_of(const Tensor& x, bool is_overwritten) {
    if (!x.defined()) return kNone;
    refuse_sparse(x);
    Memory* memory = find(x);
    if (memory == nullptr) {
      const bool is_born = born_.contains(x.impl()->storage.get());
      memory = is_born && is_overwritten ? add_empty(x) : add_constant(x, is_born);
    }
    const Geometry geometry(x);
    for (auto value = memory->values.rbegin(); value != memory->values.rend(); ++value) {
      if (!(value->first == geometry)) continue;
      // The leaf itself, where what came first was another handle to its elements.
      Constant* constant = is_leaf_with_gradient(x) ? constant_of(value->second) : nullptr;
      if (constant != nullptr) constant->tensor = x;
      return value->second;
    }
    return add_alias(x, *memory, geometry);
  }

  static bool is_leaf_with_gradient(const Tensor& x) { return x.requires_grad() && x.is_leaf(); }

  static bool is_whole(const Tensor& x) {
    const TensorImpl& impl = *x.impl();
    return impl.offset == 0 && is_dense(impl.shape, impl.strides) &&
           static_cast<size_t>(x.numel() * size_of(x.dtype())) == impl.storage->bytes();
  }

  Memory* add_empty(const Tensor& x) {
    if (!is_whole(x)) return add_constant(x, true);
    const Empty op{x.shape(), x.strides(), x.dtype(), x.device()};
    Node node{OpInstance(empty_type(), &op)};
    node.outputs = {add_value(x, nullptr)};
    graph_.nodes.push_back(std::move(node));
    return find(x);
  }

  // Memory made within the function, by the host: its elements are kept as they are now.
  Memory* add_constant(const Tensor& x, bool is_born) {
    Tensor whole = x.is_leaf() ? x : x.detach();
    if (!is_whole(x)) {
      const Ref<Storage>& storage = x.impl()->storage;
      const auto n = static_cast<int64_t>(storage->bytes()) / size_of(x.dtype());
      whole = Tensor(make_ref<TensorImpl>(storage, 0, Shape{n}, Strides{1}, x.dtype()));
    }
    const ValueId id = add_value(whole, nullptr);
    const auto name = names_.find(x.impl()->storage.get());
    if (is_born) {
      const ScopedValue<OpRecorder*> unseen(op_recorder(), nullptr);
      const NoGrad no_grad;
      whole = whole.clone();
    }
    graph_.constants.push_back(
        {id, whole, name != names_.end() ? name->second : std::string(), is_born, is_born});
    return find(x);
  }

  ValueId add_alias(const Tensor& x, Memory& memory, const Geometry& geometry) {
    const auto base =
        std::find_if(memory.values.begin(), memory.values.end(),
                     [&](const auto& value) { return value.first.dtype == geometry.dtype; });
    WICK_CHECK(base != memory.values.end(), "trace: a tensor shares memory with one of another ",
               "dtype: got ", geometry.dtype, place());
    const Alias op{geometry.offset - base->first.offset, geometry.shape, geometry.strides};
    Node node{OpInstance(alias_type(), &op)};
    node.inputs = {base->second};
    const ValueId id = add_value(x, &memory);
    node.outputs = {id};
    graph_.nodes.push_back(std::move(node));
    return id;
  }

  Constant* constant_of(ValueId id) {
    const auto found =
        std::find_if(graph_.constants.begin(), graph_.constants.end(),
                     [id](const Constant& constant) { return constant.value == id; });
    return found == graph_.constants.end() ? nullptr : &*found;
  }

  // An op draws if it has a seed and an offset.
  void note_draw(Node& node) const {
    const std::optional<int64_t> seed = whole_attribute(node.op, "seed"),
                                 offset = whole_attribute(node.op, "offset");
    if (!seed || !offset) return;
    const uint64_t draw = static_cast<uint64_t>(*offset) - start_.offset;
    const uint64_t end = default_generator(graph_.device).get_state().offset;
    WICK_CHECK(static_cast<uint64_t>(*seed) == start_.seed && draw < end - start_.offset,
               "trace: ", node.op.info().name, " draws from a generator of its own", place(),
               ": its numbers would be the same in each run, expected the default generator of ",
               graph_.device);
    node.draw = static_cast<int64_t>(draw);
  }

  // What ops keep, and outputs beside the first, as far as nothing reads them: an op may make these
  // only where gradients are recorded.
  void forget_unread() {
    std::vector<bool> is_read(graph_.values.size());
    const auto read = [&](ValueId id) { is_read[static_cast<size_t>(id)] = true; };
    for (const Node& node : graph_.nodes) for_each_input(node, read);
    for (const ValueId id : graph_.outputs) {
      if (id != kNone) read(id);
    }
    for (Node& node : graph_.nodes) {
      bool keeps = false;
      for (ValueId& id : node.kept) {
        if (id != kNone && !is_read[static_cast<size_t>(id)]) id = kNone;
        keeps = keeps || id != kNone;
      }
      for (size_t i = 1; i < node.outputs.size() && !node.kept.empty(); ++i) {
        ValueId& id = node.outputs[i];
        if (id != kNone && !is_read[static_cast<size_t>(id)]) id = kNone;
        keeps = keeps || id != kNone;
      }
      if (!keeps) node.kept.clear(), node.needs = 0;
    }
  }

  Graph graph_;
  std::vector<ValueId> next_inputs_;
  int64_t asked_bytes_ = 0;  // since the op began
  std::map<const Storage*, Memory> memories_;
  std::vector<Storage*> held_;  // of those, whose memory is not given back
  std::map<const Storage*, std::string> names_;
  std::set<const Storage*> born_;
  // Leaves, and the gradients that host calls gave them.
  std::set<std::pair<const TensorImpl*, const TensorImpl*>> given_;
  std::vector<GradientUse> gradients_;
  std::map<const TensorImpl*, Guards::Flag> flags_;
  bool is_watching_host_ = true;
  RandomKey start_;
  const char* last_op_ = "";
};

// Has a tracer told of this thread's ops, reads and storages.
class Watch {
 public:
  explicit Watch(Tracer& tracer)
      : ops_(op_recorder(), &tracer),
        thread_(thread_recorder(), &tracer),
        storages_(storage_observer(), &tracer) {
    wick::detail::reads_are_watched.fetch_add(1, std::memory_order_relaxed);
  }
  ~Watch() { wick::detail::reads_are_watched.fetch_sub(1, std::memory_order_relaxed); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  ScopedValue<OpRecorder*> ops_, thread_;
  ScopedValue<StorageObserver*> storages_;
};

std::vector<Tensor> copies(const std::vector<Tensor>& examples) {
  const NoGrad no_grad;
  std::vector<Tensor> all;
  for (const Tensor& example : examples) {
    WICK_CHECK(example.defined(), "trace: an example is undefined");
    all.push_back(example.detach().clone().set_requires_grad(example.requires_grad()));
  }
  return all;
}

}  // namespace

bool is_tracing() { return op_recorder() != nullptr; }

Untraced::Untraced()
    : ops_(op_recorder(), nullptr),
      thread_(thread_recorder(), nullptr),
      storages_(storage_observer(), nullptr) {}

Graph trace(const Function& function, const std::vector<Tensor>& examples, const TensorMap& names,
            const TraceOptions& options) {
  WICK_CHECK(!is_tracing(), "trace: a trace within a trace");
  amp::forget_casts();  // a copy of a weight that is kept from before would be a constant
  const std::vector<Tensor> inputs = copies(examples);
  Tracer tracer(inputs, names);
  std::vector<Tensor> outputs;
  {
    const Watch watch(tracer);
    outputs = function(inputs);
    if (options.leaves_gradients) tracer.leave_gradients();
  }
  Guards unused;
  Graph graph = tracer.finish(outputs, options.guards != nullptr ? *options.guards : unused);
  amp::forget_casts();
  if (options.results != nullptr) *options.results = std::move(outputs);
  return graph;
}

}  // namespace wick::graph
