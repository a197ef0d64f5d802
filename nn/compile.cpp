#include "wick/nn/compile.h"

#include "wick/core/autograd.h"

namespace wick::graph {

namespace {

std::string training_flags(nn::Module& module) {
  std::string flags;
  module.apply(
      [&flags](const std::string&, nn::Module& part) { flags += part.is_training() ? 't' : 'e'; });
  return flags;
}

}  // namespace

CompiledModule::CompiledModule(nn::Module& module, const CompileOptions& options)
    : function_(
          [&module](const std::vector<Tensor>& inputs) {
            const NoGrad no_grad;
            return std::vector<Tensor>{module(inputs[0])};
          },
          options, [&module] { return module.state_dict(); },
          [&module] { return training_flags(module); }) {}

CompiledModule compile(nn::Module& module, const CompileOptions& options) {
  return CompiledModule(module, options);
}

}  // namespace wick::graph
