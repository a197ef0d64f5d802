#include "wick/core/graph/compile.h"

#include <algorithm>
#include <map>

#include "wick/core/amp.h"
#include "wick/core/base/deterministic.h"
#include "wick/core/base/tf32.h"
#include "wick/core/graph/host_call.h"
#include "wick/core/graph/passes.h"

namespace wick::graph {

namespace {

// All that decides about the ops that a function runs, but for what modes() tells.
std::string kind_of(const std::vector<Tensor>& inputs) {
  const amp::AutocastState autocast = amp::autocast_state();
  std::string kind = concat(grad_enabled(), inference_mode(), deterministic(), allow_tf32());
  for (const amp::DeviceAutocast& device : {autocast.cpu, autocast.cuda}) {
    kind += device.enabled ? concat(" ", device.dtype) : " -";
  }
  for (const Tensor& x : inputs) {
    WICK_CHECK(x.defined(), "compile: an input is undefined");
    kind += concat(" ", x.dtype(), x.shape(), x.strides(), x.device(), x.requires_grad());
  }
  return kind;
}

}  // namespace

// A tensor of which a graph has a copy, and what it was then.
struct Frozen {
  Tensor tensor;
  Ref<Storage> storage;
  uint64_t version = 0;

  bool is_changed() const {
    return tensor.impl()->storage.get() != storage.get() || tensor.version() != version;
  }
  // Freezes the constants of a graph.
  static std::vector<Frozen> freeze(Graph& graph) {
    std::vector<Tensor> before;
    for (const Constant& constant : graph.constants) before.push_back(constant.tensor);
    freeze_constants(graph);
    std::vector<Frozen> frozen;
    for (size_t i = 0; i < before.size(); ++i) {
      if (before[i].is_same(graph.constants[i].tensor)) continue;
      frozen.push_back({before[i], before[i].impl()->storage, before[i].version()});
    }
    return frozen;
  }
};

// A graph, and whose gradients its constants are: a program that gives a leaf another one, or none,
// wants another graph.
struct CompiledGraph {
  Executor executor;
  std::vector<std::pair<Tensor, Tensor>> gradients;
  std::vector<Tensor> replaced;  // leaves whose gradients a run makes without reading the old ones
  std::vector<Frozen> frozen;

  CompiledGraph(Graph graph, std::vector<Frozen> copied)
      : executor(std::move(graph)), frozen(std::move(copied)) {
    const std::vector<Constant>& all = executor.graph().constants;
    for (const Constant& leaf : all) {
      if (!leaf.tensor.requires_grad() || !leaf.tensor.is_leaf()) continue;
      const Tensor gradient = leaf.tensor.grad();
      for (const Constant& other : all) {
        if (gradient.defined() && gradient.is_same(other.tensor)) {
          gradients.emplace_back(leaf.tensor, gradient);
        }
      }
    }
    for (const Tensor& leaf : leaves_given_gradients(executor.graph())) {
      const auto is_read = [&](const auto& read) { return read.first.is_same(leaf); };
      if (std::none_of(gradients.begin(), gradients.end(), is_read)) replaced.push_back(leaf);
    }
  }

  std::vector<Tensor> run(const std::vector<Tensor>& inputs) {
    for (const Tensor& leaf : replaced) leaf.set_grad(Tensor());  // as zero_grad() does
    return executor.run(inputs);
  }

  bool holds() const {
    const Graph& graph = executor.graph();
    for (const Constant& constant : graph.constants) {
      const Value& value = graph.value(constant.value);
      const Tensor& x = constant.tensor;
      const bool same = x.dtype() == value.dtype && x.device() == value.device &&
                        x.shape() == value.shape && x.strides() == value.strides;
      if (!same) return false;
    }
    for (const Frozen& original : frozen) {
      if (original.is_changed()) return false;
    }
    for (const auto& [leaf, gradient] : gradients) {
      if (!leaf.grad().is_same(gradient)) return false;
    }
    return true;
  }
};

struct CompiledFunction::State {
  Function function;
  CompileOptions options;
  std::function<TensorMap()> names;
  std::function<std::string()> modes;
  bool leaves_gradients = false;
  std::map<std::string, CompiledGraph> compiled;
  const CompiledGraph* last = nullptr;
  int64_t calls = 0;
  int64_t traces = 0;
  std::string why_eager;

  std::vector<Tensor> call(const std::vector<Tensor>& inputs) {
    if (is_tracing() || calls++ < options.warm_ups) return function(inputs);
    const std::string kind = kind_of(inputs) + (modes ? "\n" + modes() : "");
    auto found = compiled.find(kind);
    if (found != compiled.end() && !found->second.holds()) {
      last = nullptr;
      compiled.erase(found);
      found = compiled.end();
    }
    if (found != compiled.end()) {
      last = &found->second;
      return found->second.run(inputs);
    }
    if (traces == options.recompile_limit) {
      if (why_eager.empty()) {
        why_eager =
            concat("compile: ", traces, " kinds of calls were traced, the most that ",
                   "recompile_limit allows: calls of further kinds run eagerly, the first: ", kind);
      }
      return function(inputs);
    }
    return trace_call(kind, inputs);
  }

  std::vector<Tensor> trace_call(const std::string& kind, const std::vector<Tensor>& inputs) {
    std::vector<Tensor> results;
    Graph graph = trace(function, inputs, names ? names() : TensorMap(),
                        {.leaves_gradients = leaves_gradients, .results = &results});
    ++traces;
    std::vector<Frozen> frozen;
    if (options.freeze) {
      frozen = Frozen::freeze(graph);
      optimize_for_inference(graph);
    } else if (options.mode == CompileMode::kFull) {
      optimize(graph);
    } else {
      remove_dead_nodes(graph);
      fuse_elementwise(graph);
    }
    last =
        &compiled.emplace(kind, CompiledGraph(std::move(graph), std::move(frozen))).first->second;
    for (Tensor& result : results) {
      if (result.defined()) result = result.detach();
    }
    return results;
  }
};

CompiledFunction::CompiledFunction(Function function, const CompileOptions& options,
                                   std::function<TensorMap()> names,
                                   std::function<std::string()> modes)
    : state_(std::make_unique<State>()) {
  WICK_CHECK(options.recompile_limit >= 0 && options.warm_ups >= 0,
             "compile: recompile_limit and warm_ups: got ", options.recompile_limit, " and ",
             options.warm_ups, ", expected 0 or more");
  WICK_CHECK(!options.freeze || options.mode == CompileMode::kFull,
             "compile: freeze needs the mode kFull: got kFuse");
  state_->function = std::move(function);
  state_->options = options;
  state_->names = std::move(names);
  state_->modes = std::move(modes);
}
CompiledFunction::~CompiledFunction() = default;
CompiledFunction::CompiledFunction(CompiledFunction&&) noexcept = default;
CompiledFunction& CompiledFunction::operator=(CompiledFunction&&) noexcept = default;

std::vector<Tensor> CompiledFunction::operator()(const std::vector<Tensor>& inputs) {
  return state_->call(inputs);
}
int64_t CompiledFunction::num_graphs() const { return state_->traces; }
const std::string& CompiledFunction::why_eager() const { return state_->why_eager; }
std::string CompiledFunction::why_unfused() const {
  return state_->last == nullptr ? "" : state_->last->executor.why_unfused();
}
const Graph& CompiledFunction::graph() const {
  WICK_CHECK(state_->last != nullptr, "compile: no graph yet: call the function before");
  return state_->last->executor.graph();
}

CompiledFunction compile_step(Function step, CompileOptions options) {
  WICK_CHECK(!options.freeze, "compile_step: a step changes its parameters: got freeze");
  if (options.warm_ups == 0) options.warm_ups = 1;
  CompiledFunction compiled(std::move(step), options);
  compiled.state_->leaves_gradients = true;
  return compiled;
}

}  // namespace wick::graph
