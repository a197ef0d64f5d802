#pragma once

#include <functional>
#include <vector>

#include "wick/core/base/scoped_value.h"
#include "wick/core/graph/graph.h"
#include "wick/core/serialize.h"

namespace wick {
class OpRecorder;
class StorageObserver;
}  // namespace wick

namespace wick::graph {

using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;

struct Guards;

/// Options of trace().
struct TraceOptions {
  /// Whether each run sets the gradients that the function sets in leaves.
  bool leaves_gradients = false;
  /// Receives the results of the traced call.
  std::vector<Tensor>* results = nullptr;
  /// For the library's own use: receives what the function read beside elements of tensors.
  Guards* guards = nullptr;
};

/// Runs `function` once on copies of `examples`. Returns the ops that passed the door in the
/// call: forward, and backward where the function runs it. A run of the graph does the same to
/// other inputs of the same shapes, dtypes and layouts. Tensors that the function finds elsewhere
/// (parameters, buffers) become constants, by the same handle; `names` names them. The host's
/// decisions are fixed. Each run draws new random numbers from the default generator.
///
/// Errors name the module and the last op. A host read of a traced tensor is an error (item(),
/// to_vector(), data(), raw_data(), view_for_kernel()); reads on other threads are not noticed. So
/// is a shape that depends on data (nonzero(), masked_select(), boolean indices). Other errors are
/// a draw from another generator, a sparse gradient, and a trace within a trace.
Graph trace(const Function& function, const std::vector<Tensor>& examples,
            const TensorMap& names = {}, const TraceOptions& options = {});

/// Whether this thread is within trace().
bool is_tracing();

/// Work on the side of a trace: while it lives, this thread's ops and reads are no part of the
/// graph, and tensors that are made are the program's own. What is done so is done once, not in
/// each run.
class Untraced {
 public:
  Untraced();

 private:
  ScopedValue<OpRecorder*> ops_, thread_;
  ScopedValue<StorageObserver*> storages_;
};

}  // namespace wick::graph
