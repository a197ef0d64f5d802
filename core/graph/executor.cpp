#include "wick/core/graph/executor.h"

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <optional>

#include "wick/core/base/scoped_value.h"
#include "wick/core/detail/capture.h"
#include "wick/core/graph/detail/arena.h"
#include "wick/core/graph/detail/fused_chain.h"
#include "wick/core/graph/detail/guards.h"
#include "wick/core/graph/detail/packed_weights.h"
#include "wick/core/graph/trace.h"
#include "wick/core/random.h"

namespace wick::graph {

struct Executor::State {
  explicit State(Graph given)
      : graph(std::move(given)),
        nodes(graph.nodes),
        values(graph.values.size()),
        chains(graph.nodes.size()) {
    check(graph);
    plan_releases();
  }

  std::vector<Tensor> run(const std::vector<Tensor>& inputs) {
    const NoGrad no_grad;
    arena.begin_run();
    const ScopedValue<StorageObserver*> placed(storage_observer(), &arena);
    take_inputs(inputs);
    take_constants();
    if (graph.draws > 0) start = default_generator(graph.device).next(graph.draws);
    for (size_t i = 0; i < nodes.size(); ++i) {
      run_node(nodes[i], i);
      for (const ValueId id : releases[i]) tensor(id) = Tensor();
    }
    std::vector<Tensor> outputs;
    for (const ValueId id : graph.outputs) outputs.push_back(id == kNone ? Tensor() : tensor(id));
    forget();
    arena.end_run();
    return outputs;
  }

  // After the first run, which chose how convolutions are computed.
  void pack() {
    if (std::exchange(is_packed, true)) return;
    const NoGrad no_grad;
    packed = pack_weights(graph, nodes);
    values.resize(graph.values.size() + packed.size());
  }

  Tensor& tensor(ValueId id) { return values[static_cast<size_t>(id)]; }
  void forget() {
    for (Tensor& value : values) value = Tensor();
  }

  void take_inputs(const std::vector<Tensor>& inputs) {
    WICK_CHECK(inputs.size() == graph.inputs.size(), "graph: wrong number of inputs: got ",
               inputs.size(), ", expected ", graph.inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Value& want = graph.value(graph.inputs[i]);
      const Tensor& x = inputs[i];
      WICK_CHECK(x.defined() && x.shape() == want.shape && x.dtype() == want.dtype &&
                     x.device() == want.device,
                 "graph: input ", i, " is not as it was traced: got ",
                 x.defined() ? concat(x.dtype(), x.shape(), " on ", x.device()) : "none",
                 ", expected ", want.dtype, want.shape, " on ", want.device);
      tensor(graph.inputs[i]) = laid_out(x.detach(), want);
    }
  }

  static Tensor laid_out(const Tensor& x, const Value& want) {
    if (x.strides() == want.strides) return x;
    const Tensor copy = empty_strided(want.shape, want.strides, want.dtype, want.device);
    copy.copy_(x);
    return copy;
  }

  void take_constants() {
    for (const Constant& constant : graph.constants) {
      const Tensor x = current(constant);
      const Value& want = graph.value(constant.value);
      WICK_CHECK(!constant.gradient_of.defined() || is_like(x, want),
                 "graph: a gradient is not as it was traced: got ",
                 x.defined() ? concat(x.dtype(), x.shape()) : "none", ", expected ", want.dtype,
                 want.shape);
      tensor(constant.value) = constant.copied ? x.clone() : x;
    }
    std::copy(packed.begin(), packed.end(), values.end() - std::ssize(packed));
  }

  void run_node(Node& node, size_t number) {
    if (!node.body.empty()) return run_fused(node, number);
    std::vector<Tensor> inputs(node.inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (node.inputs[i] != kNone) inputs[i] = tensor(node.inputs[i]);
    }
    Capture* const capture = node.draw >= 0 ? capture_of(graph.device) : nullptr;
    if (node.draw >= 0) {
      const RandomKey from = capture != nullptr ? capture->from_base(start) : start;
      node.op.set("seed", static_cast<int64_t>(from.seed));
      node.op.set("offset", static_cast<int64_t>(from.offset) + node.draw);
    }
    if (capture != nullptr) capture->is_base_due = true;
    KeptForBackward kept{node.needs, {}};
    std::vector<Tensor> outputs =
        replay_op(node.op.type(), node.op.get(), inputs, node.kept.empty() ? nullptr : &kept);
    WICK_CHECK(capture == nullptr || !capture->is_base_due,
               "cuda_graph: captured work must not draw random numbers by ", node.op.info().name,
               ": its numbers would be the same at each replay");
    put(node, node.outputs, outputs);
    if (!node.kept.empty()) put(node, node.kept, kept.tensors);
  }

  void run_fused(Node& node, size_t number) {
    std::optional<FusedChain>& chain = chains[number];
    if (!chain || !chain->is_for(node, values)) {
      chain.emplace(graph, node, values);
      tell_why_unfused(chain->why_not());
    }
    if (chain->is_possible()) return chain->run(graph, values);
    for (size_t p = 0; p < node.body.size(); ++p) {
      run_node(node.body[p], number);
      release_parts(node, p);
    }
  }

  // What no later op of the node reads, and nothing outside.
  void release_parts(const Node& node, size_t last) {
    const auto stays = [&](ValueId id) {
      const auto reads = [&](const Node& part) {
        return std::count(part.inputs.begin(), part.inputs.end(), id) > 0;
      };
      return std::count(node.outputs.begin(), node.outputs.end(), id) > 0 ||
             std::any_of(node.body.begin() + static_cast<std::ptrdiff_t>(last) + 1, node.body.end(),
                         reads);
    };
    for (size_t p = 0; p <= last; ++p) {
      const ValueId made = node.body[p].outputs[0];
      if (!stays(made)) tensor(made) = Tensor();
    }
  }

  void tell_why_unfused(const std::string& why) {
    if (why.empty() || !why_unfused.empty()) return;
    why_unfused = why;
    static std::once_flag told;
    std::call_once(told, [&] {
      std::fprintf(stderr, "wick: graph: the ops of a fused node run one by one: %s\n",
                   why.c_str());
    });
  }

  void put(const Node& node, const std::vector<ValueId>& ids, std::vector<Tensor>& made) {
    WICK_CHECK(made.size() == ids.size(), "graph: ", node.op.info().name,
               ": wrong number of results: got ", made.size(), ", expected ", ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] == kNone) continue;
      const Value& want = graph.value(ids[i]);
      WICK_CHECK(
          made[i].defined() && made[i].shape() == want.shape && made[i].dtype() == want.dtype,
          "graph: ", node.op.info().name, ": a result is not as it was traced: got ",
          made[i].defined() ? concat(made[i].dtype(), made[i].shape()) : "none", ", expected ",
          want.dtype, want.shape);
      tensor(ids[i]) = std::move(made[i]);
    }
  }

  // After which node each value is read for the last time.
  void plan_releases() {
    constexpr size_t kUnread = SIZE_MAX;
    std::vector<size_t> last(graph.values.size(), kUnread);
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const auto note = [&](ValueId id) { last[static_cast<size_t>(id)] = i; };
      for_each_output(graph.nodes[i], note);
      for_each_input(graph.nodes[i], note);
      for (const Node& part : graph.nodes[i].body) for_each_output(part, note);
    }
    for (const ValueId id : graph.outputs) {
      if (id != kNone) last[static_cast<size_t>(id)] = kUnread;
    }
    releases.resize(graph.nodes.size());
    for (size_t id = 0; id < last.size(); ++id) {
      if (last[id] != kUnread) releases[last[id]].push_back(static_cast<ValueId>(id));
    }
  }

  Graph graph;              // as it was given
  std::vector<Node> nodes;  // as they run
  std::vector<Tensor> values;
  std::vector<Tensor> packed;  // the last of the values
  bool is_packed = false;
  std::vector<std::vector<ValueId>> releases;
  std::vector<std::optional<FusedChain>> chains;  // of fused nodes, once they ran
  RandomKey start{};
  Arena arena;
  std::string why_unfused;
};

Executor::Executor(Graph graph) : state_(std::make_unique<State>(std::move(graph))) {}
Executor::~Executor() = default;
Executor::Executor(Executor&&) noexcept = default;
Executor& Executor::operator=(Executor&&) noexcept = default;

int64_t Executor::arena_bytes() const { return static_cast<int64_t>(state_->arena.bytes()); }
int64_t Executor::num_fused() const {
  return std::count_if(state_->chains.begin(), state_->chains.end(),
                       [](const auto& chain) { return chain && chain->is_possible(); });
}
const std::string& Executor::why_unfused() const { return state_->why_unfused; }
const Graph& Executor::graph() const { return state_->graph; }

std::vector<Tensor> Executor::run(const std::vector<Tensor>& inputs) {
  WICK_CHECK(!is_tracing(), "graph: a graph cannot run within a trace");
  try {
    std::vector<Tensor> outputs = state_->run(inputs);
    state_->pack();
    return outputs;
  } catch (...) {
    state_->forget();
    throw;
  }
}

std::vector<Tensor> run(const Graph& graph, const std::vector<Tensor>& inputs) {
  return Executor(graph).run(inputs);
}

}  // namespace wick::graph
