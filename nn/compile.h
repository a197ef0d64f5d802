#pragma once

#include "wick/core/graph/compile.h"
#include "wick/nn/module.h"

namespace wick::graph {

/// A module as a graph, for inference.
class CompiledModule {
 public:
  explicit CompiledModule(nn::Module& module, const CompileOptions& options = {});

  /// What the module's forward gives, without gradients. The first call of a kind is traced, as
  /// CompiledFunction says; train() and eval() of any part make another kind.
  Tensor operator()(const Tensor& x) { return function_({x})[0]; }

  /// The function of the module's inputs, for its figures.
  const CompiledFunction& function() const { return function_; }

 private:
  CompiledFunction function_;
};

/// Compiles a module, which must outlive what is returned and keep its children.
CompiledModule compile(nn::Module& module, const CompileOptions& options = {});

}  // namespace wick::graph
