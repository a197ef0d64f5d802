#pragma once

#include "wick/core/graph/compile.h"
#include "wick/nn/module.h"

namespace wick::graph {

/// A module as a graph, for inference.
class CompiledModule {
 public:
  explicit CompiledModule(nn::Module& module, const CompileOptions& options = {});

  /// What the module's forward gives, without gradients. The first call of a kind is traced, as
  /// CompiledFunction says; train() and eval() of any part make another kind, as do parameters,
  /// buffers and children that are replaced.
  Tensor operator()(const Tensor& x) { return function_({x})[0]; }

  /// The function of the module's inputs, for its figures.
  const CompiledFunction& function() const { return function_; }

 private:
  CompiledFunction function_;
};

/// Compiles a module, which must outlive what is returned.
CompiledModule compile(nn::Module& module, const CompileOptions& options = {});

/// compile_step() of a step that calls `module`, which must outlive what is returned: train() and
/// eval() of any part make another kind of call, as do parameters, buffers and children that are
/// replaced.
CompiledFunction compile_step(nn::Module& module, Function step,
                              const CompileOptions& options = {});

}  // namespace wick::graph
