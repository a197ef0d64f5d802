#include "wick/core/graph/compile.h"

#include <algorithm>
#include <cstdio>
#include <list>
#include <map>
#include <mutex>

#include "wick/core/amp.h"
#include "wick/core/autograd.h"
#include "wick/core/base/deterministic.h"
#include "wick/core/base/tf32.h"
#include "wick/core/graph/detail/guards.h"
#include "wick/core/graph/passes.h"
#include "wick/core/ops/attention.h"
#include "wick/core/ops/rnn.h"

namespace wick::graph {

namespace {

// All that decides about the ops that a function runs, but for what modes() tells.
std::string kind_of(const std::vector<Tensor>& inputs) {
  const amp::AutocastState autocast = amp::autocast_state();
  std::string kind = concat(grad_enabled(), inference_mode(), deterministic(), allow_tf32(),
                            fused_attention_enabled(), library_rnn_enabled());
  for (const amp::DeviceAutocast& device : {autocast.cpu, autocast.cuda}) {
    kind += device.enabled ? concat(" ", device.dtype) : " -";
  }
  for (const Tensor& x : inputs) {
    WICK_CHECK(x.defined(), "compile: an input is undefined");
    kind += concat(" ", x.dtype(), x.shape(), x.strides(), x.device(), x.requires_grad());
  }
  return kind;
}

void tell_why_eager(const std::string& why) {
  static std::once_flag told;
  std::call_once(
      told, [&] { std::fprintf(stderr, "wick: %s\n", why.substr(0, why.find('\n')).c_str()); });
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

// A graph, and what decides whether a call may run it.
class CompiledGraph {
 public:
  CompiledGraph(uint64_t of, Graph graph, Guards read, std::vector<Frozen> copied)
      : number(of),
        executor(std::move(graph)),
        guards(std::move(read)),
        frozen(std::move(copied)) {}

  const uint64_t number;  // of its trace
  Executor executor;
  Guards guards;
  std::vector<Frozen> frozen;

  std::vector<Tensor> run(const std::vector<Tensor>& inputs) {
    drop_gradients(guards.replaced);
    std::vector<Tensor> results = executor.run(inputs);
    drop_gradients(guards.dropped);
    has_run_ = true;
    return results;
  }

  // Whether no call can run it any more.
  bool is_outdated() const {
    return std::any_of(frozen.begin(), frozen.end(),
                       [](const Frozen& original) { return original.is_changed(); }) ||
           !are_like(/*gradients=*/false);
  }
  // Whether a call can run it now, if it is not outdated.
  bool holds() const { return guards.hold() && are_like(/*gradients=*/true); }

  // What a repetition of its last run relies on; empty before the first one, which compiles
  // kernels.
  std::vector<uint64_t> identity() const {
    if (!has_run_) return {};
    std::vector<uint64_t> all{number};
    for (const Constant& constant : executor.graph().constants) {
      all.push_back(reinterpret_cast<uintptr_t>(current(constant).address()));
    }
    return all;
  }

 private:
  bool has_run_ = false;

  bool are_like(bool gradients) const {
    const Graph& graph = executor.graph();
    return std::all_of(graph.constants.begin(), graph.constants.end(), [&](const Constant& c) {
      return c.gradient_of.defined() != gradients || is_like(current(c), graph.value(c.value));
    });
  }
};

namespace {

// How many of these tensors have that memory.
int64_t count_with(const std::vector<Tensor>& tensors, const Storage* storage) {
  return std::count_if(tensors.begin(), tensors.end(), [storage](const Tensor& x) {
    return x.defined() && x.impl()->storage.get() == storage;
  });
}

// Whether the program holds memory that was made in the trace, beside these results and gradients
// of leaves.
bool is_kept(const std::vector<Ref<Storage>>& made, const std::vector<Tensor>& results,
             const std::vector<Tensor>& inputs, const Graph& graph) {
  std::vector<Tensor> known = results;
  for (const Tensor& input : inputs) known.push_back(input.grad());
  for (const Constant& constant : graph.constants) {
    if (constant.tensor.is_leaf()) known.push_back(constant.tensor.grad());
    if (constant.gradient_of.defined()) known.push_back(constant.gradient_of.grad());
  }
  return std::any_of(made.begin(), made.end(), [&](const Ref<Storage>& memory) {
    return memory->use_count() > 1 + count_with(known, memory.get());
  });
}

}  // namespace

// The copies of its inputs that a function gets while it is traced.
class TracedInputs {
 public:
  TracedInputs() = default;
  explicit TracedInputs(const std::vector<Tensor>& copies) : copies_(copies) {
    for (const Tensor& copy : copies) versions_.push_back(copy.defined() ? copy.version() : 0);
  }

  // Changes what the function changed. Error if another input shares that memory.
  void copy_changes_to(const std::vector<Tensor>& inputs) const {
    const NoGrad no_grad;
    for (size_t i = 0; i < copies_.size(); ++i) {
      if (!copies_[i].defined() || copies_[i].version() == versions_[i]) continue;
      for (size_t k = 0; k < inputs.size(); ++k) {
        const bool shared =
            k != i && inputs[k].defined() && inputs[k].impl()->storage == inputs[i].impl()->storage;
        WICK_CHECK(!shared, "compile: inputs ", i, " and ", k, " share memory, and the function ",
                   "changes input ", i, ": expected inputs with memory of their own");
      }
      inputs[i].copy_(copies_[i]);
    }
  }

  const std::vector<Tensor>& copies() const { return copies_; }

  // Whether the program holds one, beside these results, which are handles of their own.
  bool are_kept(const std::vector<Tensor>& results) const {
    return std::any_of(copies_.begin(), copies_.end(), [&](const Tensor& copy) {
      const Storage* const storage = copy.impl()->storage.get();
      return copy.impl()->use_count() > 1 ||
             storage->use_count() > 1 + count_with(results, storage);
    });
  }

  // `result` as a run gives it: where it lies in a copy, the same part of the input itself, if a
  // run takes that as it is laid out.
  Tensor of_input(const Tensor& result, const std::vector<Tensor>& inputs) const {
    for (size_t i = 0; i < copies_.size(); ++i) {
      const TensorImpl &copy = *copies_[i].impl(), &input = *inputs[i].impl();
      if (result.impl()->storage != copy.storage || copy.strides != input.strides) continue;
      const int64_t offset = input.offset + result.impl()->offset - copy.offset;
      return Tensor(make_ref<TensorImpl>(input.storage, offset, result.shape(), result.strides(),
                                         result.dtype()))
          .detach();
    }
    return result;
  }

 private:
  std::vector<Tensor> copies_;
  std::vector<uint64_t> versions_;
};

struct CompiledFunction::State {
  Function function;
  CompileOptions options;
  std::function<TensorMap()> names;
  std::function<std::string()> modes;
  std::map<std::string, std::list<CompiledGraph>> compiled;  // by kind
  const CompiledGraph* last = nullptr;
  int64_t calls = 0;
  int64_t traces = 0;
  std::string why_eager;
  bool keeps_results = false;  // the function: it cannot run as a graph

  std::string kind(const std::vector<Tensor>& inputs) const {
    return kind_of(inputs) + (modes ? "\n" + modes() : "");
  }

  std::vector<Tensor> call(const std::vector<Tensor>& inputs) {
    if (is_tracing() || keeps_results || calls++ < options.warm_ups) return function(inputs);
    const std::string kind = this->kind(inputs);
    if (CompiledGraph* graph = find(kind)) {
      last = graph;
      return graph->run(inputs);
    }
    if (traces == options.recompile_limit) {
      if (why_eager.empty()) {
        why_eager =
            concat("compile: ", traces, " kinds of calls were traced, the most that ",
                   "recompile_limit allows: calls of further kinds run eagerly, the first: ", kind);
        tell_why_eager(why_eager);
      }
      return function(inputs);
    }
    return trace_call(compiled[kind], inputs);
  }

  // The graph of that kind that stands for the function now; null if there is none.
  CompiledGraph* find(const std::string& kind) {
    const auto found = compiled.find(kind);
    if (found == compiled.end()) return nullptr;
    std::list<CompiledGraph>& graphs = found->second;
    for (auto graph = graphs.begin(); graph != graphs.end();) {
      if (graph->is_outdated()) {
        if (last == &*graph) last = nullptr;
        graph = graphs.erase(graph);
      } else if (graph->holds()) {
        return &*graph;
      } else {
        ++graph;
      }
    }
    return nullptr;
  }

  std::vector<Tensor> trace_call(std::list<CompiledGraph>& graphs,
                                 const std::vector<Tensor>& inputs) {
    std::vector<Tensor> results;
    Guards guards;
    TracedInputs traced;
    const Function watched = [&](const std::vector<Tensor>& in) {
      traced = TracedInputs(in);
      return function(in);
    };
    Graph graph = trace(watched, inputs, names ? names() : TensorMap(),
                        {.leaves_gradients = true, .results = &results, .guards = &guards});
    traced.copy_changes_to(inputs);
    for (Tensor& result : results) {
      if (result.defined()) result = result.detach();
    }
    if (is_kept(guards.made, results, traced.copies(), graph) || traced.are_kept(results)) {
      keeps_results = true;
      why_eager = concat("compile: the function assigns a tensor that it computes to a variable ",
                         "outside, which a graph cannot repeat: all calls run eagerly, expected ",
                         "such tensors as results, or changed in place");
      tell_why_eager(why_eager);
      return results;
    }
    guards.made.clear();
    for (Tensor& result : results) {
      if (result.defined()) result = traced.of_input(result, inputs);
    }
    ++traces;
    for (Constant& constant : graph.constants) {
      if (constant.gradient_of.defined()) constant.tensor = Tensor();  // not held between runs
    }
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
    last = &graphs.emplace_back(static_cast<uint64_t>(traces), std::move(graph), std::move(guards),
                                std::move(frozen));
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
std::vector<uint64_t> CompiledFunction::identity(const std::vector<Tensor>& inputs) {
  const CompiledGraph* const graph = state_->find(state_->kind(inputs));
  return graph == nullptr ? std::vector<uint64_t>() : graph->identity();
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

CompiledFunction compile_step(Function step, CompileOptions options,
                              std::function<TensorMap()> names,
                              std::function<std::string()> modes) {
  WICK_CHECK(!options.freeze, "compile_step: a step changes its parameters: got freeze");
  if (options.warm_ups == 0) options.warm_ups = 1;
  return CompiledFunction(std::move(step), options, std::move(names), std::move(modes));
}

}  // namespace wick::graph
