#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "wick/core/graph/executor.h"
#include "wick/core/graph/trace.h"

namespace wick::graph {

/// How much a compiled function does.
enum class CompileMode : uint8_t {
  kFuse,  // runs the graph, with elementwise ops fused
  kFull,  // after all passes
};

/// Options of CompiledFunction and compile_step(). The latter makes one warm-up where 0 are given.
struct CompileOptions {
  CompileMode mode = CompileMode::kFull;
  /// Traces at most; calls of further kinds run eagerly.
  int64_t recompile_limit = 8;
  /// Eager calls before the first trace: a step makes its state there.
  int64_t warm_ups = 0;
  /// For inference: graphs keep copies of the parameters and buffers as they are when traced. So
  /// batch norms fold into convolutions (fold_batch_norms()). Results differ from the function's by
  /// rounding. After a change of a parameter the next call traces again. Writes through a pointer
  /// of `data()` are not noticed. Error for compile_step() and without kFull.
  bool freeze = false;
};

/// A function of tensors that is traced at the first call of a kind, and runs as a graph at later
/// calls of that kind. A kind is the shapes, dtypes, layouts and devices of the inputs, autocast,
/// `deterministic` and modes. Results have no history for autograd. Each run leaves the gradients
/// in leaves that the function leaves there.
///
/// A kind has several graphs where the function finds a leaf frozen or not, or with a gradient or
/// without. A graph is traced again once a tensor that the function finds elsewhere has another
/// shape, dtype or device. After `recompile_limit` traces, calls that no graph stands for run
/// eagerly, and why_eager() gives the reason.
class CompiledFunction {
 public:
  /// `names`: names of parameters and buffers, for printing. `modes`: a text of whatever else
  /// decides what the function does. Another text is another kind.
  explicit CompiledFunction(Function function, const CompileOptions& options = {},
                            std::function<TensorMap()> names = {},
                            std::function<std::string()> modes = {});
  ~CompiledFunction();
  CompiledFunction(CompiledFunction&&) noexcept;
  CompiledFunction& operator=(CompiledFunction&&) noexcept;

  /// Errors: those of the function, and of trace().
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs);

  /// What a call would run, for CapturedFunction: a graph, and where its constants are. Empty if
  /// the call would be traced, would run eagerly, or would be the first run of its graph.
  std::vector<uint64_t> identity(const std::vector<Tensor>& inputs);
  /// Traces so far.
  int64_t num_graphs() const;
  /// The graph that ran last, after its passes. Error before the second call of a kind.
  const Graph& graph() const;
  /// Why calls of further kinds run eagerly; empty while they are traced. A process prints it once.
  const std::string& why_eager() const;
  /// Executor::why_unfused() of the graph that ran last; empty before.
  std::string why_unfused() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A training step as a graph: forward, backward, the optimizer's step and the results. The first
/// call runs eagerly. `names` and `modes` are those of CompiledFunction; nn/compile.h has the form
/// for a step of a module.
CompiledFunction compile_step(Function step, CompileOptions options = {},
                              std::function<TensorMap()> names = {},
                              std::function<std::string()> modes = {});

}  // namespace wick::graph
