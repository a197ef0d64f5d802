#include "wick/kernels/elementwise_chain.h"

#include "wick/kernels/cuda/chain_source.h"
#include "wick/kernels/cuda/common/launch.h"
#include "wick/kernels/cuda/runtime_compiler.h"

namespace wick::cuda {

const CompiledKernel* compile_chain(const ElementwiseChain& chain, const View* views,
                                    std::string& why_not) {
  for (int s = 0; s < chain.num_steps; ++s) {
    if (chain.steps[s].source.type != nullptr) continue;
    why_not = "a functor of the program's own has no source at run time";
    return nullptr;
  }
  return compile_kernel(views[0].device, kChainFunction, chain_source(chain, views), why_not);
}

void elementwise_chain(const ElementwiseChain& chain, const CompiledKernel& kernel,
                       const View* views) {
  const std::vector<uint64_t> arguments = chain_arguments(chain, views);
  const Grid grid = grid_for(views[0].device, views[0].numel(), chain_pack(chain, views));
  if (grid.blocks.x == 0) return;
  launch_compiled("fused_elementwise", kernel, grid.blocks.x, grid.threads.x, arguments.data());
}

}  // namespace wick::cuda
