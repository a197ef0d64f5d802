#include "wick/nn/compile.h"

#include <utility>

#include "wick/core/autograd.h"

namespace wick::graph {

namespace {

// The modes of the parts, and which tensors they have: where any differs, the call is of another
// kind.
std::string state_of(nn::Module& module) {
  std::string text;
  module.apply(
      [&text](const std::string&, nn::Module& part) { text += part.is_training() ? 't' : 'e'; });
  for (const nn::NamedTensors& all : {module.named_parameters(), module.named_buffers()}) {
    for (const auto& [name, tensor] : all) {
      const void* const id = tensor.impl();
      text.append(reinterpret_cast<const char*>(&id), sizeof id);
    }
  }
  return text;
}

}  // namespace

CompiledModule::CompiledModule(nn::Module& module, const CompileOptions& options)
    : function_(
          [&module](const std::vector<Tensor>& inputs) {
            const NoGrad no_grad;
            return std::vector<Tensor>{module(inputs[0])};
          },
          options, [&module] { return module.state_dict(); },
          [&module] { return state_of(module); }) {}

CompiledModule compile(nn::Module& module, const CompileOptions& options) {
  return CompiledModule(module, options);
}

CompiledFunction compile_step(nn::Module& module, Function step, const CompileOptions& options) {
  return compile_step(
      std::move(step), options, [&module] { return module.state_dict(); },
      [&module] { return state_of(module); });
}

}  // namespace wick::graph
